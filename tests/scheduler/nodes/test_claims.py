"""Volumes and devices: assigned whenever an assignment exists, and never twice."""

import itertools
import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.nightly import examples
from tests.scheduler.reference import claims as twin
from volcanopy.api import core
from volcanopy.api.builtin import devices, storage
from volcanopy.scheduler.cache.claim_cache import CLAIM_KINDS, ClaimCache
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.model.claim_tables import ClaimTables
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.nodes.devices.device_allocation import allocate
from volcanopy.scheduler.nodes.devices.device_inventory import Item, Suitable
from volcanopy_testing.notation import NOW, config, snapshot, world

NODES = ("n1", "n2", "n3")
CLASSES = """
    storageclass local waits
    storageclass fast waits provisioner=disks.example.com zones=a
"""


@st.composite
def clusters_with_volumes(draw: st.DrawFn) -> str:
    """Up to three nodes, five volumes, and three pods with up to three claims each, some of them shared."""
    lines = [f"node {name} cpu=8 zone={draw(st.sampled_from('ab'))}" for name in NODES[: draw(st.integers(1, 3))]]
    names = [f"c{number}" for number in range(draw(st.integers(1, 4)))]
    for number in range(draw(st.integers(0, 5))):
        on = draw(st.sampled_from(["", "on=n1", "on=n2", "on=n1,n2"]))
        apart = draw(st.sampled_from(["", "", "", f"for={names[0]}"]))
        mode = draw(st.sampled_from(["ReadWriteOnce", "ReadWriteOnce,ReadWriteMany"]))
        kind = draw(st.sampled_from(["local", "local", "fast"]))
        lines.append(f"pv v{number} class={kind} size={draw(st.integers(1, 3))}Gi mode={mode} {on} {apart}")
    for name in names:
        mode = draw(st.sampled_from(["ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany"]))
        kind = draw(st.sampled_from(["local", "local", "fast"]))
        lines.append(f"pvc {name} class={kind} size={draw(st.integers(1, 3))}Gi mode={mode}")
    for number in range(draw(st.integers(1, 3))):
        used = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        lines.append(f"job j{number} min={draw(st.integers(0, 1))}: 1 x cpu=1 pvc={','.join(used)}")
    return "\n".join(lines) + CLASSES


def objects_of(text: str, kind: type[Any]) -> list[Any]:
    return [obj for obj in world(text) if isinstance(obj, kind)]


@given(clusters_with_volumes())
@examples(100)
def test_a_node_is_rejected_exactly_if_the_claims_cannot_be_bound(text: str) -> None:
    shot = snapshot(text)
    session = Session(shot, config("predicates"))
    classes = {item.metadata.name: item for item in objects_of(text, storage.StorageClass)}
    known = {item.metadata.name: item for item in objects_of(text, storage.PersistentVolumeClaim)}
    nodes = {item.metadata.name: item for item in objects_of(text, core.Node)}
    for row in shot.task_rows.values():
        task = session.cluster.task(row)
        claims_of_task = [
            known[volume.persistent_volume_claim.claim_name]
            for volume in task.spec.volumes
            if volume.persistent_volume_claim
        ]
        for name, node in nodes.items():
            possible = twin.volumes_can_be_had(
                claims_of_task, objects_of(text, storage.PersistentVolume), classes, node
            )
            assert session.placement.rejected(task, shot.nodes.index[name]) is not possible, (text, task.key, name)


@given(clusters_with_volumes(), st.randoms(use_true_random=False))
@examples(100)
def test_plans_bind_each_volume_once_and_only_where_it_is_accessible(text: str, random_order: random.Random) -> None:
    shot = snapshot(text)
    made = schedule(shot, config("gang | predicates, nodeorder", "allocate"))
    assert violations(shot, made) == []
    for bind in made.of(Bind):
        assert bind.claims is not None
        assert {choice.claim for choice in bind.claims.volumes} == {
            f"default/{volume.name}" for volume in shot.tasks.pods[shot.task_rows[bind.pod]].spec.volumes
        }
    shuffled = world(text)
    random_order.shuffle(shuffled)
    state = State()
    for obj in shuffled:
        state.upsert(obj)
    assert str(schedule(state.snapshot(NOW, "test"), config("gang | predicates, nodeorder", "allocate"))) == str(made)


