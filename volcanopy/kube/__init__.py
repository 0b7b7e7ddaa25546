"""The only floor that calls the Kubernetes API."""
