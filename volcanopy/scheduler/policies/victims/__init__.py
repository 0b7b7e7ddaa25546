"""Policies about the pods that are evicted."""
