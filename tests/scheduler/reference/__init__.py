"""Slow and obvious twins of the scheduler's fast code; tests compare the two."""
