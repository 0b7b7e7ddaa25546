"""How a queue stands: what it holds and is due, who above it ends it, and who waits in it at which gate."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from volcanopy.api import names, quantity
from volcanopy.cli.explaining.account import Holding, QueueAccount, Waiting, counted, listed
from volcanopy.cli.framework.kinds import key_of, spec_of, status_of
from volcanopy.kube.client.kinds import Json

COUNTS = ("pending", "inqueue", "running", "unknown", "completed")
"""What a queue's status counts: PodGroups by phase."""
_OVER = frozenset({"Completed"})
_LINE_END = 1 << 30


@dataclass(frozen=True)
class QueueFacts:
    """What is known of a queue.

    ``above`` are the queues above it, the nearest first; ``below`` those below it, at any depth, and ``groups`` the
    PodGroups of it and of them: None where they may not be read, as ``unread`` then says.
    """

    queue: Json
    above: Sequence[Json] = ()
    below: Sequence[Json] | None = ()
    groups: Sequence[Json] | None = ()
    unread: tuple[str, ...] = field(default=())


def account_of(facts: QueueFacts) -> QueueAccount:
    """What is to be said about the queue."""
    queue, status = facts.queue, status_of(facts.queue)
    name = key_of(queue).name
    waiting = _in_line(facts.groups or ())
    by_gate = Counter(one.gate for one in waiting)
    holdings = tuple(_holdings(facts))
    return QueueAccount(
        name=name,
        parents=tuple(key_of(one).name for one in facts.above),
        state=state(queue),
        stop_policy=policy(queue),
        verdict=f"queue {name} {'; '.join(_verdict(facts, holdings, waiting, by_gate))}",
        share=str(status.get("share") or ""),
        holdings=holdings,
        caps=tuple(_caps(holdings, name)),
        counts={kind: int(status.get(kind, 0)) for kind in COUNTS},
        jobs=int(status.get("jobs", 0)),
        gates=dict(sorted(by_gate.items(), key=lambda item: (-item[1], item[0]))),
        waiting=tuple(waiting),
        below=tuple(key_of(one).name for one in facts.below or ()),
        notes=facts.unread,
    )


def state(queue: Json) -> str:
    """Whether it takes new jobs; one of which nobody has said anything is open."""
    return str(status_of(queue).get("state") or "Open")


def policy(queue: Json) -> str:
    """Whether it is stopped for a while; the root never is."""
    return "None" if key_of(queue).name == names.ROOT_QUEUE else str(spec_of(queue).get("stopPolicy") or "None")


def stops(queue: Json, above: Sequence[Json]) -> str:
    """What keeps new jobs out of the queue now, as a clause; empty if nothing does."""
    if state(queue) != "Open":
        return f"is {state(queue).lower()}: it takes no new jobs"
    held = next((one for one in (queue, *above) if policy(one) != "None"), None)
    if held is None:
        return ""
    does = "nothing new starts, and what runs leaves" if policy(held) == "HoldAndDrain" else "nothing new starts"
    if held is queue:
        return f"is {_stopped(held)}: {does} until `volcanopy queue resume {key_of(queue).name}`"
    name = key_of(held).name
    return f"is {_stopped(held)} with queue {name} above it: {does} until `volcanopy queue resume {name}`"


def _stopped(queue: Json) -> str:
    return "drained" if policy(queue) == "HoldAndDrain" else "held"


def _verdict(
    facts: QueueFacts, holdings: Sequence[Holding], waiting: Sequence[Waiting], by_gate: Mapping[str, int]
) -> list[str]:
    said = [stops(facts.queue, facts.above) or "is open"]
    most = dominant(holdings)
    if most is None:
        said.append("holds nothing")
    elif most.deserved:
        said.append(f"holds {most.held or '0'} of the {most.deserved} {most.resource} that it deserves")
    else:
        said.append(f"holds {most.held or '0'} {most.resource}")
    full = next((one for one in holdings if one.left == "0" and one.resource != "pods"), None)
    if full is not None:
        whose = "" if full.capped_by == key_of(facts.queue).name else f" because of queue {full.capped_by}"
        said.append(f"may take no more {full.resource}{whose}")
    borrowed = [f"{one.borrowed} {one.resource}" for one in holdings if one.borrowed and one.resource != "pods"]
    if borrowed:
        said.append(f"has borrowed {listed(borrowed)}")
    if waiting:
        at = ", ".join(f"{number} at {gate}" for gate, number in sorted(by_gate.items(), key=lambda item: -item[1]))
        said.append(f"{counted(len(waiting), 'job')} {'waits' if len(waiting) == 1 else 'wait'} ({at})")
    elif facts.groups is not None:
        said.append("nobody waits")
    return said