@given(clusters_with_volumes(), st.data())
@examples(60)
def test_rollback_releases_assumed_volumes(text: str, data: st.DataObject) -> None:
    """Every answer after a rollback equals the one before."""
    shot = snapshot(text)
    session = Session(shot, config("predicates"))
    tasks = [session.cluster.task(row) for row in shot.task_rows.values()]
    nodes = range(len(shot.nodes))

    def answers() -> list[bool]:
        return [session.placement.rejected(task, node) for task in tasks for node in nodes]

    before = answers()
    statement = Statement(session.ledger)
    placed = data.draw(st.sampled_from(tasks))
    free = [node for node in nodes if not session.placement.rejected(placed, node)]
    if free:
        statement.allocate(placed.row, data.draw(st.sampled_from(free)))
        answers()
        claims = session.claims
        assert claims is not None
        assert claims.bind_claims(placed) is not None
        statement.rollback()
    assert answers() == before


def claim_of(name: str, requests: Iterable[tuple[int, str]], constraint: tuple[str, str]) -> devices.ResourceClaim:
    how, attribute = constraint
    device_requests = tuple(
        devices.DeviceRequest(
            name=f"r{number}",
            exactly=devices.ExactRequest(
                device_class_name="card",
                allocation_mode="All" if mode == "all" else "ExactCount",
                count=count,
                admin_access=True if mode == "admin" else None,
            ),
        )
        for number, (count, mode) in enumerate(requests)
    )
    fields: dict[str, Any] = {how: f"d.example.com/{attribute}"} if how else {}
    return devices.ResourceClaim(
        metadata=core.Meta(name=name, namespace="default"),
        spec=devices.ResourceClaimSpec(
            devices=devices.DeviceClaim(
                requests=device_requests, constraints=(devices.DeviceConstraint(**fields),) if fields else ()
            )
        ),
    )


requests = st.lists(st.tuples(st.integers(1, 2), st.sampled_from(["", "", "all", "admin"])), min_size=1, max_size=2)
constraints = st.sampled_from([("", ""), ("match_attribute", "socket"), ("distinct_attribute", "socket")])
claims = st.lists(st.tuples(requests, constraints), min_size=1, max_size=2).map(
    lambda result: [claim_of(f"c{number}", *item) for number, item in enumerate(result)]
)
cards = st.lists(st.sampled_from(["0", "1", ""]), max_size=4).map(
    lambda sockets: [(str(number), {"socket": socket} if socket else {}) for number, socket in enumerate(sockets)]
)


@given(claims, cards, st.sets(st.sampled_from("0123")))
@examples(200)
def test_devices_are_allocated_exactly_if_an_allocation_exists(
    claims: list[devices.ResourceClaim], cards: list[twin.Card], taken: set[str]
) -> None:
    items = tuple(
        Item(
            ("d.example.com", "pool", name),
            devices.BasicDevice(attributes={key: {"string": value} for key, value in attributes.items()}),
            "n1",
        )
        for name, attributes in cards
    )
    free = {name for name, _ in cards} - taken
    allocated, fault = allocate(claims, lambda _: Suitable(items), lambda device: device[2] in free)
    assert not fault
    assert (allocated is not None) == twin.devices_can_be_had(claims, cards, free)
    ids = [device.item.id for device in allocated or () if not device.request.admin_access]
    assert len(set(ids)) == len(ids)


@st.composite
def clusters_with_devices(draw: st.DrawFn) -> str:
    """Up to three nodes with up to three devices each, and jobs whose pods have claims of their own or share one."""
    names = NODES[: draw(st.integers(1, 3))]
    lines = [f"node {name} cpu=4" for name in names]
    lines += [f"devices {name} count={count}" for name in names if (count := draw(st.integers(0, 3)))]
    if draw(st.booleans()):
        lines.append("devices rack everywhere count=1")
    lines.append("deviceclass gpu driver=gpu.example.com")
    lines.append(f"claim shared class=gpu count={draw(st.integers(1, 2))}")
    for number in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 3))
        if draw(st.booleans()):
            counts = draw(st.sampled_from(["1", "2", "2,1"]))
            lines += [
                f"claim j{number}-{pod}-gpu class=gpu count={counts} owner=j{number}-{pod}" for pod in range(size)
            ]
            lines.append(f"job j{number} min={draw(st.integers(0, size))}: {size} x cpu=1 template=gpu")
        else:
            lines.append(f"job j{number} min={draw(st.integers(0, size))}: {size} x cpu=1 claim=shared")
    return "\n".join(lines)


