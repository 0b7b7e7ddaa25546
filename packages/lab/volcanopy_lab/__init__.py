"""For researchers and developers: simulated workloads, and faults in a running cluster."""
