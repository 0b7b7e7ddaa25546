"""Invariants of plans, checked on the frozen tables only."""
