"""``volcanopy plan``: the decisions of the scheduler on objects from files."""

import json
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from volcanopy.api import core, names, topology_read
from volcanopy.api.builtin import policy
from volcanopy.api.quantity import QuantityError
from volcanopy.cli.errors import CommandError
from volcanopy.cli.manifests import Manifest, read
from volcanopy.kube.cache.followed_kinds import SUPPLIES
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.framework.config import ConfigError, SchedulerConfig, default, parse
from volcanopy.scheduler.framework.registry import Registry
from volcanopy.scheduler.model.plan import document
from volcanopy.services.process.entry_points import ThirdPartyError, registry
from volcanopy.services.scheduler import replay

KINDS: dict[tuple[str, str], Any] = {
    ("", "Pod"): core.Pod,
    ("", "Node"): core.Node,
    ("", "Namespace"): core.Namespace,
    ("", "ResourceQuota"): policy.ResourceQuota,
    ("policy", "PodDisruptionBudget"): policy.PodDisruptionBudget,
    ("scheduling.k8s.io", "PriorityClass"): core.PriorityClass,
    ("topology.volcanopy.io", "HyperNode"): topology_read.HyperNode,
    ("nodeinfo.volcanopy.io", "NumaTopology"): topology_read.NumaTopology,
    ("scheduling.volcanopy.io", "PodGroup"): core.PodGroup,
    ("scheduling.volcanopy.io", "Queue"): core.Queue,
    **{(kind.group, kind.kind): kind.type for kind in SUPPLIES},
}
"""Read models of the kinds that the scheduler reads, by group and kind."""
NAMESPACED = frozenset(
    {"Pod", "PodGroup", "ResourceQuota", "PodDisruptionBudget", *(kind.kind for kind in SUPPLIES if kind.namespaced)}
)
_TYPES = {"int": "a whole number", "str": "text", "object": "a mapping", "array": "a list", "bool": "true or false"}


def plan(files: list[str], config: Path | None, now: str | None, as_json: bool) -> None:
    """Print the plan for the objects in files.

    Moment and configuration are those of a snapshot among the files, unless options specify others.
    """
    manifests = read(files)
    cycle = next((_cycle(manifest) for manifest in manifests if _is_cycle(manifest)), None)
    try:
        known = registry()
        chosen = _configuration(config, cycle, known)
    except ThirdPartyError as error:
        raise CommandError(str(error)) from None
    state = _state(cycle)
    ignored: Counter[str] = Counter()
    for manifest in manifests:
        if _is_cycle(manifest):
            continue
        model = KINDS.get((manifest.group, manifest.kind))
        if model is None:
            ignored[manifest.kind] += 1
            continue
        _add(state, manifest, model)
    if ignored:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))
        print(f"volcanopy: ignored {listed}: not read by the scheduler", file=sys.stderr)
    if cycle is not None:
        replay.apply_cycle(state, cycle)
    moment = cycle.now if cycle is not None and now is None else _moment(now)
    result = schedule(state.snapshot(moment, "plan"), chosen, known)
    if as_json:
        print(json.dumps(document(result), indent=2))
    elif result.effects:
        print(result)
    else:
        print("volcanopy: nothing to schedule", file=sys.stderr)


def _is_cycle(manifest: Manifest) -> bool:
    return (manifest.group, manifest.kind) == (replay.GROUP, replay.KIND)


def _cycle(manifest: Manifest) -> replay.SchedulingCycle:
    cycle: replay.SchedulingCycle = _converted(manifest, manifest.body, replay.SchedulingCycle)
    return cycle


def _configuration(config: Path | None, cycle: replay.SchedulingCycle | None, known: Registry) -> SchedulerConfig:
    """Return the configuration of the option, or of the snapshot, or the default. Raises CommandError."""
    if config is not None:
        text, source = _text(config), str(config)
    elif cycle is not None and cycle.config:
        text, source = cycle.config, "scheduler configuration of the snapshot (replace it with --config FILE)"
    else:
        return default(known)
    try:
        return parse(text, known)
    except ConfigError as error:
        raise CommandError(f"{source}: {error}") from None


def _state(cycle: replay.SchedulingCycle | None) -> State:
    named = (cycle.scheduler_name,) if cycle is not None and cycle.scheduler_name else (names.SCHEDULER,)
    return State(named, (cycle.default_queue if cycle is not None else "") or names.DEFAULT_QUEUE)


def _add(state: State, manifest: Manifest, model: Any) -> None:
    body = manifest.body
    metadata = body.get("metadata") or {}
    if not metadata.get("name"):
        raise CommandError(f"{manifest.place}: metadata.name is required")
    if manifest.kind in NAMESPACED and not metadata.get("namespace"):
        body = {**body, "metadata": {**metadata, "namespace": "default"}}
    try:
        state.upsert(_converted(manifest, body, model))
    except QuantityError as error:
        raise CommandError(f"{manifest.place}: {error}") from None


def _converted(manifest: Manifest, body: Any, model: Any) -> Any:
    try:
        return msgspec.convert(_without_nulls(body), model)
    except msgspec.ValidationError as error:
        raise CommandError(f"{manifest.place}: {_message(str(error))}") from None


def _without_nulls(value: Any) -> Any:
    """Return the value without null fields, which manifests may have in place of absent ones."""
    if isinstance(value, dict):
        return {key: _without_nulls(field) for key, field in value.items() if field is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _message(error: str) -> str:
    """``Expected `int`, got `str` - at `$.spec.minMember``` as a message that starts with the field."""
    what, _, where = error.partition(" - at ")
    field = where.strip("`").removeprefix("$").removeprefix(".") or "the object"
    if "Expected" in what and "got" in what:
        expected, actual = (part.strip(" `") for part in what.removeprefix("Expected").split(", got", 1))
        expected = expected.replace(" | null", "").replace("`", "")
        expected = " or ".join(_TYPES.get(name.strip(), name.strip()) for name in expected.split("|"))
        return f"{field} must be {expected}, not {_TYPES.get(actual.strip('`'), actual)}"
    return f"{field}: {what[:1].lower()}{what[1:]}"


def _moment(now: str | None) -> datetime:
    if now is None:
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(now)
    except ValueError:
        raise CommandError(f"--now: {now!r} is not an RFC 3339 time such as 2030-01-31T12:00:00Z", 2) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--config: cannot read {path}: {error.strerror}", 2) from None
