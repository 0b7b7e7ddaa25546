"""Snapshot in, plan out: who runs where, and why not."""