@given(clusters_with_devices())
@examples(100)
def test_plans_allocate_each_device_once(text: str) -> None:
    shot = snapshot(text)
    made = schedule(shot, config("gang | predicates, nodeorder", "allocate"))
    assert violations(shot, made) == []
    for bind in made.of(Bind):
        assert bind.claims is not None
        assert len(bind.claims.devices) == 1


@given(clusters_with_devices())
@examples(60)
def test_assumed_devices_are_taken_in_the_next_cycle(text: str) -> None:
    """The plan is assumed until the API server confirms it."""
    state = State()
    for obj in world(text):
        state.upsert(obj)
    allocated: set[tuple[str, ...]] = set()
    for cycle in range(3):
        shot = state.snapshot(NOW, f"cycle-{cycle}")
        made = schedule(shot, config("gang | predicates, nodeorder", "allocate"))
        assert violations(shot, made) == []
        for bind in made.of(Bind):
            for choice in bind.claims.devices if bind.claims is not None else ():
                for result in (choice.allocation or {}).get("devices", {}).get("results", ()):
                    device = (result["pool"], result["device"])
                    assert device not in allocated
                    allocated.add(device)
        state.assume(made)


@given(st.one_of(clusters_with_volumes(), clusters_with_devices()), st.data())
@examples(60)
def test_claim_cache_depends_on_the_objects_alone(text: str, data: st.DataObject) -> None:
    claim_tables: list[Any] = [obj for obj in world(text) if isinstance(obj, CLAIM_KINDS)]
    history: list[tuple[bool, Object]] = []
    for obj in data.draw(st.permutations(claim_tables)):
        history.append((True, obj))
        if data.draw(st.booleans()):
            history.append((False, data.draw(st.sampled_from([item for _, item in history]))))
    cache, there = ClaimCache(), dict[tuple[type[Any], str], Any]()
    for is_there, obj in history:
        key = (type(obj), obj.metadata.key)
        if is_there:
            cache.upsert(obj)  # type: ignore[arg-type]
            there[key] = obj
        else:
            cache.delete(obj)  # type: ignore[arg-type]
            there.pop(key, None)
    rebuilt = ClaimCache()
    for obj in there.values():
        rebuilt.upsert(obj)
    assert contents(cache.claim_tables()) == contents(rebuilt.claim_tables())


def contents(claim_tables: ClaimTables) -> list[Any]:
    tables = (claim_tables.claims, claim_tables.volumes, claim_tables.classes, claim_tables.device_claims)
    return [
        *map(dict, tables),
        dict(claim_tables.offers.slices),
        dict(claim_tables.offers.classes),
        claim_tables.taken_devices,
    ]


def test_a_thousand_pods_with_a_device_each_are_placed() -> None:
    """A gang over 125 nodes of eight cards: each card is given once."""
    lines = [f"node n{number} cpu=64\ndevices n{number} count=8" for number in range(125)]
    lines += ["deviceclass gpu driver=gpu.example.com"]
    lines += [f"claim a-{number}-gpu class=gpu owner=a-{number}" for number in range(1000)]
    lines += ["job a: 1000 x cpu=1 template=gpu"]
    shot = snapshot("\n".join(lines))
    made = schedule(shot, config("gang | predicates, binpack", "allocate"))
    assert violations(shot, made) == []
    places = [bind.node for bind in made.of(Bind)]
    assert np.unique(places, return_counts=True)[1].tolist() == [8] * 125


@st.composite
def clusters_with_attached_volumes(draw: st.DrawFn) -> str:
    """Pods on nodes whose claims, some shared, have volumes of two drivers, or none yet."""
    lines = ["node n1 cpu=64", "node n2 cpu=64", "storageclass fast waits provisioner=one.example.com"]
    claims_ = [f"c{number}" for number in range(draw(st.integers(1, 4)))]
    for name in claims_:
        driver = draw(st.sampled_from(["one.example.com", "two.example.com", ""]))
        if driver:
            lines += [f"pv v-{name} csi={driver} for={name}", f"pvc {name} volume=v-{name}"]
        else:
            lines.append(f"pvc {name} class=fast")
    for number in range(draw(st.integers(1, 5))):
        used = draw(st.lists(st.sampled_from(claims_), min_size=1, max_size=2, unique=True))
        lines.append(f"job j{number}: 1 x cpu=1 pvc={','.join(used)} on={draw(st.sampled_from(['n1', 'n2']))}")
    return "\n".join(lines)


