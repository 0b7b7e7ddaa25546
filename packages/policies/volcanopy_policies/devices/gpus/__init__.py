"""Shared and whole GPU cards."""
