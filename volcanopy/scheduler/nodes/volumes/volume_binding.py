"""Filter of nodes by the volume claims of a pod, and the choice of volumes for unbound claims.

A bound claim restricts the pod to the nodes from which its volume is accessible. An unbound claim whose class has volume
binding mode WaitForFirstConsumer gets an available volume on the chosen node, or one is provisioned. Any other unbound
claim rejects every node.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from volcanopy.api.builtin import pod_claims, storage
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.claim_tables import ClaimTables
from volcanopy.scheduler.model.once import once_by
from volcanopy.scheduler.model.plan import VolumeChoice
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.nodes.assumed_claims import AssumedClaims
from volcanopy.scheduler.nodes.volumes import volume_matching, volume_topology
from volcanopy.scheduler.nodes.volumes.volume_topology import AvailableVolumes
from volcanopy.scheduler.nodes.volumes.volume_users import VolumeUsers
from volcanopy.scheduler.policy.plugin import NodeRejection

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
class VolumeChecks:
    """Which checks of volumes are enabled."""

    binding: bool = True
    zones: bool = True
    limits: bool = True


@dataclass
class PodVolumes:
    """The volume claims of one pod."""

    problem: str = ""  # Why every node is rejected; empty if none is for this reason.
    bound: list[tuple[Claim, storage.PersistentVolume]] = field(default_factory=list)
    unbound: list[Claim] = field(default_factory=list)
    exclusive: list[str] = field(default_factory=list)
    attached: dict[str, dict[str, str]] = field(default_factory=dict)  # By driver: the volumes, each with its claim.
    shared: bool = False  # Whether other pods may use one of the claims.


@dataclass(frozen=True, eq=False)
class _Options:
    """The options of one claim on M nodes: named volumes with their (names, M) accessibility, or (M,) a provisioned one."""

    claim: Claim
    names: list[str]
    accessible: Mask
    provisionable: Mask


class VolumeBinding:
    """The filter by volumes of one session."""

    def __init__(self, cluster: Cluster, assumed: AssumedClaims, checks: VolumeChecks) -> None:
        self._cluster, self._assumed, self._checks = cluster, assumed, checks
        self._traits = cluster.traits
        self._tables: ClaimTables = cluster.snapshot.claim_tables
        self._users = VolumeUsers(cluster, assumed.claiming)

    def cache_key(self, task: TaskView) -> bytes | None:
        """Return a key that tasks with equivalent claims of their own share; None for tasks without such claims."""
        own = [requested.key for requested in pod_claims.volumes(task.representative.pod) if requested.own]
        if not own:
            return None
        problem = self._volumes_of(task).problem
        return problem.encode() if problem else _ENCODE([self._equivalence(key) for key in own])

    def _equivalence(self, key: str) -> object:
        claim = self._tables.claims[key]
        reserved = [volume.metadata.name for volume in self._tables.reserved_volumes.get(key, ())]
        selected = claim.metadata.annotations.get(storage.SELECTED_NODE)
        return (claim.spec, selected, reserved)

    def couples_nodes(self, task: TaskView) -> bool:
        """Return whether the volumes of other nodes matter for a node."""
        pod_volumes = self._volumes_of(task)
        return self._checks.binding and not pod_volumes.problem and bool(pod_volumes.unbound or pod_volumes.exclusive)

    def rejections(self, task: TaskView, rows: Rows) -> Iterator[NodeRejection]:
        """Yield the rejections of these nodes for the task."""
        pod_volumes, checks = self._volumes_of(task), self._checks
        if pod_volumes.problem:
            yield NodeRejection(pod_volumes.problem, np.ones(len(rows), dtype=np.bool_), final=True)
            return
        for _, volume in pod_volumes.bound:
            if checks.binding and volume.spec.node_affinity is not None:
                yield NodeRejection(NODE_CONFLICT, ~self._accessible(volume)[rows], final=True)
            outside = volume_topology.outside_zone(volume, self._traits) if checks.zones else None
            if outside is not None:
                yield NodeRejection(ZONE, outside[rows], final=True)
        if checks.binding:
            yield from self._unbindable(task, pod_volumes, rows)
            for key in pod_volumes.exclusive:
                yield from self._in_use(task, key, rows)
        if checks.limits:
            for driver, volumes in pod_volumes.attached.items():
                yield from self._over_limit(driver, volumes, pod_volumes.shared, rows)

    def choose(self, task: TaskView, node: int) -> tuple[VolumeChoice, ...]:
        """Return how the unbound claims get their volumes on a feasible node."""
        pod_volumes = self._volumes_of(task)
        if not self._checks.binding or not pod_volumes.unbound:
            return ()
        assumed = self._assumed.volume_choices()
        chosen, remaining = [], []
        for claim in pod_volumes.unbound:
            key = claim.metadata.key
            reserved = self._reserved_volumes(claim)
            if key in assumed:
                chosen.append(assumed[key][0])
            elif storage.SELECTED_NODE in claim.metadata.annotations:
                chosen.append(VolumeChoice(key, claim.metadata.uid))
            elif reserved:
                volume = next(volume for volume in reserved if self._accessible(volume)[node])
                chosen.append(VolumeChoice(key, claim.metadata.uid, volume.metadata.name))
            else:
                remaining.append(claim)
        if remaining:
            taken = [choice.volume for choice, _ in assumed.values()]
            candidates = {}
            for claim in remaining:
                available = self._available_volumes(claim)
                indices = available.suitable(claim, taken)
                accessible = indices[available.accessible[indices, node]]
                candidates[claim.metadata.key] = [available.names[index] for index in accessible.tolist()]
            provisionable = {claim.metadata.key for claim in remaining if self._provisionable(claim)[0][node]}
            matched = volume_matching.match(remaining, candidates, provisionable) or {}
            uids = {claim.metadata.key: claim.metadata.uid for claim in remaining}
            chosen += [VolumeChoice(key, uids[key], volume) for key, volume in matched.items()]
        return tuple(sorted(chosen, key=lambda choice: choice.claim))

    # Claims of a pod

    @once_by("representative.row")
    def _volumes_of(self, task: TaskView) -> PodVolumes:
        pod_volumes, claim_tables, pod = PodVolumes(), self._tables, task.representative.pod
        for requested in pod_claims.volumes(pod):
            name = requested.key.partition("/")[2]
            claim = claim_tables.claims.get(requested.key)
            pod_volumes.shared |= not requested.own
            if claim is None:
                pod_volumes.problem = (
                    f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                    if requested.own
                    else f'persistentvolumeclaim "{name}" not found'
                )
            elif requested.own and all(owner.uid != pod.metadata.uid for owner in claim.metadata.owner_references):
                pod_volumes.problem = f'persistentvolumeclaim "{name}" was not created for the pod'
            elif claim.metadata.deletion_timestamp is not None:
                pod_volumes.problem = f'persistentvolumeclaim "{name}" is being deleted'
            elif claim.status.phase == "Lost":
                pod_volumes.problem = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
            else:
                self._read_claim(pod_volumes, claim)
            if pod_volumes.problem:
                return pod_volumes
        return pod_volumes

    def _read_claim(self, pod_volumes: PodVolumes, claim: Claim) -> None:
        claim_tables, key = self._tables, claim.metadata.key
        if storage.EXCLUSIVE in claim.spec.access_modes:
            pod_volumes.exclusive.append(key)
        if claim.spec.volume_name:
            volume = claim_tables.volumes.get(claim.spec.volume_name)
            if volume is None:
                pod_volumes.problem = NO_VOLUME
                return
            if volume.spec.claim_ref is not None and not volume_matching.is_for(volume, claim):
                pod_volumes.problem = UNBOUND
                return
            pod_volumes.bound.append((claim, volume))
        else:
            storage_class = claim_tables.classes.get(claim.spec.storage_class_name)
            if storage_class is None or not storage_class.waits:
                pod_volumes.problem = UNBOUND
                return
            pod_volumes.unbound.append(claim)
        attachable = self._users.volume(key)
        if attachable is not None:
            pod_volumes.attached.setdefault(attachable[0], {})[attachable[1]] = key

    # Unbound claims

    def _unbindable(self, task: TaskView, pod_volumes: PodVolumes, rows: Rows) -> Iterator[NodeRejection]:
        assumed = self._assumed.volume_choices() if pod_volumes.unbound else {}
        remaining = []
        for claim in pod_volumes.unbound:
            key = claim.metadata.key
            selected = claim.metadata.annotations.get(storage.SELECTED_NODE)
            reserved = self._reserved_volumes(claim)
            if key in assumed:
                choice, node = assumed[key]
                where = self._accessible(self._tables.volumes[choice.volume]) if choice.volume else self._only(node)
            elif selected is not None:
                where = self._only(self._cluster.snapshot.nodes.index.get(selected, -1))
            elif reserved:
                where = np.any([self._accessible(volume) for volume in reserved], axis=0)
            else:
                remaining.append(claim)
                continue
            yield NodeRejection(BIND_CONFLICT, ~where[rows], final=True)
        if remaining:
            yield from self._unmatched(remaining, rows)

    def _unmatched(self, claims: list[Claim], rows: Rows) -> Iterator[NodeRejection]:
        """Yield the rejections of nodes on which not all claims can have a volume."""
        taken = [choice.volume for choice, _ in self._assumed.volume_choices().values()]
        options = []
        without_space = np.zeros(len(rows), dtype=np.bool_)
        bindable = np.ones(len(rows), dtype=np.bool_)
        for claim in claims:
            available = self._available_volumes(claim)
            indices = available.suitable(claim, taken)
            accessible = available.accessible[indices]
            provisionable, short = (mask[rows] for mask in self._provisionable(claim))
            has_volume = np.asarray(accessible.any(axis=0))[rows]
            bindable &= has_volume | provisionable
            without_space |= ~has_volume & short
            if len(claims) > 1:
                names = [available.names[index] for index in indices.tolist()]
                options.append(_Options(claim, names, accessible[:, rows], provisionable))
        if any(option.names for option in options):
            bindable &= _all_bindable(options, bindable)
        yield NodeRejection(NO_SPACE, ~bindable & without_space, final=True)
        yield NodeRejection(BIND_CONFLICT, ~bindable & ~without_space, final=True)

    @once_by("spec.storage_class_name")
    def _available_volumes(self, claim: Claim) -> AvailableVolumes:
        return AvailableVolumes(self._tables.open_volumes.get(claim.spec.storage_class_name, ()), self._traits)

    def _reserved_volumes(self, claim: Claim) -> list[storage.PersistentVolume]:
        """Return the volumes that are reserved for this claim; it gets no other."""
        known = self._tables.reserved_volumes.get(claim.metadata.key, ())
        return [
            volume
            for volume in known
            if volume_matching.is_for(volume, claim) and volume_matching.is_large_enough(volume, claim)
        ]

    def _provisionable(self, claim: Claim) -> tuple[Mask, Mask]:
        """Return two (N,) masks: the nodes for which a volume can be provisioned, and those that lack only the capacity."""
        storage_class = self._tables.classes[claim.spec.storage_class_name]
        no_node = np.zeros(len(self._traits.objects), dtype=np.bool_)
        if not storage_class.provisions:
            return no_node, no_node
        where = volume_topology.allowed_mask(storage_class, self._traits)
        capacity = volume_topology.with_capacity(claim, storage_class, self._tables, self._traits)
        return (where, no_node) if capacity is None else (where & capacity, where & ~capacity)

    def _accessible(self, volume: storage.PersistentVolume) -> Mask:
        return volume_topology.accessible_mask(volume, self._traits)

    def _only(self, node: int) -> Mask:
        return np.arange(len(self._traits.objects)) == node

    # Other users of the volumes

    def _in_use(self, task: TaskView, key: str, rows: Rows) -> Iterator[NodeRejection]:
        staying, terminating = self._users.of(key)
        all_nodes = np.ones(len(rows), dtype=np.bool_)
        if (staying != task.representative.row).any():
            yield NodeRejection(IN_USE, all_nodes)
        elif len(terminating):
            yield NodeRejection(IN_USE, all_nodes, temporary=True)

    def _over_limit(self, driver: str, volumes: dict[str, str], shared: bool, rows: Rows) -> Iterator[NodeRejection]:
        """Yield the rejections of nodes over the attach limit of a driver; a volume that is attached already counts once."""
        limit = self._users.limit(driver)
        if limit is None:
            return
        current, later = (counts[rows] + len(volumes) for counts in self._users.counts(driver))
        if shared:
            for key in volumes.values():
                nodes, nodes_later = self._users.nodes_of(key)
                current = current - np.isin(rows, list(nodes))
                later = later - np.isin(rows, list(nodes_later))
        rejected = later > limit[rows]
        yield NodeRejection(FULL, rejected)
        yield NodeRejection(FULL, (current > limit[rows]) & ~rejected, temporary=True)


def _all_bindable(options: list[_Options], candidates: Mask) -> Mask:
    """Return the candidate nodes on which every claim can have a volume; nodes with equal options are matched once."""
    result = np.zeros(len(candidates), dtype=np.bool_)
    nodes = np.flatnonzero(candidates)
    if not len(nodes):
        return result
    table = np.vstack([*[option.accessible for option in options], *[option.provisionable for option in options]])
    packed = np.packbits(table[:, nodes], axis=0)
    _, first, class_of = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    class_of = class_of.reshape(-1)
    claims = [option.claim for option in options]
    for number, node in enumerate(nodes[first].tolist()):
        names = {
            option.claim.metadata.key: [
                option.names[row] for row in np.flatnonzero(option.accessible[:, node]).tolist()
            ]
            for option in options
        }
        provisionable = {option.claim.metadata.key for option in options if option.provisionable[node]}
        if volume_matching.match(claims, names, provisionable) is not None:
            result[nodes[class_of == number]] = True
    return result
