"""Plan of a scheduling cycle, as data.

A plan is a tuple of effects in their order of application. A cycle may make ten thousand of them: structs of msgspec are made
several times as fast as dataclasses. Its text is canonical, one line per effect, in logs, golden
files, the output of ``volcanopy plan`` and bug reports.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from pydantic.alias_generators import to_camel

from volcanopy.api import core
from volcanopy.scheduler.model.messages import short


class VolumeChoice(msgspec.Struct, frozen=True):
    """How a claim gets its volume: this one, or (empty) one that is made for the pod's node. ``uid`` is the claim's."""

    claim: str
    uid: str
    volume: str = ""


class DeviceChoice(msgspec.Struct, frozen=True):
    """What a claim on devices is given, as its ``status.allocation``; None for one that has what it needs.

    ``names`` are the devices in short.
    """

    claim: str
    uid: str
    allocation: Mapping[str, Any] | None = None
    names: tuple[str, ...] = ()


class Claims(msgspec.Struct, frozen=True):
    """Volumes and devices of a pod that are assigned before it is bound. ``timeout`` is the wait for volumes, in seconds."""

    volumes: tuple[VolumeChoice, ...] = ()
    devices: tuple[DeviceChoice, ...] = ()
    timeout: int = 600

    def __str__(self) -> str:
        parts = [f"{choice.claim.partition('/')[2]}={choice.volume or 'new'}" for choice in self.volumes]
        parts += [f"{each.claim.partition('/')[2]}={'+'.join(each.names)}" for each in self.devices if each.names]
        return ", ".join(parts)


class Bind(msgspec.Struct, frozen=True):
    """Run this pod on this node. The annotations go to the pod with the binding (such as the device that it was allocated).

    ``locks`` are annotations that the node gets before, once no other pod has them; its device plugin removes them.
    """

    pod: str
    node: str
    group: str = ""
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    claims: Claims | None = None
    locks: tuple[str, ...] = ()

    def __str__(self) -> str:
        settled = f" ({self.claims})" if self.claims is not None and str(self.claims) else ""
        return f"bind {short(self.pod)} -> {self.node}{settled}"


class Evict(msgspec.Struct, frozen=True):
    """Stop this pod for the benefit of another. ``group`` is the pod's own, ``preemptor`` the one it leaves for.

    ``moved_to`` is the node where resources are reserved for its replacement, empty without such.
    """

    pod: str
    reason: str
    group: str = ""
    message: str = ""
    preemptor: str = ""
    moved_to: str = ""

    def __str__(self) -> str:
        return f"evict {short(self.pod)}: {self.reason}" + (f" to {self.moved_to}" if self.moved_to else "")


class Nominate(msgspec.Struct, frozen=True):
    """Reserve resources of this node, once they are free, for this pod; without a node, keep none for it any longer."""

    pod: str
    node: str
    group: str = ""

    def __str__(self) -> str:
        return f"nominate {short(self.pod)} -> {self.node or 'nowhere'}"


class GroupCondition(msgspec.Struct, frozen=True):
    """A condition of a pod group: ``Scheduled`` or ``Unschedulable``, with its reason and its sentence."""

    type: str
    reason: str
    message: str = ""


class SetPodGroup(msgspec.Struct, frozen=True):
    """Write the status of a pod group: its phase, its condition, and the counts of its pods.

    ``moves`` are the pods that are moved to other nodes from now on, None where nothing changes. ``evicted`` is a condition
    beside the other: that pods of the group are evicted now, with the queue they are evicted for; ``evicted_seconds`` is
    the time that they count with. ``alternative`` is the one that the group is admitted with. ``ready_resources`` are what its
    pods on nodes request while the required pods have nodes, None while they have not.
    """

    pod_group: str
    phase: str
    condition: GroupCondition | None = None
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    moves: tuple[core.PodMove, ...] | None = None
    evicted: GroupCondition | None = None
    evicted_seconds: int = 0
    alternative: core.SelectedAlternative | None = None
    ready_resources: Mapping[str, str] | None = None

    def __str__(self) -> str:
        line = f"podgroup {short(self.pod_group)} {self.phase}"
        if self.alternative is not None:
            line += f' with alternative "{self.alternative.name}"'
        if self.condition is None:
            return line
        message = f": {self.condition.message}" if self.condition.message else ""
        return f"{line} {self.condition.type}{message}"


class SetQueue(msgspec.Struct, frozen=True):
    """Write what a queue and the queues below it hold, are due, keep, borrow and wait for, as Kubernetes resource lists.

    ``share`` is the allocated part of the fair share, of the resource where that is most; empty, as are ``fair_share`` and
    ``borrowed``, where no plugin computes fair shares. ``credit`` is what the queue was allocated below its fair share
    until ``credit_time``, in seconds of the whole cluster by resource (:mod:`volcanopy.scheduler.engine.shares.credit`), and
    ``usage`` what it was allocated until then (:mod:`volcanopy.scheduler.engine.shares.usage`); ``users`` are the shares of
    users where the order of jobs depends on users.
    """

    queue: str
    allocated: Mapping[str, str]
    fair_share: Mapping[str, str] = msgspec.field(default_factory=dict)
    guaranteed: Mapping[str, str] = msgspec.field(default_factory=dict)
    borrowed: Mapping[str, str] = msgspec.field(default_factory=dict)
    waiting: Mapping[str, str] = msgspec.field(default_factory=dict)
    share: str = ""
    credit: Mapping[str, str] = msgspec.field(default_factory=dict)
    usage: Mapping[str, str] = msgspec.field(default_factory=dict)
    credit_time: datetime | None = None
    users: tuple[core.QueueUser, ...] = ()

    def __str__(self) -> str:
        allocated = ", ".join(f"{name} {text}" for name, text in self.allocated.items()) or "nothing"
        return f"queue {self.queue} allocated {allocated}"


class Explain(msgspec.Struct, frozen=True):
    """Why a job waits.

    ``gate`` is the first gate that it does not pass (:mod:`volcanopy.api.gates`); ``nodes`` the number of rejecting nodes by
    reason; ``pods`` are its waiting pods with their message. The rest is as in :class:`.Message`; at gate ``nodes`` the
    ``amounts`` are those of the nearest node.
    """

    job: str
    gate: str
    message: str
    numbers: Mapping[str, str] = msgspec.field(default_factory=dict)
    nodes: Mapping[str, int] = msgspec.field(default_factory=dict)
    unblocked_by: str = ""
    pods: Mapping[str, str] = msgspec.field(default_factory=dict)
    amounts: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    blocked_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"explain {short(self.job)} [{self.gate}]: {self.message}"

    def in_namespace(self) -> "Explain":
        """Return what users of the job's namespace may read."""
        own = f"job {self.job.partition('/')[0]}/"
        nodes: Counter[str] = Counter()
        for reason, count in self.nodes.items():
            nodes[readable(self.job, reason)] += count
        return msgspec.structs.replace(
            self,
            message=readable(self.job, self.message),
            nodes=nodes,
            unblocked_by=readable(self.job, self.unblocked_by),
            pods={pod: readable(self.job, text) for pod, text in self.pods.items()},
            blocked_by=tuple(
                entry for entry in self.blocked_by if not entry.startswith("job ") or entry.startswith(own)
            ),
        )


