"""What scenarios need and does not exist yet; the list shrinks as parts land, and nothing stays on it that is there."""

UNBUILT: dict[str, str] = {
    "hyperNodes": "network topology",
    "hyperNodesByTier": "network topology",
    "subGroupPolicy": "sub-groups of jobs",
    "pvcs": "volumes",
    "resourceClaims": "dynamic resources",
    "resourceSlices": "dynamic resources",
}
"""The part that the harness misses, and what it is called in the reason of the expected failure."""
