"""Text notation for cluster states ("worlds") and plans in tests.

A world is a few lines, one object per line::

    node  n1 cpu=4 memory=8Gi zone=a taint=dedicated=gpu:NoSchedule
    queue q1 weight=2 capability.cpu=4 parent=root
    queue q2 deserved.cpu=4 borrow.cpu=2 lend.cpu=1 stop=Hold
    class high value=1000
    job   a min=2 queue=q1 priority=high: 2 x cpu=3
    job   b min=3 phase=Pending: 1 x cpu=1 role=ps min=1, 2 x cpu=2 role=worker
    job   c: 2 x cpu=1 on=n1,n2, 1 x cpu=1
    budget d allowed=1 selector.app=web
    quota e hard.cpu=4 used.cpu=1
    hypernode rack tier=1: n1 n2
    job   f topology=hard:1: 4 x cpu=1
    queue q3 fifo maxrunning=2 limit.user.ana+bo.cpu=4 limit.user.*.running=1 limit.group.phd.cpu=8
    queue q4 order=fair
    job   g queue=q3 user=ana groups=phd+staff: 1 x cpu=1

Amounts are Kubernetes quantities. Defaults: a node has capacity for 110 pods and 64Gi, a job
is Inqueue in queue ``default`` with a minimum of all its tasks, admitted now (``admitted=60``: a minute ago). ``on=``
puts tasks on nodes: running, with ``started=60`` for a minute; ``bound`` or ``releasing`` set another status. Other tokens
without ``=`` are flags: ``unschedulable``, ``gated``, ``closed``, ``fifo``, ``guaranteed`` (limits are what is requested).
A line ``numa n1 cpus=2x4`` reports two NUMA nodes of 4 cpus each.
Volumes, devices and claims are described in :mod:`volcanopy_testing.claim_notation`, hypernodes and topology constraints in
:mod:`volcanopy_testing.topology_notation`, limits of users and groups and submitters of jobs in
:mod:`volcanopy_testing.submitter_notation`, alternatives in :mod:`volcanopy_testing.alternative_notation`. A key with a slash is
a label, also ``label.<key>=``; ``note.<key>=`` is an annotation, ``selector.<key>=`` a node selector. Objects are created in the
order of the lines, a second apart.
"""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from volcanopy.api import core
from volcanopy.api.builtin import policy
from volcanopy.installed.scheduler_plugins import registry as installed_registry
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.registry import Registry
from volcanopy_testing import alternative_notation, claim_notation, submitter_notation, topology_notation
from volcanopy_testing.accepted_keys import unknown_key
from volcanopy_testing.topology_notation import hypernode, split, topology

START = datetime(2030, 1, 1, tzinfo=UTC)
"""When the first object of a world was created."""
NOW = START + timedelta(days=1)
"""The time of a snapshot."""

_RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage", "gpu")
_GPU = "nvidia.com/gpu"
_MARKS = ("note.", "label.", "selector.")
"""Prefixes of keys that are annotations, labels and node selectors."""
_NAMESPACED = {"job", "pod", "tasks", "budget", "quota"}


class NotationError(ValueError):
    """A line that is not in this notation."""


@dataclass
class _Line:
    """A parsed line: tokens ``key=value``, flags, and the task list after the colon."""

    kind: str
    name: str
    values: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    tasks: str = ""
    created: datetime = START

    def resources(self, prefix: str = "") -> dict[str, str]:
        """Return the amounts of the line, by resource."""
        result: dict[str, str] = {}
        for key, value in self.values.items():
            name = key.removeprefix(prefix)
            if (prefix and not key.startswith(prefix)) or key.startswith(_MARKS):
                continue
            if name in _RESOURCES or (
                not prefix and "." in name.partition("/")[0] and "/" in name and value[:1].isdigit()
            ):
                result[_GPU if name == "gpu" else name] = value
            elif prefix:
                result[name] = value
        return result

    def labels(self) -> dict[str, str]:
        """Return the labels of the line: keys with a slash that are no amounts, and ``zone``."""
        amounts = self.resources()
        labels = {
            key: value
            for key, value in self.values.items()
            if "/" in key and key not in amounts and not key.startswith(_MARKS)
        }
        if "zone" in self.values:
            labels["topology.kubernetes.io/zone"] = self.values["zone"]
        labels |= {key.removeprefix("label."): value for key, value in self.values.items() if key.startswith("label.")}
        return labels


