"""A job and what exists of it in, what to do out."""
