"""Node scores with the outcome of kube-scheduler's."""
