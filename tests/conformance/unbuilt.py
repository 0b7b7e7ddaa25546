"""What scenarios need and does not exist yet; the list shrinks as parts land, and nothing stays on it that is there."""

UNBUILT: dict[str, str] = {}
"""The part that the harness misses, and what it is called in the reason of the expected failure."""
