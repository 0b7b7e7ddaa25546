"""Filter of nodes by the device claims of a pod, and the allocation of devices.

An allocated claim without a user does not restrict its pod: it is allocated anew on the pod's node. Neither does a claim of
the pod alone, whose devices are left from a bind that a restart interrupted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from volcanopy.api.builtin import devices, pod_claims
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.claim_tables import DeviceId
from volcanopy.scheduler.model.once import once_by, once_while
from volcanopy.scheduler.model.plan import DeviceChoice
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.nodes.assumed_claims import AssumedClaims
from volcanopy.scheduler.nodes.devices import device_inventory
from volcanopy.scheduler.nodes.devices.device_allocation import (
    AllocatedDevice,
    allocate,
    equal_requests,
    have_alternatives,
    preference,
)
from volcanopy.scheduler.nodes.devices.device_inventory import Inventory, Matching
from volcanopy.scheduler.nodes.traits import node_affinity
from volcanopy.scheduler.policy.plugin import NodeRejection

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode

NOT_AVAILABLE = "resourceclaim not available on the node"
CANNOT_ALLOCATE = "cannot allocate all claims"
MAX_USERS = 256  # The maximum number of pods that use one claim.

Claim = devices.ResourceClaim
Choice = tuple[DeviceChoice, tuple[DeviceId, ...], Mask | None]
"""The choice for a claim, the allocated devices, and the (N,) mask of the nodes they are available on; None for all."""


@dataclass
class PodDevices:
    """The device claims of one pod."""

    problem: str = ""
    allocated: list[Claim] = field(default_factory=list)
    unallocated: list[Claim] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)  # The keys of the claims that other pods may use.

    @cached_property
    def equal_requests(self) -> tuple[devices.ExactRequest, int] | None:
        """The request and the number of devices of ``unallocated``, where counting the free devices of a node is enough."""
        if any(claim.status.allocation is not None for claim in self.unallocated):
            return None  # what they hold is free for them alone
        return equal_requests(self.unallocated)


class FreeDevices:
    """The devices that are neither allocated nor assumed, in the state of a session."""

    def __init__(self, cluster: Cluster, assumed: AssumedClaims, inventory: Inventory) -> None:
        self._assumed = assumed
        self._devices = inventory
        ids = inventory.ids
        taken = [ids[device] for device in cluster.snapshot.claim_tables.taken_devices if device in ids]
        self._allocated: Mask = np.zeros(len(ids), dtype=np.bool_)
        self._allocated[taken] = True
        self._free: Mask = ~self._allocated
        self._counts: dict[int, tuple[Matching, Ints]] = {}
        self._changed: list[int] = []
        self._seen = 0  # How many changes of assumed devices are counted.

    def free(self) -> Mask:
        """(D,): which of the devices are free."""
        self._sync()
        return self._free

    def changed(self) -> Sequence[int]:
        """The rows of the nodes whose devices were assumed or became free during the session, in order."""
        self._sync()
        return self._changed

    def count(self, request: devices.ExactRequest) -> tuple[Ints, Mask]:
        """(N,): how many free devices match a request on each node, and where it cannot be evaluated."""
        self._sync()
        matching = self._devices.matching(request)
        known = self._counts.get(id(matching))
        if known is None:
            where = self._devices.node[matching.devices & self._free]
            known = matching, np.bincount(where, minlength=len(matching.failed))
            self._counts[id(matching)] = known
        return known[1], matching.failed

    def _sync(self) -> None:
        assumed, ids = self._assumed.devices(), self._devices.ids
        changed = self._assumed.changed_devices[self._seen :]
        self._seen += len(changed)
        for device in dict.fromkeys(changed):
            number = ids.get(device)
            if number is None:
                continue
            is_free = not self._allocated[number] and device not in assumed
            if is_free != self._free[number]:
                node = int(self._devices.node[number])
                self._free[number] = is_free
                self._changed.append(node)
                for matching, counts in self._counts.values():
                    if matching.devices[number]:
                        counts[node] += 1 if is_free else -1


class DynamicResources:
    """The filter by device claims of one session."""

    def __init__(self, cluster: Cluster, assumed: AssumedClaims) -> None:
        self._cluster, self._assumed = cluster, assumed
        self._traits = cluster.traits
        self._tables = cluster.snapshot.claim_tables
        self._inventory = device_inventory.build_inventory(self._tables.offers, self._traits)

    def cache_key(self, task: TaskView) -> bytes | None:
        """Return a key that tasks with equivalent claims of their own share; None for tasks without such claims."""
        own = [requested.key for requested in pod_claims.devices(task.representative.pod) if requested.own]
        if not own:
            return None
        problem = self._devices_of(task).problem
        return problem.encode() if problem else _ENCODE([self._equivalence(key) for key in own])

    def _equivalence(self, key: str) -> object:
        claim = self._tables.device_claims[key]
        return key if claim.status.allocation is not None else claim.spec

    def couples_nodes(self, task: TaskView) -> bool:
        """Return whether the devices of other nodes matter for a node."""
        pod_devices = self._devices_of(task)
        if pod_devices.problem or not pod_devices.unallocated:
            return False
        return not self._inventory.is_local or bool(pod_devices.shared)

    def rejections(self, task: TaskView, rows: Rows) -> Iterator[NodeRejection]:
        """Yield the rejections of these nodes for the task."""
        pod_devices = self._devices_of(task)
        if pod_devices.problem:
            yield NodeRejection(pod_devices.problem, np.ones(len(rows), dtype=np.bool_), final=True)
            return
        for claim in pod_devices.allocated:
            available = self._available_nodes(claim)
            if available is not None:
                yield NodeRejection(NOT_AVAILABLE, ~available[rows], final=True)
        assumed = self._assumed.device_choices() if pod_devices.unallocated else {}
        remaining = []
        for claim in pod_devices.unallocated:
            # The answer for one task is used for all tasks with its key: devices assumed for its own claims do not count.
            if claim.metadata.key in pod_devices.shared and claim.metadata.key in assumed:
                available = assumed[claim.metadata.key][1]
                if available is not None:
                    yield NodeRejection(NOT_AVAILABLE, ~available[rows], final=True)
            else:
                remaining.append(claim)
        if remaining:
            is_counted = len(remaining) == len(pod_devices.unallocated) and self._inventory.is_local
            yield from self._unavailable(remaining, rows, pod_devices.equal_requests if is_counted else None)

    def preferences(self, task: TaskView, rows: Rows) -> Floats | None:
        """Return how preferred the alternatives are that the claims get on each node, 0 to 100; None without alternatives."""
        pod_devices = self._devices_of(task)
        if pod_devices.problem or not have_alternatives(pod_devices.unallocated):
            return None
        # Devices assumed for claims of its own do not count, as in `rejections`.
        assumed = self._assumed.device_choices().keys() & pod_devices.shared
        remaining = [claim for claim in pod_devices.unallocated if claim.metadata.key not in assumed]
        result: Floats = np.zeros(len(rows), dtype=np.float64)
        for index, node in enumerate(rows.tolist() if have_alternatives(remaining) else ()):
            allocated = self._allocate_on(remaining, node)
            if allocated is not None:
                result[index] = preference(remaining, allocated)
        return result

    def choose(self, task: TaskView, node: int) -> tuple[Choice, ...]:
        """Return the choice for each claim on a feasible node."""
        pod_devices = self._devices_of(task)
        assumed = self._assumed.device_choices()
        choices: list[Choice] = [
            (DeviceChoice(claim.metadata.key, claim.metadata.uid), (), None)
            for claim in (*pod_devices.allocated, *pod_devices.unallocated)
            if claim in pod_devices.allocated or claim.metadata.key in assumed
        ]
        remaining = [claim for claim in pod_devices.unallocated if claim.metadata.key not in assumed]
        allocated = self._allocate_on(remaining, node) if remaining else None
        for number, claim in enumerate(remaining if allocated is not None else ()):
            choices.append(self._choice(claim, [device for device in allocated or () if device.claim == number]))
        return tuple(sorted(choices, key=lambda choice: choice[0].claim))

    # Claims of a pod

    @once_by("representative.row")
    def _devices_of(self, task: TaskView) -> PodDevices:
        pod_devices, pod = PodDevices(), task.representative.pod
        for requested in pod_claims.devices(pod):
            claim = self._tables.device_claims.get(requested.key)
            name = requested.key.partition("/")[2]
            if not requested.own:
                pod_devices.shared.add(requested.key)
            if not requested.key:
                pod_devices.problem = f'waiting for the resourceclaim of "{requested.name}" to be created'
            elif claim is None:
                pod_devices.problem = f'resourceclaim "{name}" not found'
            elif requested.own and all(owner.uid != pod.metadata.uid for owner in claim.metadata.owner_references):
                pod_devices.problem = f'resourceclaim "{name}" was not created for the pod'
            elif claim.metadata.deletion_timestamp is not None:
                pod_devices.problem = f'resourceclaim "{name}" is being deleted'
            elif len(claim.status.reserved_for) >= MAX_USERS:
                pod_devices.problem = f'resourceclaim "{name}" is in use by {MAX_USERS} pods already'
            elif claim.status.allocation is not None and claim.status.reserved_for and not requested.own:
                pod_devices.allocated.append(claim)
            else:
                pod_devices.unallocated.append(claim)
            if pod_devices.problem:
                return pod_devices
        return pod_devices

    def _available_nodes(self, claim: Claim) -> Mask | None:
        """Return the (N,) mask of the nodes on which an allocated claim is available; None for all."""
        allocation = claim.status.allocation
        if allocation is None or allocation.node_selector is None:
            return None
        return node_affinity.any_term(allocation.node_selector.node_selector_terms, self._traits)

    # Allocation

    def _unavailable(
        self, claims: list[Claim], rows: Rows, equal: tuple[devices.ExactRequest, int] | None
    ) -> Iterator[NodeRejection]:
        """Yield the rejections of nodes without devices for the claims; if these request ``equal`` devices they are counted."""
        rejected: dict[tuple[str, bool], list[int]] = {}
        indices = np.arange(len(rows))
        if equal is not None:
            free, failed = self.free_devices.count(equal[0])
            lacking, failed = free[rows] < equal[1], failed[rows]
            if lacking.any() and not self._released_claims():
                rejected[CANNOT_ALLOCATE, False] = np.flatnonzero(lacking & ~failed).tolist()
                lacking = failed
            indices = np.flatnonzero(lacking | failed)
        for index in indices.tolist():
            result, fault = self._allocate(claims, int(rows[index]), terminating=False)
            if result is None:
                temporary = not fault and self._allocate(claims, int(rows[index]), terminating=True)[0] is not None
                rejected.setdefault((fault or CANNOT_ALLOCATE, temporary), []).append(index)
        for (reason, temporary), rejected_indices in rejected.items():
            if rejected_indices:
                mask = np.zeros(len(rows), dtype=np.bool_)
                mask[rejected_indices] = True
                yield NodeRejection(reason, mask, temporary=temporary, final=reason != CANNOT_ALLOCATE)

    @cached_property
    def free_devices(self) -> FreeDevices:
        """The devices of single nodes that are free."""
        return FreeDevices(self._cluster, self._assumed, self._inventory)

    def _allocate_on(self, claims: list[Claim], node: int) -> list[AllocatedDevice] | None:
        """Return devices for claims on a node, of terminating pods if the free ones do not suffice; None without enough."""
        allocated, _ = self._allocate(claims, node, terminating=False)
        return allocated if allocated is not None else self._allocate(claims, node, terminating=True)[0]

    def _allocate(self, claims: list[Claim], node: int, terminating: bool) -> tuple[list[AllocatedDevice] | None, str]:
        """Return devices for claims on a node; with ``terminating`` those of terminating pods count as free."""
        own = {claim.metadata.key for claim in claims}
        if terminating:
            released = self._released_claims()
            if not released:
                return None, ""
            own |= released
        taken = self._tables.taken_devices
        assumed_devices = self._assumed.devices()
        name = self._cluster.snapshot.nodes.names[node]

        def is_free(device: DeviceId) -> bool:
            return device not in assumed_devices and taken.get(device, frozenset()) <= own

        return allocate(claims, lambda request: self._inventory.suitable(name, node, request), is_free)

    @once_while("_cluster.ledger.changes")
    def _released_claims(self) -> frozenset[str]:
        """Return the keys of the claims whose users are all terminating."""
        tasks, known = self._cluster.snapshot.tasks, self._tables.device_claims
        rows = np.flatnonzero(self._assumed.claiming & (self._cluster.ledger.status == Status.RELEASING))
        uids = {tasks.pods[row].metadata.uid for row in rows.tolist()}
        keys = {requested.key for row in rows.tolist() for requested in pod_claims.devices(tasks.pods[row])}
        return frozenset(
            key for key in keys if key in known and all(user.uid in uids for user in known[key].status.reserved_for)
        )

    def _choice(self, claim: Claim, allocated: list[AllocatedDevice]) -> Choice:
        ids = tuple(device.item.id for device in allocated if not device.request.admin_access)
        names = tuple(device.item.id[2] for device in allocated)
        choice = DeviceChoice(claim.metadata.key, claim.metadata.uid, self._allocation(claim, allocated), names)
        return choice, ids, device_inventory.available_nodes((device.item for device in allocated), self._inventory)

    def _allocation(self, claim: Claim, devices: list[AllocatedDevice]) -> dict[str, Any]:
        """Return the claim's ``status.allocation``."""
        results, config = [], []
        for allocated in devices:
            driver, pool, device = allocated.item.id
            result: dict[str, Any] = {"request": allocated.name, "driver": driver, "pool": pool, "device": device}
            if allocated.request.admin_access:
                result["adminAccess"] = True
            if allocated.request.tolerations:
                result["tolerations"] = msgspec.to_builtins(allocated.request.tolerations)
            results.append(result)
        for name, request in {device.name: device.request for device in devices}.items():
            device_class = self._tables.offers.classes[request.device_class_name]
            config += [{"source": "FromClass", "requests": [name], **entry} for entry in device_class.spec.config]
        names = {device.name for device in devices} | {device.name.partition("/")[0] for device in devices}
        for entry in claim.spec.devices.config:
            if not entry.get("requests") or names & set(entry["requests"]):
                config.append({"source": "FromClaim", **entry})
        allocation: dict[str, Any] = {"devices": {"results": results} | ({"config": config} if config else {})}
        selector = _selector(devices)
        return allocation | ({"nodeSelector": selector} if selector else {})


def _selector(allocated: list[AllocatedDevice]) -> dict[str, Any] | None:
    """Return the node selector of the nodes on which the devices are available; None for all nodes."""
    terms: dict[str, list[Any]] = {"matchExpressions": [], "matchFields": []}
    for device in allocated:
        item = device.item
        if item.node:
            field_ = {"key": "metadata.name", "operator": "In", "values": [item.node]}
            return {"nodeSelectorTerms": [{"matchFields": [field_]}]}
        for term in item.selector.node_selector_terms if item.selector is not None else ():
            for name, added in (("matchExpressions", term.match_expressions), ("matchFields", term.match_fields)):
                terms[name] += [match for match in msgspec.to_builtins(added) if match not in terms[name]]
    combined = {name: matches for name, matches in terms.items() if matches}
    return {"nodeSelectorTerms": [combined]} if combined else None
