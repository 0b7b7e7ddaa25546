"""Policies that reject and score nodes."""
