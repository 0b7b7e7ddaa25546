"""Command line interface: the only package that prints."""
