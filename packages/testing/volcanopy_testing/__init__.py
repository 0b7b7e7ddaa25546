"""Worlds as text and random worlds: for our tests and for those of plugin authors."""