_JOB = re.compile(r'job "(?:([^"/]*)/)?[^"/]*"')
"""A job in a message, by its namespace, which is not named if it is ``default``."""


def readable(job: str, text: str) -> str:
    """Return a message for users of the namespace of a job: without the names of jobs of other namespaces."""
    namespace, _, _ = job.partition("/")
    return _JOB.sub(lambda each: each[0] if (each[1] or "default") == namespace else "job of another namespace", text)


Effect = Bind | Evict | Nominate | SetPodGroup | SetQueue | Explain


@dataclass(frozen=True)
class Plan:
    """The effects of one cycle, in order of application, with the version of the snapshot that they rest on."""

    effects: tuple[Effect, ...] = ()
    version: int = 0
    session: str = ""

    def __str__(self) -> str:
        return "\n".join(map(str, self.effects))

    def __iter__(self) -> Any:
        return iter(self.effects)

    def of(self, *kinds: type[Any]) -> list[Any]:
        """The effects of these kinds, in order."""
        return [effect for effect in self.effects if isinstance(effect, kinds)]


def document(plan: Plan) -> dict[str, Any]:
    """The plan as a JSON document of kind ``Plan``."""
    return {
        "apiVersion": "volcanopy.io/v1alpha1",
        "kind": "Plan",
        "effects": [_entry(effect) for effect in plan.effects],
    }


_FIELDS: dict[type[Any], tuple[tuple[str, ...], tuple[str, ...]]] = {
    Bind: (("pod", "node"), ("annotations", "locks")),
    Evict: (("pod", "reason"), ("message", "preemptor", "moved_to")),
    Nominate: (("pod", "node"), ()),
    SetPodGroup: (("pod_group", "phase", "running", "succeeded", "failed"), ("condition", "alternative")),
    SetQueue: (
        ("queue", "allocated"),
        ("fair_share", "guaranteed", "borrowed", "waiting", "share", "credit", "usage", "users"),
    ),
    Explain: (("job", "gate", "message", "numbers", "nodes"), ("unblocked_by", "pods", "amounts", "blocked_by")),
}
"""The fields of effects in a document: those that it always has, and those that it has where they are not empty."""
_KEYS = {"job": "podGroup", "locks": "nodeLocks"}
"""The keys of fields that are not their names."""


def _entry(effect: Effect) -> dict[str, Any]:
    always, given = _FIELDS[type(effect)]
    values = {field: msgspec.to_builtins(getattr(effect, field)) for field in (*always, *given)}
    entry = {_KEYS.get(field, to_camel(field)): value for field, value in values.items() if value or field in always}
    claims = effect.claims if isinstance(effect, Bind) else None
    return {"effect": type(effect).__name__, **entry, **({} if claims is None else _settled(claims))}


def _settled(claims: Claims) -> dict[str, Any]:
    volumes = [{"claim": choice.claim, "volume": choice.volume or None} for choice in claims.volumes]
    devices = [{"claim": choice.claim, "allocation": choice.allocation} for choice in claims.devices]
    return {key: choices for key, choices in (("volumes", volumes), ("devices", devices)) if choices}
