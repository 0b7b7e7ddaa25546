"""Leader election with a Lease."""
