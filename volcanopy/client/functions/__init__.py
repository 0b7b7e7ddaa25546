"""Python functions as jobs: an executor, and what its pods run."""
