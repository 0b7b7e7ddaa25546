"""Worlds as text, builders and strategies: for our tests and for those of plugin authors."""
