"""Volumes behind a pod's claims: where they can be reached, which of those that wait get which volume, and who else uses them.

A claim that has its volume binds the pod to nodes that reach it. A claim that waits for its first pod gets, on the node
chosen, an open volume or one that is made there. Any other claim without a volume keeps its pod from every node.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from volcanopy.api import storage
from volcanopy.scheduler.filters.assumed_claims import AssumedClaims
from volcanopy.scheduler.filters.volumes import volume_matching, volume_topology
from volcanopy.scheduler.filters.volumes.available_volumes import AvailableVolumes
from volcanopy.scheduler.filters.volumes.volume_users import Users
from volcanopy.scheduler.framework.plugin import NodeRejection, Scope
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_claims
from volcanopy.scheduler.model.claim_tables import ClaimTables
from volcanopy.scheduler.model.plan import VolumeChoice
from volcanopy.scheduler.model.resources import Mask, Rows

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
ZONE = "node(s) had no available volume zone"
FULL = "node(s) exceed max volume count"
IN_USE = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"

Claim = storage.PersistentVolumeClaim


@dataclass(frozen=True)
class Rules:
    """Which of the rules are in force."""

    binding: bool = True
    zones: bool = True
    limits: bool = True


@dataclass
class Needs:
    """What the claims behind one pod come to."""

    problem: str = ""
    """Why no node will do, empty if one may."""
    bound: list[tuple[Claim, storage.PersistentVolume]] = field(default_factory=list)
    waiting: list[Claim] = field(default_factory=list)
    exclusive: list[str] = field(default_factory=list)
    attached: dict[str, dict[str, str]] = field(default_factory=dict)
    """By driver: the volumes, each with its claim."""
    shared: bool = False
    """Whether other pods may use one of the claims too."""


@dataclass(frozen=True, eq=False)
class _Options:
    """What one claim can have: volumes by name, with (names, M) from where they are reached, or (M,) a new one."""

    claim: Claim
    names: list[str]
    reached: Mask
    made: Mask


class Volumes:
    """The questions about volumes in one session."""

    def __init__(self, cluster: Cluster, books: AssumedClaims, rules: Rules) -> None:
        self._cluster, self._books, self._rules = cluster, books, rules
        self._traits = cluster.traits
        self._supplies: ClaimTables = cluster.snapshot.claim_tables
        self._users = Users(cluster, books.claiming)
        self._needs: dict[int, Needs] = {}
        self._shelves: dict[str, AvailableVolumes] = {}

    def cache_key(self, task: TaskView) -> bytes | None:
        """Equal for tasks of one shape whose own claims are alike; None for tasks that have none of their own."""
        own = [requested.key for requested in pod_claims.volumes(task.pod) if requested.own]
        if not own:
            return None
        problem = self._of(task).problem
        return problem.encode() if problem else _ENCODE([self._alike(key) for key in own])

    def _alike(self, key: str) -> object:
        claim = self._supplies.claims[key]
        apart = [volume.metadata.name for volume in self._supplies.reserved_volumes.get(key, ())]
        selected = claim.metadata.annotations.get(storage.SELECTED_NODE)
        return (claim.spec, selected, apart)

    def scope(self, task: TaskView) -> Scope:
        """How far a placement of another such task reaches."""
        needs = self._of(task)
        if needs.problem:
            return Scope.COLUMNS
        if self._rules.binding and (needs.waiting or needs.exclusive):
            return Scope.CLUSTER
        limited = self._rules.limits and any(self._users.limit(driver) is not None for driver in needs.attached)
        return Scope.NODE if limited else Scope.COLUMNS

    def refusals(self, task: TaskView, rows: Rows) -> Iterator[NodeRejection]:
        """Why the task cannot be on some of these nodes."""
        needs, rules = self._of(task), self._rules
        if needs.problem:
            yield NodeRejection(needs.problem, np.ones(len(rows), dtype=np.bool_), final=True)
            return
        for _, volume in needs.bound:
            if rules.binding and volume.spec.node_affinity is not None:
                yield NodeRejection(NODE_CONFLICT, ~volume_topology.mask_of(volume, self._traits)[rows], final=True)
            outside = volume_topology.outside_zone(volume, self._traits) if rules.zones else None
            if outside is not None:
                yield NodeRejection(ZONE, outside[rows], final=True)
        if rules.binding:
            yield from self._unbindable(task, needs, rows)
            for key in needs.exclusive:
                yield from self._taken(task, key, rows)
        if rules.limits:
            for driver, volumes in needs.attached.items():
                yield from self._full(driver, volumes, needs.shared, rows)

    def choose(self, task: TaskView, node: int) -> tuple[VolumeChoice, ...]:
        """How the claims that wait get their volumes on a node where they all can."""
        needs = self._of(task)
        if not self._rules.binding or not needs.waiting:
            return ()
        given = self._books.volume_choices()
        chosen, left = [], []
        for claim in needs.waiting:
            key = claim.metadata.key
            apart = self._set_apart(claim)
            if key in given:
                chosen.append(given[key][0])
            elif storage.SELECTED_NODE in claim.metadata.annotations:
                chosen.append(VolumeChoice(key, claim.metadata.uid))
            elif apart:
                volume = next(one for one in apart if volume_topology.mask_of(one, self._traits)[node])
                chosen.append(VolumeChoice(key, claim.metadata.uid, volume.metadata.name))
            else:
                left.append(claim)
        if left:
            taken = [choice.volume for choice, _ in given.values()]
            reached = {}
            for claim in left:
                available = self._available(claim)
                places = available.open(claim, taken)
                reached[claim.metadata.key] = [
                    available.names[one] for one in places[available.reach[places, node]].tolist()
                ]
            made = {claim.metadata.key: bool(self._makeable(claim)[0][node]) for claim in left}
            matched = volume_matching.match(left, reached, lambda one: made[one.metadata.key]) or {}
            uids = {claim.metadata.key: claim.metadata.uid for claim in left}
            chosen += [VolumeChoice(key, uids[key], volume) for key, volume in matched.items()]
        return tuple(sorted(chosen, key=lambda one: one.claim))

    # What a pod needs

    def _of(self, task: TaskView) -> Needs:
        known = self._needs.get(task.row)
        if known is None:
            known = self._needs[task.row] = self._read(task)
        return known

    def _read(self, task: TaskView) -> Needs:
        needs, claim_tables = Needs(), self._supplies
        for requested in pod_claims.volumes(task.pod):
            name = requested.key.partition("/")[2]
            claim = claim_tables.claims.get(requested.key)
            needs.shared |= not requested.own
            if claim is None:
                needs.problem = (
                    f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                    if requested.own
                    else f'persistentvolumeclaim "{name}" not found'
                )
            elif requested.own and all(owner.uid != task.pod.metadata.uid for owner in claim.metadata.owner_references):
                needs.problem = f'persistentvolumeclaim "{name}" was not created for the pod'
            elif claim.metadata.deletion_timestamp is not None:
                needs.problem = f'persistentvolumeclaim "{name}" is being deleted'
            elif claim.status.phase == "Lost":
                needs.problem = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
            else:
                self._read_claim(needs, claim)
            if needs.problem:
                return needs
        return needs

    def _read_claim(self, needs: Needs, claim: Claim) -> None:
        claim_tables, key = self._supplies, claim.metadata.key
        if storage.EXCLUSIVE in claim.spec.access_modes:
            needs.exclusive.append(key)
        if claim.spec.volume_name:
            volume = claim_tables.volumes.get(claim.spec.volume_name)
            if volume is None:
                needs.problem = NO_VOLUME
                return
            needs.bound.append((claim, volume))
        else:
            made_by = claim_tables.classes.get(claim.spec.storage_class_name)
            if made_by is None or not made_by.waits:
                needs.problem = UNBOUND
                return
            needs.waiting.append(claim)
        behind = self._users.volume(key)
        if behind is not None:
            needs.attached.setdefault(behind[0], {})[behind[1]] = key

    # Claims that wait

    def _unbindable(self, task: TaskView, needs: Needs, rows: Rows) -> Iterator[NodeRejection]:
        given = self._books.volume_choices()
        left = []
        for claim in needs.waiting:
            key = claim.metadata.key
            selected = claim.metadata.annotations.get(storage.SELECTED_NODE)
            apart = self._set_apart(claim)
            if key in given:
                choice, node = given[key]
                where = self._mask(choice.volume) if choice.volume else self._only(node)
            elif selected is not None:
                where = self._only(self._cluster.snapshot.nodes.index.get(selected, -1))
            elif apart:
                where = np.any([volume_topology.mask_of(one, self._traits) for one in apart], axis=0)
            else:
                left.append(claim)
                continue
            yield NodeRejection(BIND_CONFLICT, ~where[rows], final=True)
        if left:
            yield from self._unmatched(left, rows)

    def _unmatched(self, claims: list[Claim], rows: Rows) -> Iterator[NodeRejection]:
        """The nodes on which claims cannot all have a volume."""
        taken = [choice.volume for choice, _ in self._books.volume_choices().values()]
        made = [self._makeable(claim) for claim in claims]
        shelves = [self._available(claim) for claim in claims]
        places = [available.open(claim, taken) for available, claim in zip(shelves, claims, strict=True)]
        without_room = np.zeros(len(rows), dtype=np.bool_)
        served = np.ones(len(rows), dtype=np.bool_)
        for (where, short), available, open_ in zip(made, shelves, places, strict=True):
            has_one: Mask = np.asarray(available.reach[open_].any(axis=0))[rows]
            served &= has_one | where[rows]
            without_room |= ~has_one & short[rows]
        if len(claims) > 1 and any(len(open_) for open_ in places):
            options = [
                _Options(
                    claim,
                    [available.names[one] for one in open_.tolist()],
                    available.reach[open_][:, rows],
                    where[rows],
                )
                for claim, available, open_, (where, _) in zip(claims, shelves, places, made, strict=True)
            ]
            served &= _shared_out(options, served)
        yield NodeRejection(NO_SPACE, ~served & without_room, final=True)
        yield NodeRejection(BIND_CONFLICT, ~served & ~without_room, final=True)

    def _available(self, claim: Claim) -> AvailableVolumes:
        name = claim.spec.storage_class_name
        if name not in self._shelves:
            self._shelves[name] = AvailableVolumes(self._supplies.open_volumes.get(name, ()), self._traits)
        return self._shelves[name]

    def _set_apart(self, claim: Claim) -> list[storage.PersistentVolume]:
        """The volumes that name this claim as the one that they are for; it gets no other."""
        known = self._supplies.reserved_volumes.get(claim.metadata.key, ())
        return [
            one for one in known if volume_matching.is_for(one, claim) and volume_matching.is_large_enough(one, claim)
        ]

    def _makeable(self, claim: Claim) -> tuple[Mask, Mask]:
        """(N,), twice: the nodes for which a volume can be made, and those where only the room for it is missing."""
        made_by = self._supplies.classes[claim.spec.storage_class_name]
        nothing = np.zeros(len(self._traits.objects), dtype=np.bool_)
        if not made_by.provisions:
            return nothing, nothing
        where = volume_topology.of_class(made_by, self._traits)
        room = volume_topology.with_capacity(claim, made_by, self._supplies, self._traits)
        return (where, nothing) if room is None else (where & room, where & ~room)

    def _mask(self, volume: str) -> Mask:
        return volume_topology.mask_of(self._supplies.volumes[volume], self._traits)

    def _only(self, node: int) -> Mask:
        mask = np.zeros(len(self._traits.objects), dtype=np.bool_)
        if node >= 0:
            mask[node] = True
        return mask

    # Who else uses them

    def _taken(self, task: TaskView, key: str, rows: Rows) -> Iterator[NodeRejection]:
        stay, leave = self._users.of(key)
        everywhere = np.ones(len(rows), dtype=np.bool_)
        if (stay != task.row).any():
            yield NodeRejection(IN_USE, everywhere)
        elif len(leave):
            yield NodeRejection(IN_USE, everywhere, temporary=True)

    def _full(self, driver: str, volumes: dict[str, str], shared: bool, rows: Rows) -> Iterator[NodeRejection]:
        """The nodes that would have too many volumes of a driver: one that is there already does not count again."""
        limit = self._users.limit(driver)
        if limit is None:
            return
        now, later = (counts[rows] + len(volumes) for counts in self._users.counts(driver))
        if shared:
            for key in volumes.values():
                here, then = self._users.nodes_of(key)
                now = now - np.isin(rows, list(here))
                later = later - np.isin(rows, list(then))
        rejected = later > limit[rows]
        yield NodeRejection(FULL, rejected)
        yield NodeRejection(FULL, (now > limit[rows]) & ~rejected, temporary=True)


def _shared_out(options: list[_Options], served: Mask) -> Mask:
    """Where several claims can have a volume each: asked once for nodes that are alike in what reaches them."""
    answer = np.zeros(len(served), dtype=np.bool_)
    at = np.flatnonzero(served)
    if not len(at):
        return answer
    whole = np.vstack([*[one.reached for one in options], *[one.made[None, :] for one in options]])[:, at]
    _, first, where = np.unique(np.packbits(whole, axis=0), axis=1, return_index=True, return_inverse=True)
    where = where.reshape(-1)
    for kind, place in enumerate(at[first].tolist()):
        names = {
            one.claim.metadata.key: [one.names[row] for row in np.flatnonzero(one.reached[:, place]).tolist()]
            for one in options
        }
        can = {one.claim.metadata.key for one in options if one.made[place]}
        claims = [one.claim for one in options]
        if volume_matching.match(claims, names, lambda claim, can=can: claim.metadata.key in can) is not None:  # type: ignore[misc]
            answer[at[where == kind]] = True
    return answer
