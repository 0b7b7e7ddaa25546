"""Stored objects: versions, journal, selectors."""
