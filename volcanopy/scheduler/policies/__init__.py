"""One policy a file; the first sentence of each is its definition."""
