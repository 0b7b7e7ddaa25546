"""From filters and scores to a node."""
