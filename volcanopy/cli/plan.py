"""``volcanopy plan``: what would the scheduler decide on these objects?"""

import json
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from volcanopy.api import core, names, nodeinfo_read, policy, topology_read
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
    ("nodeinfo.volcanopy.io", "NumaTopology"): nodeinfo_read.NumaTopology,
    ("scheduling.volcanopy.io", "PodGroup"): core.PodGroup,
    ("scheduling.volcanopy.io", "Queue"): core.Queue,
    **{(kind.group, kind.kind): kind.type for kind in SUPPLIES},
}
"""What the scheduler looks at, by group and kind."""
NAMESPACED = frozenset(
    {"Pod", "PodGroup", "ResourceQuota", "PodDisruptionBudget", *(kind.kind for kind in SUPPLIES if kind.namespaced)}
)
_WORDS = {"int": "a whole number", "str": "text", "object": "a mapping", "array": "a list", "bool": "true or false"}


def plan(files: list[str], config: Path | None, now: str | None, as_json: bool) -> None:
    """Print the plan for the objects in files, and nothing else on standard output.

    A snapshot among the files says what moment it is of and how the scheduler was configured; the options go before it.
    """
    manifests = read(files)
    cycle = next((_cycle(one) for one in manifests if (one.group, one.kind) == (replay.GROUP, replay.KIND)), None)
    try:
        known = registry()
        chosen = _configuration(config, cycle, known)
    except ThirdPartyError as error:
        raise CommandError(str(error)) from None
    state = _state(cycle)
    ignored: Counter[str] = Counter()
    for manifest in manifests:
        if (manifest.group, manifest.kind) == (replay.GROUP, replay.KIND):
            continue
        slice_ = KINDS.get((manifest.group, manifest.kind))
        if slice_ is None:
            ignored[manifest.kind] += 1
            continue
        _take_in(state, manifest, slice_)
    if ignored:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))
        print(f"volcanopy: left out what the scheduler does not look at: {listed}", file=sys.stderr)
    if cycle is not None:
        replay.apply_cycle(state, cycle)
    moment = cycle.now if cycle is not None and now is None else _moment(now)
    made = schedule(state.snapshot(moment, "plan"), chosen, known)
    if as_json:
        print(json.dumps(document(made), indent=2))
    elif made.effects:
        print(made)
    else:
        print("volcanopy: there is nothing to decide", file=sys.stderr)


def _cycle(manifest: Manifest) -> replay.SchedulingCycle:
    cycle: replay.SchedulingCycle = _converted(manifest, manifest.body, replay.SchedulingCycle)
    return cycle


def _configuration(config: Path | None, cycle: replay.SchedulingCycle | None, known: Registry) -> SchedulerConfig:
    """The configuration of the option, or else of the snapshot, or else the default one; raises Stop."""
    if config is not None:
        text, whose = _text(config), str(config)
    elif cycle is not None and cycle.config:
        text, whose = cycle.config, "the scheduler configuration in the snapshot (--config FILE takes its place)"
    else:
        return default(known)
    try:
        return parse(text, known)
    except ConfigError as error:
        raise CommandError(f"{whose}: {error}") from None


def _state(cycle: replay.SchedulingCycle | None) -> State:
    named = (cycle.scheduler_name,) if cycle is not None and cycle.scheduler_name else (names.SCHEDULER,)
    return State(named, (cycle.default_queue if cycle is not None else "") or names.DEFAULT_QUEUE)


def _take_in(state: State, manifest: Manifest, slice_: Any) -> None:
    body = manifest.body
    metadata = body.get("metadata") or {}
    if not metadata.get("name"):
        raise CommandError(f"{manifest.place}: metadata.name is missing: the scheduler knows objects by their names")
    if manifest.kind in NAMESPACED and not metadata.get("namespace"):
        body = {**body, "metadata": {**metadata, "namespace": "default"}}
    try:
        state.upsert(_converted(manifest, body, slice_))
    except QuantityError as error:
        raise CommandError(f"{manifest.place}: {error}") from None


def _converted(manifest: Manifest, body: Any, slice_: Any) -> Any:
    try:
        return msgspec.convert(_without_nulls(body), slice_)
    except msgspec.ValidationError as error:
        raise CommandError(f"{manifest.place}: {_told(str(error))}") from None


def _without_nulls(value: Any) -> Any:
    """A manifest may say null for what it does not say."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


def _told(error: str) -> str:
    """``Expected `int`, got `str` - at `$.spec.minMember``` as a sentence that names the field."""
    what, _, where = error.partition(" - at ")
    field = where.strip("`").removeprefix("$").removeprefix(".") or "the object"
    if "Expected" in what and "got" in what:
        wanted, got = (part.strip(" `") for part in what.removeprefix("Expected").split(", got", 1))
        wanted = wanted.replace(" | null", "").replace("`", "")
        wanted = " or ".join(_WORDS.get(one.strip(), one.strip()) for one in wanted.split("|"))
        return f"{field} must be {wanted}, not {_WORDS.get(got.strip('`'), got)}"
    return f"{field}: {what[:1].lower()}{what[1:]}"


def _moment(now: str | None) -> datetime:
    if now is None:
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(now)
    except ValueError:
        raise CommandError(f"--now: {now!r} is no RFC 3339 time, such as 2030-01-31T12:00:00Z", 2) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--config: {path} cannot be read: {error.strerror}", 2) from None
