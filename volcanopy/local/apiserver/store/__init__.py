"""Stored objects: versions, journal, selectors, garbage collection."""
