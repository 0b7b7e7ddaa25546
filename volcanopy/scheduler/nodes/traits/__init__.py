"""Filters on node properties that placements do not change: labels and taints."""
