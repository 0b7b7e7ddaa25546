"""The cluster state of the running scheduler: watches, statuses that are expected, and objects that cannot be read."""
