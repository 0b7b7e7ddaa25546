"""The scheduler process."""
