"""What no plan may violate, checked on the frozen tables only."""
