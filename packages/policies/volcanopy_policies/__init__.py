"""Optional policies: loaded by entry points when a configuration names one, as those of other packages are."""
