"""Filters on volumes: binding, topology, attach limits."""