def world(text: str) -> list[Object]:
    """Return the objects of a world, in the order of its lines; queue ``default`` is added if missing."""
    lines = list(_lines(text))
    objects: list[Object] = []
    holders = {line.name for line in lines if line.kind == "hypernode"}
    if not any(line.kind == "queue" and line.name == "default" for line in lines):
        objects.append(core.Queue(metadata=core.Meta(name="default", uid="default", creation_timestamp=START)))
    for line in lines:
        match line.kind:
            case "node":
                objects.append(_node(line))
            case "queue":
                objects.append(_queue(line))
            case "class":
                objects.append(core.PriorityClass(metadata=core.Meta(name=line.name), value=int(line.values["value"])))
            case "job":
                objects.extend(_job(line))
            case "pod":
                objects.append(_pod(line, line, line.name))
            case "budget":
                objects.append(_budget(line))
            case "quota":
                objects.append(_quota(line))
            case "numa":
                objects.append(topology_notation.report(_meta(line, line.name), line.values))
            case kind if kind in claim_notation.KINDS:
                objects.append(
                    claim_notation.KINDS[kind](line.name, line.values | dict.fromkeys(line.flags, ""), line.created)
                )
            case "hypernode":
                objects.append(hypernode(line.name, line.values, line.tasks.split(), holders))
            case other:
                known = "node, hypernode, numa, queue, class, job, pod, budget or quota"
                raise NotationError(f"{other!r} is not a kind: use {known}")
    return objects


@cache
def all_policies() -> Registry:
    """Return the registry with the policies of volcanopy and of installed packages."""
    return installed_registry()


def config(
    plugins: str | SchedulerConfig, actions: str = "enqueue, allocate, backfill", registry: Registry | None = None
) -> SchedulerConfig:
    """A configuration from a list of plugins such as ``gang, predicates, binpack``; a ``|`` begins a new tier."""
    if isinstance(plugins, SchedulerConfig):
        return plugins
    tiers = [
        {"plugins": [{"name": name.strip()} for name in tier.split(",") if name.strip()]} for tier in plugins.split("|")
    ]
    document = {"actions": actions, "tiers": tiers}
    return parse(msgspec.json.encode(document).decode(), registry or all_policies())


def snapshot(text: str, objects: Iterable[Object] = ()) -> Snapshot:
    """Return the snapshot of a world, with further objects that the notation does not cover."""
    state = State()
    for item in (*world(text), *objects):
        state.upsert(item)
    return state.snapshot(NOW, "test")


def decide(text: str, plugins: str | SchedulerConfig, actions: str = "enqueue, allocate, backfill") -> Plan:
    """Return the plan for a world."""
    return schedule(snapshot(text), config(plugins, actions))


def plan(text: str, plugins: str | SchedulerConfig, actions: str = "enqueue, allocate, backfill") -> "Lines":
    """Return the plan for a world as comparable text: binds, evictions, nominations, admissions and unschedulable jobs."""
    return Lines(decided(decide(text, plugins, actions)))


def decided(made: Plan) -> list[str]:
    """Return the lines of a plan, without status updates that report no problem."""
    return [
        str(effect) for effect in made.effects if isinstance(effect, Bind | Evict | Nominate) or _is_relevant(effect)
    ]


def _is_relevant(effect: object) -> bool:
    if not isinstance(effect, SetPodGroup):
        return False
    return effect.phase == "Inqueue" or (effect.condition is not None and effect.condition.type == "Unschedulable")


