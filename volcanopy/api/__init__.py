"""What users write, and what we read of it."""