@given(clusters_with_attached_volumes(), st.data())
@examples(100)
def test_attached_volumes_are_counted_once_per_node(text: str, data: st.DataObject) -> None:
    objects = world(text)
    state = State()
    for obj in data.draw(st.permutations(objects)):
        state.upsert(obj)
    gone = data.draw(st.lists(st.sampled_from([item for item in objects if isinstance(item, core.Pod)]), unique_by=id))
    for pod in gone:
        state.delete(pod)
    claims_ = {item.metadata.name: item for item in objects_of(text, storage.PersistentVolumeClaim)}
    volumes = {item.metadata.name: item for item in objects_of(text, storage.PersistentVolume)}
    used: dict[str, dict[str, set[str]]] = {}
    for obj in objects:
        if not isinstance(obj, core.Pod) or obj in gone:
            continue
        for volume in obj.spec.volumes:
            claim = claims_[volume.name]
            made = volumes.get(claim.spec.volume_name)
            driver = made.spec.csi.driver if made is not None and made.spec.csi is not None else "one.example.com"
            used.setdefault(driver, {}).setdefault(obj.spec.node_name, set()).add(volume.name)
    counts = {driver: {node: len(names) for node, names in nodes.items()} for driver, nodes in used.items()}
    assert state.claims.claim_tables().attached == counts


PRIORITIZED = """
    node n1 cpu=4
    node n2 cpu=4
    node n3 cpu=4
    devices {} count=2
    devices {} count=1
    devices {} count=1
    deviceclass gpu driver=gpu.example.com
"""


@pytest.mark.parametrize("order", list(itertools.permutations(NODES)))
def test_the_node_with_the_first_alternative_is_preferred(order: tuple[str, ...]) -> None:
    claims = "claim most class=gpu count=2,1\njob j: 1 x cpu=1 claim=most"
    made = schedule(snapshot(PRIORITIZED.format(*order) + claims), config("gang | predicates, nodeorder", "allocate"))
    (bind,) = made.of(Bind)
    assert bind.node == order[0]
    assert bind.claims is not None
    (choice,) = bind.claims.devices
    assert choice.allocation is not None
    assert [result["request"] for result in choice.allocation["devices"]["results"]] == ["request/of-2"] * 2


def test_pods_take_the_next_alternative_where_the_first_is_taken() -> None:
    claims = "\n".join(f"claim j-{pod}-gpu class=gpu count=2,1 owner=j-{pod}" for pod in range(3))
    text = f"{PRIORITIZED.format(*NODES)}{claims}\njob j: 3 x cpu=1 template=gpu"
    made = schedule(snapshot(text), config("gang | predicates, nodeorder", "allocate"))
    requests = {
        bind.node: [result["request"] for result in choice.allocation["devices"]["results"]]
        for bind in made.of(Bind)
        if bind.claims is not None
        for choice in bind.claims.devices
        if choice.allocation is not None
    }
    assert requests == {"n1": ["request/of-2"] * 2, "n2": ["request/of-1"], "n3": ["request/of-1"]}


@pytest.mark.parametrize("field", ["consumes_counters", "binding_conditions"])
def test_devices_that_need_what_is_not_supported_are_not_allocated(field: str) -> None:
    text = """
        node n1 cpu=4
        devices n1 count=1
        deviceclass gpu driver=gpu.example.com
        claim one class=gpu
        job j: 1 x cpu=1 claim=one
    """
    entry: Any = {"counterSet": "slots"} if field == "consumes_counters" else "attached"
    state = State()
    for obj in world(text):
        if isinstance(obj, devices.ResourceSlice):
            (device,) = obj.spec.devices
            spec = replace(obj.spec, devices=(replace(device, **{field: (entry,)}),))
            obj = replace(obj, spec=spec)  # noqa: PLW2901
        state.upsert(obj)
    assert not schedule(state.snapshot(NOW, "test"), config("gang | predicates", "allocate")).of(Bind)