class Lines:
    """Lines of text, equal to a text that has the same lines, however it is indented."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = list(lines)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.lines == [line.strip() for line in other.strip().splitlines() if line.strip()]
        return isinstance(other, Lines) and self.lines == other.lines

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "\n".join(["", *self.lines, ""])


def _lines(text: str) -> Iterator[_Line]:
    for number, raw in enumerate(text.strip().splitlines()):
        stripped = raw.split("#")[0].strip()
        if not stripped:
            continue
        head, _, tasks = stripped.partition(": ")
        tokens = shlex.split(head.removesuffix(":"))
        if len(tokens) < 2:
            raise NotationError(f"{stripped!r} has a kind but no name")
        line = _Line(tokens[0], tokens[1], tasks=tasks.strip(), created=START + timedelta(seconds=number))
        _add_tokens(line, tokens[2:])
        yield line


def _add_tokens(line: _Line, tokens: Iterable[str]) -> None:
    tokens = list(tokens)
    text = unknown_key(line.kind, (word.partition("=")[0] for word in tokens))
    if text:
        raise NotationError(f"{line.kind} {line.name}: {text}")
    for word in tokens:
        key, equals, value = word.partition("=")
        if equals:
            line.values[key] = value
        else:
            line.flags.add(word)


def _meta(line: _Line, name: str, **more: Any) -> core.Meta:
    namespace = line.values.get("namespace", "default") if line.kind in _NAMESPACED else ""
    return core.Meta(
        name=name, namespace=namespace, uid=f"uid-{namespace}-{name}", creation_timestamp=line.created, **more
    )


def _node(line: _Line) -> core.Node:
    capacity = {"pods": "110", "memory": "64Gi", **line.resources()}
    taints = tuple(_taint(value) for value in line.values.get("taint", "").split(",") if value)
    return core.Node(
        metadata=_meta(
            line, line.name, labels={"kubernetes.io/hostname": line.name, **line.labels()}, annotations=_notes(line)
        ),
        spec=core.NodeSpec(unschedulable="unschedulable" in line.flags, taints=taints),
        status=core.NodeStatus(capacity=dict(capacity), allocatable=dict(capacity)),
    )


def _notes(line: _Line) -> dict[str, str]:
    """Return the annotations of the keys that begin with ``note.``."""
    return {key.removeprefix("note."): value for key, value in line.values.items() if key.startswith("note.")}


def _taint(text: str) -> core.Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return core.Taint(key=key, value=value, effect=effect)


def _queue(line: _Line) -> core.Queue:
    values = line.values
    return core.Queue(
        metadata=_meta(line, line.name, annotations=_notes(line)),
        spec=core.QueueSpec(
            weight=int(values.get("weight", 1)),
            capability=dict(line.resources("capability.")),
            deserved=dict(line.resources("deserved.")),
            guarantee=core.Guarantee(resource=dict(line.resources("guarantee."))),
            reclaimable="unreclaimable" not in line.flags,
            priority=int(values.get("priority", 0)),
            parent=values.get("parent", ""),
            borrowing_limit=dict(line.resources("borrow.")),
            lending_limit=dict(line.resources("lend.")),
            stop_policy=values.get("stop", "None"),
            max_running_jobs=submitter_notation.number(values, "maxrunning"),
            max_queued_jobs=submitter_notation.number(values, "maxqueued"),
            limits=submitter_notation.limits(values),
            administrators=submitter_notation.administrators(values),
            dequeue_strategy="fifo" if "fifo" in line.flags else "traverse",
            job_order=values.get("order", "configured"),
        ),
        status=core.QueueStatus(state="Closed" if "closed" in line.flags else "Open"),
    )


def _budget(line: _Line) -> policy.PodDisruptionBudget:
    labels = {key.removeprefix("selector."): value for key, value in line.values.items() if key.startswith("selector.")}
    return policy.PodDisruptionBudget(
        metadata=_meta(line, line.name),
        spec=policy.PodDisruptionBudgetSpec(selector=core.LabelSelector(match_labels=labels)),
        status=policy.PodDisruptionBudgetStatus(disruptions_allowed=int(line.values.get("allowed", 0))),
    )


def _quota(line: _Line) -> policy.ResourceQuota:
    hard, used = line.resources("hard."), line.resources("used.")
    status = policy.ResourceQuotaStatus(hard=dict(hard), used=dict(used))
    return policy.ResourceQuota(metadata=_meta(line, line.name), status=status)


def _job(line: _Line) -> Iterator[Object]:
    parts = [part.strip() for part in line.tasks.split(", ") if part.strip()] if line.tasks else []
    pods: list[core.Pod] = []
    minimums: dict[str, int] = {}
    for part in parts:
        count, times, tokens = f"{part} ".partition(" x ")
        count, tokens = (count, tokens) if times else ("1", part)
        tasks = _Line(
            "tasks", line.name, created=line.created, values={k: v for k, v in line.values.items() if k == "namespace"}
        )
        _add_tokens(tasks, shlex.split(tokens))
        role = tasks.values.get("role", "")
        if "min" in tasks.values:
            minimums[role] = int(tasks.values["min"])
        nodes = tasks.values["on"].split(",") if "on" in tasks.values else []
        for number in range(int(count)):
            index = sum(1 for pod in pods if pod.metadata.annotations.get("volcanopy.io/task-spec", "") == role)
            name = f"{line.name}-{role}-{index}" if role else f"{line.name}-{index}"
            pods.append(_pod(line, tasks, name, nodes[number % len(nodes)] if nodes else "", role))
    least = line.resources("minres.")
    alternatives = alternative_notation.alternatives(line.values, int(line.values.get("min", 1)))
    yield core.PodGroup(
        metadata=_meta(line, line.name, annotations=_notes(line) | submitter_notation.origin(line.values)),
        spec=core.PodGroupSpec(
            min_member=int(line.values.get("min", len(pods))),
            min_task_member=minimums,
            queue=line.values.get("queue", ""),
            priority_class_name=line.values.get("priority", ""),
            min_resources=dict(least) if least else alternatives[0].min_resources if alternatives else None,
            network_topology=topology(line.values.get("topology", "")),
            sub_group_policy=split(line.values),
            alternatives=alternatives,
        ),
        status=core.PodGroupStatus(
            phase=line.values.get("phase", "Inqueue"),
            admitted_at=NOW - timedelta(seconds=int(line.values.get("admitted", 0))),
        ),
    )
    yield from pods


def _pod(group: _Line, line: _Line, name: str, node: str = "", role: str = "") -> core.Pod:
    node = node or line.values.get("node", "")
    phase = "Pending"
    if node and "bound" not in line.flags:
        phase = next((word.capitalize() for word in ("succeeded", "failed") if word in line.flags), "Running")
    annotations = {"scheduling.k8s.io/group-name": group.name} if group.kind == "job" else {}
    if role:
        annotations["volcanopy.io/task-spec"] = role
    annotations |= _notes(line)
    meta = _meta(
        line,
        name,
        labels=line.labels(),
        annotations=annotations,
        deletion_timestamp=NOW if "releasing" in line.flags else None,
    )
    ports = tuple(core.ContainerPort(host_port=int(port)) for port in line.values.get("port", "").split(",") if port)
    selector = {
        key.removeprefix("selector."): value for key, value in line.values.items() if key.startswith("selector.")
    }
    return core.Pod(
        metadata=meta,
        spec=core.PodSpec(
            node_name=node,
            scheduler_name="volcanopy" if group.kind == "job" else line.values.get("scheduler", "other"),
            priority=int(line.values["priority"])
            if "priority" in line.values and line.values["priority"].lstrip("-").isdigit()
            else None,
            node_selector=selector,
            tolerations=tuple(_toleration(value) for value in line.values.get("tolerates", "").split(",") if value),
            volumes=claim_notation.volumes(line.values),
            resource_claims=claim_notation.claims(line.values),
            scheduling_gates=(core.SchedulingGate(name="test"),) if "gated" in line.flags else (),
            containers=(
                core.Container(
                    name="main",
                    resources=core.ResourceRequirements(
                        requests=dict(line.resources()),
                        limits=dict(line.resources()) if "guaranteed" in line.flags else {},
                    ),
                    ports=ports,
                ),
            ),
        ),
        status=core.PodStatus(
            phase=phase,
            nominated_node_name=line.values.get("nominated", ""),
            start_time=NOW - timedelta(seconds=int(line.values["started"])) if "started" in line.values else None,
            resource_claim_statuses=claim_notation.claim_statuses(name, line.values),
        ),
    )


def _toleration(text: str) -> core.Toleration:
    key, equals, value = text.partition("=")
    return core.Toleration(key=key, operator="Equal" if equals else "Exists", value=value)
