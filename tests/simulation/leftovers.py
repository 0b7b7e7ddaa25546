"""What processes remember of jobs that are gone: the memory of a service must not grow with what it has seen."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from volcanopy.api.core import Pod
from volcanopy.kube import machine
from volcanopy.kube.cache.watch import Change
from volcanopy.services.controllers.job_cache import JobCache
from volcanopy.services.controllers.worker import Worker
from volcanopy.services.scheduler.state.store import Store
from volcanopy.services.scheduler.writers.applier import Applier

DEPTH = 6
NAMES = re.compile(r"\bjob-\d")
"""The names of all jobs of a simulation, and of what is created for them, begin so."""
BOUNDED = {
    "_deleted": "deletions are remembered so that late events are recognised: WriteTracker limits their number",
    "_entries": "events of the same kind are counted in one object: EventRecorder limits their number",
    "_buckets": "the rates of events: EventRecorder limits their number",
    "_explains": "explanations of deleted groups are forgotten when they outnumber the others",
    "_written": "as those",
    "_why": "as those",
    "_rejections": "PodWriter limits their number",
    "_removed_of_unknown": "ends of pods of jobs that only the leader follows: JobCache limits their number",
    "histories": "what is learnt and reported about finished jobs",
}
"""Attributes whose size has a limit of its own."""


@contextmanager
def noted_parts() -> Iterator[None]:
    """Note the stateful parts of each process in its machine, and the pods of which it learns that they have succeeded."""
    with ExitStack() as patches:
        for kind in (Store, Worker, Applier):
            patches.enter_context(mock.patch.object(kind, "__init__", _noting(kind)))
        patches.enter_context(mock.patch.object(JobCache, "pod_changes", _noting_successes(JobCache.pod_changes)))
        yield


def _noting_successes(take: Any) -> Any:
    def noting(self: JobCache, changes: Sequence[Change[Pod]]) -> None:
        known: set[str] | None = getattr(machine.current.get(), "succeeded", None)
        if known is not None:
            known.update(each.object.metadata.uid for each in changes if each.object.status.phase == "Succeeded")
        take(self, changes)

    return noting


def _noting(kind: type[Any]) -> Any:
    create = kind.__init__

    def noting(self: Any, *arguments: Any, **named: Any) -> None:
        create(self, *arguments, **named)
        parts = getattr(machine.current.get(), "parts", None)
        if parts is not None:
            parts.append(self)

    return noting


def remembered(there: Any) -> list[str]:
    """Return the attributes of a machine's parts that name a job."""
    seen: set[int] = set()
    named: set[str] = set()
    for part in there.parts:
        _add_named(part, type(part).__name__, seen, DEPTH, named)
    return sorted(named)


def _add_named(item: Any, path: str, seen: set[int], depth: int, named: set[str]) -> None:
    """Add what names a job in an item, down to a depth. It visits thousands of items of a seed, mostly plain values."""
    if isinstance(item, str):
        if "job-" in item and NAMES.search(item):
            named.add(f"{path}: {item}")
        return
    if depth == 0 or item is None or isinstance(item, (int, float, bytes)) or id(item) in seen:
        return
    seen.add(id(item))
    if isinstance(item, (dict, Mapping)):
        for key, value in list(item.items()):
            for part in key if isinstance(key, tuple) else (key,):
                _add_named(part, path, seen, depth - 1, named)
            _add_named(value, path, seen, depth - 1, named)
    elif isinstance(item, (set, frozenset, list, tuple, deque)):
        for value in list(item):
            _add_named(value, path, seen, depth - 1, named)
    elif type(item).__module__.startswith("volcanopy"):
        for name, value in _attributes(item):
            if name not in BOUNDED:
                _add_named(value, f"{path}.{name}", seen, depth - 1, named)


def _attributes(item: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(item, "__dict__", {}).items()
    for name in getattr(type(item), "__slots__", ()) or getattr(item, "__struct_fields__", ()):
        if hasattr(item, name):
            yield name, getattr(item, name)
