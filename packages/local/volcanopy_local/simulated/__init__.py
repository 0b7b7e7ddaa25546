"""Simulated nodes: a kubelet that runs no containers, and the controllers of volumes and device claims."""
