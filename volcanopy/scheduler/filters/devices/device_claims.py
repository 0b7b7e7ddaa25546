"""Devices behind a pod's claims: where what is allocated can be used, and where what is not can be had.

A claim that is allocated but that nobody uses binds nobody: it is allocated anew wherever its pod goes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from volcanopy.api import devices
from volcanopy.scheduler.filters.assumed_claims import AssumedClaims
from volcanopy.scheduler.filters.devices import device_inventory
from volcanopy.scheduler.filters.devices.device_allocation import AllocatedDevice, allocate
from volcanopy.scheduler.filters.traits import node_affinity
from volcanopy.scheduler.framework.plugin import NodeRejection, Scope
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_claims
from volcanopy.scheduler.model.claim_tables import DeviceId
from volcanopy.scheduler.model.plan import DeviceChoice
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.task_status import Status

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode

ELSEWHERE = "resourceclaim not available on the node"
NOTHING = "cannot allocate all claims"
MOST_USERS = 256
"""How many pods may use one claim."""

Claim = devices.ResourceClaim
Found = tuple[tuple[DeviceChoice, tuple[DeviceId, ...], Mask | None], ...]


@dataclass
class Needs:
    """What the claims behind one pod come to."""

    problem: str = ""
    allocated: list[Claim] = field(default_factory=list)
    waiting: list[Claim] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)
    """The claims that other pods may use too."""


class Devices:
    """The questions about devices in one session."""

    def __init__(self, cluster: Cluster, books: AssumedClaims) -> None:
        self._cluster, self._books = cluster, books
        self._traits = cluster.traits
        self._supplies = cluster.snapshot.claim_tables
        self._inventory = device_inventory.take_stock(self._supplies.offers, self._traits)
        self._needs: dict[int, Needs] = {}
        self._leaving: tuple[int, frozenset[str]] = (-1, frozenset())

    def cache_key(self, task: TaskView) -> bytes | None:
        """Equal for tasks of one shape whose own claims are alike; None for tasks that have none of their own."""
        own = [requested.key for requested in pod_claims.devices(task.pod) if requested.own]
        if not own:
            return None
        problem = self._of(task).problem
        return problem.encode() if problem else _ENCODE([self._alike(key) for key in own])

    def _alike(self, key: str) -> object:
        claim = self._supplies.device_claims[key]
        return key if claim.status.allocation is not None else claim.spec

    def scope(self, task: TaskView) -> Scope:
        """How far a placement of another such task reaches."""
        needs = self._of(task)
        if needs.problem or not needs.waiting:
            return Scope.COLUMNS
        return Scope.NODE if self._inventory.is_local and not needs.shared else Scope.CLUSTER

    def refusals(self, task: TaskView, rows: Rows) -> Iterator[NodeRejection]:
        """Why the task cannot be on some of these nodes."""
        needs = self._of(task)
        if needs.problem:
            yield NodeRejection(needs.problem, np.ones(len(rows), dtype=np.bool_), final=True)
            return
        for claim in needs.allocated:
            where = self._where(claim)
            if where is not None:
                yield NodeRejection(ELSEWHERE, ~where[rows], final=True)
        given = self._books.device_choices()
        left = []
        for claim in needs.waiting:
            # One task may be asked on behalf of all that are like it: what it was given itself says nothing then.
            if claim.metadata.key in needs.shared and claim.metadata.key in given:
                reached = given[claim.metadata.key][1]
                if reached is not None:
                    yield NodeRejection(ELSEWHERE, ~reached[rows], final=True)
            else:
                left.append(claim)
        if left:
            yield from self._unavailable(left, rows)

    def choose(self, task: TaskView, node: int) -> Found:
        """What each claim is given on a node where all can be had."""
        needs = self._of(task)
        given = self._books.device_choices()
        found: list[tuple[DeviceChoice, tuple[DeviceId, ...], Mask | None]] = [
            (DeviceChoice(claim.metadata.key, claim.metadata.uid), (), None)
            for claim in (*needs.allocated, *needs.waiting)
            if claim in needs.allocated or claim.metadata.key in given
        ]
        left = [claim for claim in needs.waiting if claim.metadata.key not in given]
        if left:
            result, _ = self._allocate(left, node, leaving=False)
            if result is None:
                result, _ = self._allocate(left, node, leaving=True)
            for number, claim in enumerate(left):
                own = [one for one in result or () if one.claim == number]
                if result is not None:
                    found.append(self._chosen(claim, own))
        return tuple(sorted(found, key=lambda one: one[0].claim))

    # What a pod needs

    def _of(self, task: TaskView) -> Needs:
        known = self._needs.get(task.row)
        if known is None:
            known = self._needs[task.row] = self._read(task)
        return known

    def _read(self, task: TaskView) -> Needs:
        needs = Needs()
        for requested in pod_claims.devices(task.pod):
            claim = self._supplies.device_claims.get(requested.key)
            name = requested.key.partition("/")[2]
            if not requested.own:
                needs.shared.add(requested.key)
            if not requested.key:
                needs.problem = f'waiting for the resourceclaim of "{requested.name}" to be created'
            elif claim is None:
                needs.problem = f'resourceclaim "{name}" not found'
            elif requested.own and all(owner.uid != task.pod.metadata.uid for owner in claim.metadata.owner_references):
                needs.problem = f'resourceclaim "{name}" was not created for the pod'
            elif claim.metadata.deletion_timestamp is not None:
                needs.problem = f'resourceclaim "{name}" is being deleted'
            elif len(claim.status.reserved_for) >= MOST_USERS:
                needs.problem = f'resourceclaim "{name}" is in use by {MOST_USERS} pods already'
            elif claim.status.allocation is not None and claim.status.reserved_for:
                needs.allocated.append(claim)
            else:
                needs.waiting.append(claim)
            if needs.problem:
                return needs
        return needs

    def _where(self, claim: Claim) -> Mask | None:
        """(N,): the nodes on which an allocated claim can be used; None for all."""
        allocation = claim.status.allocation
        if allocation is None or allocation.node_selector is None:
            return None
        return node_affinity.any_term(allocation.node_selector.node_selector_terms, self._traits)

    # What can be had

    def _unavailable(self, claims: list[Claim], rows: Rows) -> Iterator[NodeRejection]:
        rejected: dict[tuple[str, bool], list[int]] = {}
        for place, node in enumerate(rows.tolist()):
            result, fault = self._allocate(claims, node, leaving=False)
            if result is None:
                temporary = not fault and self._allocate(claims, node, leaving=True)[0] is not None
                rejected.setdefault((fault or NOTHING, temporary), []).append(place)
        for (reason, temporary), places in rejected.items():
            mask = np.zeros(len(rows), dtype=np.bool_)
            mask[places] = True
            yield NodeRejection(reason, mask, temporary=temporary, final=reason != NOTHING)

    def _allocate(self, claims: list[Claim], node: int, leaving: bool) -> tuple[list[AllocatedDevice] | None, str]:
        """Devices for claims on a node; with ``leaving`` those of pods that leave are taken as free."""
        own = {claim.metadata.key for claim in claims}
        if leaving:
            gone = self._claims_of_leaving()
            if not gone:
                return None, ""
            own |= gone
        taken = self._supplies.taken_devices
        now = {device for ids, _ in self._books.device_choices().values() for device in ids}
        name = self._cluster.snapshot.nodes.names[node]

        def is_free(device: DeviceId) -> bool:
            return device not in now and taken.get(device, frozenset()) <= own

        return allocate(claims, lambda request: self._inventory.suitable(name, node, request), is_free)

    def _claims_of_leaving(self) -> frozenset[str]:
        """The claims all of whose users are leaving."""
        ledger = self._cluster.ledger
        if self._leaving[0] != ledger.changes:
            tasks = self._cluster.snapshot.tasks
            rows = np.flatnonzero(self._books.claiming & (ledger.status == Status.RELEASING))
            uids = {tasks.pods[row].metadata.uid for row in rows.tolist()}
            keys = {requested.key for row in rows.tolist() for requested in pod_claims.devices(tasks.pods[row])}
            known = self._supplies.device_claims
            found = {
                key for key in keys if key in known and all(one.uid in uids for one in known[key].status.reserved_for)
            }
            self._leaving = (ledger.changes, frozenset(found))
        return self._leaving[1]

    def _chosen(
        self, claim: Claim, given: list[AllocatedDevice]
    ) -> tuple[DeviceChoice, tuple[DeviceId, ...], Mask | None]:
        ids = tuple(one.item.id for one in given if not one.request.admin_access)
        names = tuple(one.item.id[2] for one in given)
        choice = DeviceChoice(claim.metadata.key, claim.metadata.uid, self._allocation(claim, given), names)
        return choice, ids, device_inventory.reach((one.item for one in given), self._inventory)

    def _allocation(self, claim: Claim, given: list[AllocatedDevice]) -> dict[str, Any]:
        """What is written as the claim's ``status.allocation``."""
        results, config = [], []
        for one in given:
            driver, pool, device = one.item.id
            result: dict[str, Any] = {"request": one.name, "driver": driver, "pool": pool, "device": device}
            if one.request.admin_access:
                result["adminAccess"] = True
            if one.request.tolerations:
                result["tolerations"] = msgspec.to_builtins(one.request.tolerations)
            results.append(result)
        for name, request in {one.name: one.request for one in given}.items():
            kind = self._supplies.offers.classes[request.device_class_name]
            config += [{"source": "FromClass", "requests": [name], **text} for text in kind.spec.config]
        names = {one.name for one in given} | {one.name.partition("/")[0] for one in given}
        for text in claim.spec.devices.config:
            if not text.get("requests") or names & set(text["requests"]):
                config.append({"source": "FromClaim", **text})
        allocation: dict[str, Any] = {"devices": {"results": results} | ({"config": config} if config else {})}
        selector = _selector(given)
        return allocation | ({"nodeSelector": selector} if selector else {})


def _selector(given: list[AllocatedDevice]) -> dict[str, Any] | None:
    """Where the devices can be used, as a node selector; None for everywhere."""
    terms: dict[str, list[Any]] = {"matchExpressions": [], "matchFields": []}
    for one in given:
        item = one.item
        if item.node:
            field_ = {"key": "metadata.name", "operator": "In", "values": [item.node]}
            return {"nodeSelectorTerms": [{"matchFields": [field_]}]}
        for term in item.selector.node_selector_terms if item.selector is not None else ():
            for name, text in (("matchExpressions", term.match_expressions), ("matchFields", term.match_fields)):
                terms[name] += [one for one in msgspec.to_builtins(text) if one not in terms[name]]
    term_ = {name: text for name, text in terms.items() if text}
    return {"nodeSelectorTerms": [term_]} if term_ else None
