"""Watches, and what they have shown of the cluster."""
