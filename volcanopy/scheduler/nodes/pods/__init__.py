"""Filters on the pods of a node: affinity, spread constraints, host ports."""
