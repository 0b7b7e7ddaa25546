"""Devices of vendors that pods share: GPUs and NPUs, by what their device plugins read and write."""
