"""Snapshots under pseudonyms: the same cluster for the scheduler, without the names that users and operators gave.

1. Collect the names: of objects, namespaces, users, groups and images, uids, and keys and values of labels and taints. Those of
   Kubernetes and of volcanopy (``kubernetes.io``, ``volcanopy.io``, ``default``, ...) stay.
2. Number them in their order. Ties are broken by name, so a plan for the pseudonyms is the plan for the names.
3. Replace them wherever they occur as a whole value, key or part of a path; remove free text and annotations of others.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]

_KEPT = frozenset({"", "default", "root", "kube-system", "volcanopy", "true", "false", "*"})
_OURS = re.compile(r"(^|[./])(kubernetes\.io|k8s\.io|volcanopy\.io|volcano\.sh)(/|$)")
_SYSTEM = re.compile(r"^system[:-]")
_FIXED = frozenset(
    {
        "apiVersion",
        "config",
        "effect",
        "expression",
        "kind",
        "lastTransitionTime",
        "mode",
        "operator",
        "phase",
        "resource",
    }
    | {"restartPolicy", "schedulerName", "status", "type", "version", "whenUnsatisfiable"}
)
"""Fields whose values are constants of the API, or needed as they are."""
_KEYED = frozenset({"binding", "labels", "matchLabels", "minTaskMember", "nodes", "nodeSelector", "pods"})
"""Fields whose keys are names."""
_TEXTS = frozenset({"message", "reason", "description"})
_NAMES = frozenset(
    {
        "name",
        "namespace",
        "generateName",
        "uid",
        "queue",
        "parent",
        "nodeName",
        "image",
        "images",
        "names",
        "users",
        "groups",
    }
    | {
        "priorityClassName",
        "serviceAccounts",
        "claimName",
        "volumeName",
        "storageClassName",
        "driver",
        "host",
        "hostname",
    }
)
"""Fields whose values are names, or lists of names."""
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]*")


def anonymised(items: Sequence[Json]) -> tuple[list[Json], "Pseudonyms"]:
    """Return the objects under pseudonyms, and these."""
    pseudonyms = Pseudonyms(name for item in items for name in _names(item))
    return [pseudonyms.of(item) for item in items], pseudonyms


class Pseudonyms:
    """Names by their pseudonyms, in the same order."""

    def __init__(self, names: Iterable[str]) -> None:
        known = sorted(name for name in set(names) if not _is_public(name))
        width = len(str(len(known)))
        self._of: Mapping[str, str] = {name: f"x{number:0{width}}" for number, name in enumerate(known)}

    def text(self, text: str) -> str:
        """Return a sentence with its names replaced."""
        return _WORD.sub(lambda word: self._word(word[0]), text)

    def _word(self, word: str) -> str:
        bare = word.rstrip(".:")
        return self._of.get(bare, bare) + word[len(bare) :]

    def of(self, item: Json) -> Json:
        """Return an object with its names replaced."""
        replaced: Json = self._replaced(item, "")
        return replaced

    def _replaced(self, value: Any, field: str) -> Any:
        if isinstance(value, str):
            return "" if field in _TEXTS else value if field in _FIXED else self._name(value)
        if isinstance(value, Mapping):
            if field == "annotations":
                value = {key: text for key, text in value.items() if _OURS.search(key)}
            named = field in _KEYED
            return {self._name(key) if named else key: self._replaced(below, key) for key, below in value.items()}
        if isinstance(value, list | tuple):
            return [self._replaced(below, field) for below in value]
        return value

    def _name(self, text: str) -> str:
        if text in self._of:
            return self._of[text]
        return "/".join(self._of.get(part, part) for part in text.split("/")) if "/" in text else text


def _is_public(name: str) -> bool:
    return name in _KEPT or bool(_OURS.search(name)) or bool(_SYSTEM.match(name))


def _names(value: Any, field: str = "") -> Iterator[str]:
    """Yield the names in an object."""
    if isinstance(value, str):
        if field in _NAMES:
            yield value
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _names(below, field)
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield from _of_field(key, below, field)


def _of_field(key: str, below: Any, field: str) -> Iterator[str]:
    if field in {"labels", "matchLabels", "nodeSelector"} and isinstance(below, str):
        yield key
        # The values of our own keys are names too, except switches and numbers.
        if not below.isdecimal():
            yield below
    elif field == "annotations" and isinstance(below, str):
        if _OURS.search(key) and key.endswith(("-by", "queue", "queue-name", "group-name", "/task")):
            yield below
    elif field in {"taints", "tolerations", "matchExpressions"} and key in {"key", "value", "values"}:
        yield from [below] if isinstance(below, str) else below or ()
    else:
        yield from _names(below, key)
