"""Frozen values of a cycle: the snapshot's tables, the plan, resources, messages."""
