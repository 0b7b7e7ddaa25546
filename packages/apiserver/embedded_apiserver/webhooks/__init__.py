"""Admission by the cluster: calls of webhooks, and the rules of admission policies."""
