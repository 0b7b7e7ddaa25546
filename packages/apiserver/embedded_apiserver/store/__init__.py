"""Stored objects: versions, journal."""
