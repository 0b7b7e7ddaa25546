"""Readers of workloads in files."""
