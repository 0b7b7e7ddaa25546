"""Access to the Kubernetes API: client, caches, writers, leader election, metrics."""
