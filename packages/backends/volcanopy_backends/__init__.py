"""Backends of tools that submit jobs: each loads only where its tool does."""
