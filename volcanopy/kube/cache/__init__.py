"""Watches, and the caches that they keep up to date."""
