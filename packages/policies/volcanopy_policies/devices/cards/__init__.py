"""Cards that pods share, whatever they are: GPUs or NPUs."""
