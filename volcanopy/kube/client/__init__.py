"""The Kubernetes API client: connections, typed verbs, errors."""
