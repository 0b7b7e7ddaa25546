"""CPUs by NUMA node."""
