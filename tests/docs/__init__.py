"""What the documents say is run."""
