"""Prometheus metrics of all processes."""
