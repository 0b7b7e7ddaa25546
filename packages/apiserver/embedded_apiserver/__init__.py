"""The embedded API server: the Kubernetes API on loopback, for kubectl and every other client."""
