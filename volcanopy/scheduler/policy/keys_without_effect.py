"""The keys of Volcano's configuration file that are accepted and have no effect here, each with the reason: one table."""

from collections.abc import Mapping

_CACHED = "answers of predicates are always cached, for each shape of pods"
_CANDIDATE_NODES = (
    *("enableTopologyAwarePreemption", "topologyAwarePreemptWorkerNum"),
    *("minCandidateNodesPercentage", "minCandidateNodesAbsolute", "maxCandidateNodesAbsolute"),
)
_NO_SCORE = "volumes that match claims have no score"
_CACHE = {"predicateErrorCacheEnable": _CACHED}

SWITCHES: Mapping[str, str] = {
    "enabledClusterOrder": "there is one cluster",
    "enableBestNode": "no plugin answers for the best node alone",
    "enableTargetJob": "nodes are reserved for every job that plugin reservation selects",
}
"""Of every plugin."""

ACTION_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "allocate": _CACHE,
    "backfill": _CACHE,
    "gangpreempt": _CACHE,
    "gangreclaim": _CACHE,
    "preempt": _CACHE | dict.fromkeys(_CANDIDATE_NODES, "every node is considered"),
    "reclaim": _CACHE,
}
"""By action."""

PLUGIN_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "predicates": {
        "predicate.CacheEnable": _CACHED,
        "volumebinding.weight": _NO_SCORE,
        "volumebinding.shape": _NO_SCORE,
        "dynamicresources.filterTimeoutSeconds": "no filter takes that long",
    },
    "deviceshare": {
        "deviceshare.KnownGeometriesCMName": "deviceshare.knownMigGeometries has the geometries",
        "deviceshare.KnownGeometriesCMNamespace": "deviceshare.knownMigGeometries has the geometries",
    },
    "rescheduling": {"metricsPeriod": "the source of the measures determines over which period load is averaged"},
}
"""By plugin."""


def effective(given: Mapping[str, object], ignored: Mapping[str, str]) -> dict[str, object]:
    """Return the keys that have an effect."""
    return {key: value for key, value in given.items() if key not in ignored}
