"""What scenarios need and does not exist yet; the list shrinks as parts land, and nothing stays on it that is there."""

UNBUILT: dict[str, str] = {
    "hyperNodes": "network topology",
    "hyperNodesByTier": "network topology",
    "networkTopology": "network topology",
    "subGroupPolicy": "sub-groups of jobs",
    "pvcs": "volumes",
    "resourceClaims": "dynamic resources",
    "resourceSlices": "dynamic resources",
    "deviceClasses": "dynamic resources",
    "plugin network-topology-aware": "network topology",
    "plugin resource-strategy-fit": "resource-strategy-fit",
}
"""The part that the harness misses, and what it is called in the reason of the expected failure."""