def dominant(holdings: Sequence[Holding]) -> Holding | None:
    """The resource of which it holds the greatest part of what it is due, or else of what it may hold."""

    def part(one: Holding) -> float:
        whole = one.deserved or one.limit
        if not one.held or one.resource == "pods":
            return -1.0
        return float(quantity.parse(one.held) / quantity.parse(whole)) if whole and quantity.parse(whole) else 0.0

    best = max(holdings, key=part, default=None)
    return best if best is not None and best.held and best.resource != "pods" else None


def _holdings(facts: QueueFacts) -> list[Holding]:
    status, spec = status_of(facts.queue), spec_of(facts.queue)
    line = [
        (key_of(one).name, _amounts(spec_of(one), "capability"), _amounts(status_of(one), "allocated"))
        for one in _line(facts)
    ]
    kinds = {kind: _amounts(status, kind) for kind in ("allocated", "deserved", "guaranteed", "borrowed", "waiting")}
    lent = _amounts(spec, "lendingLimit")
    resources = sorted(
        {name for one in kinds.values() for name in one} | {name for _, caps, _ in line for name in caps}
    )
    return [_holding(name, kinds, line, lent) for name in resources]


def _holding(
    resource: str,
    kinds: Mapping[str, Mapping[str, int]],
    line: Sequence[tuple[str, Mapping[str, int], Mapping[str, int]]],
    lent: Mapping[str, int],
) -> Holding:
    told = {kind: _text(resource, amounts.get(resource)) for kind, amounts in kinds.items()}
    caps = [(caps[resource], name) for name, caps, _ in line if resource in caps]
    left = [(max(caps[resource] - held.get(resource, 0), 0), name) for name, caps, held in line if resource in caps]
    due, held = kinds["deserved"].get(resource, 0), kinds["allocated"].get(resource, 0)
    idle = max(due - held, 0)
    return Holding(
        resource=resource,
        held=told["allocated"],
        deserved=told["deserved"],
        limit=_text(resource, min(caps)[0]) if caps else "",
        capped_by=min(left)[1] if left else "",
        left=quantity.text(resource, min(left)[0]) if left else "",
        guaranteed=told["guaranteed"],
        borrowed=told["borrowed"],
        lendable=_text(resource, min(idle, lent.get(resource, idle))),
        waiting=told["waiting"],
    )


def _line(facts: QueueFacts) -> list[Json]:
    return [facts.queue, *facts.above]


def _amounts(part: Json, key: str) -> dict[str, int]:
    return quantity.amounts(part.get(key) or {})


def _text(resource: str, units: int | None) -> str:
    return quantity.text(resource, units) if units else ""


def _caps(holdings: Sequence[Holding], name: str) -> list[str]:
    """The queues above that end this one before its own limit does."""
    by: dict[str, list[Holding]] = {}
    for one in holdings:
        if one.capped_by and one.capped_by != name:
            by.setdefault(one.capped_by, []).append(one)
    return [
        f"queue {who}: {listed([f'{one.left} {one.resource} left' for one in ends])} in it and all below it"
        for who, ends in by.items()
    ]


def _in_line(groups: Sequence[Json]) -> list[Waiting]:
    """Who waits, in the order of their places."""
    waiting = []
    for group in groups:
        status = status_of(group)
        why = status.get("explanation") or {}
        phase = status.get("phase") or "Pending"
        if phase in _OVER or not (why or phase == "Pending"):
            continue
        place = (why.get("numbers") or {}).get("position", "")
        waiting.append(
            Waiting(
                owner_of(group),
                key_of(group).namespace,
                str(why.get("gate") or "not looked at yet"),
                str(why.get("message") or ""),
                int(place) if place.isdecimal() else 0,
            )
        )
    return sorted(waiting, key=lambda one: (one.place or _LINE_END, one.namespace, one.name))


def owner_of(group: Json) -> str:
    """The name of the job that a PodGroup was made for, or its own."""
    owners = group["metadata"].get("ownerReferences") or ()
    job = next((one["name"] for one in owners if one.get("kind") == "BatchJob"), "")
    return str(job or key_of(group).name)
