"""The keys and flags of each kind of line in :mod:`.notation`: any other is an error that names a similar one."""

from collections.abc import Iterable

from volcanopy.scheduler.policy.config import suggestion

_RESOURCES = "cpu memory pods ephemeral-storage gpu"
_TASKS = f"{_RESOURCES} role min on node priority nominated started port tolerates zone pvc ephemeral claim template"
_TASK_FLAGS = "gated bound releasing guaranteed succeeded failed"
_LABELS = "label. note."

_KEYS = {
    "node": f"{_RESOURCES} zone taint unschedulable",
    "queue": "weight parent priority stop order maxrunning maxqueued administrators unreclaimable fifo closed",
    "class": "value",
    "job": "min queue priority phase admitted topology namespace user groups split split.name split.min split.by "
    "split.topology",
    "tasks": f"{_TASKS} {_TASK_FLAGS}",
    "pod": f"{_TASKS} {_TASK_FLAGS} namespace scheduler",
    "budget": "allowed namespace",
    "quota": "namespace",
    "hypernode": "tier tiername",
    "numa": "cpus free manager policy reserved",
    "pv": "size class on for csi mode zone",
    "pvc": "size class volume mode selected owner",
    "storageclass": "waits provisioner zones",
    "csidriver": "storagecapacity",
    "capacity": "class size zone",
}
"""By kind, the keys and flags. Keys of kinds that are not here are free: attributes of devices, drivers."""

_PREFIXES = {
    "node": _LABELS,
    "queue": "capability. deserved. guarantee. borrow. lend. limit. note.",
    "job": "minres. alternative. label. note.",
    "tasks": f"{_LABELS} selector.",
    "pod": f"{_LABELS} selector.",
    "budget": "selector.",
    "quota": "hard. used.",
}
"""By kind, how further keys begin."""


def unknown_key(kind: str, tokens: Iterable[str]) -> str:
    """Return a sentence about the first key or flag that a kind of line does not have; empty if it has all."""
    if kind not in _KEYS:
        return ""
    keys, prefixes = _KEYS[kind].split(), tuple(_PREFIXES.get(kind, "").split())
    for word in tokens:
        # a key with a slash is a label or a resource
        if word not in keys and not (prefixes and word.startswith(prefixes)) and "/" not in word:
            return f"{kind!r} has no key {word!r}{suggestion(word, [*keys, *prefixes])}"
    return ""
