"""fragmentation with claimed GPUs: what is kept current with the session equals what is counted anew, by the definition."""

import math
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.plugins.scene import configured, seen
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.cluster import TasksView
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.nodes.devices.gpu_devices import CLASSES, GpuDevices

GI = 2**30


@dataclass
class Counted:
    """The free cpu, memory and GPUs of nodes, and the pods as (cpu, memory, GPUs), counted in plain numbers."""

    free: list[list[int]]
    pods: list[tuple[int, int, int]] = field(default_factory=list)

    def has_room(self, node: int, pod: tuple[int, int, int]) -> bool:
        return all(amount <= room for amount, room in zip(pod, self.free[node], strict=True))

    def put(self, node: int, pod: tuple[int, int, int], sign: int = 1) -> None:
        self.free[node] = [room - sign * amount for room, amount in zip(self.free[node], pod, strict=True)]

    def worth(self, cpu: int, memory: int, gpus: int) -> float:
        """The GPUs that a pod of the mix could use, less those that are stranded."""
        usable = sum(
            gpus / len(self.pods)
            for own_cpu, own_memory, number in self.pods
            if number <= gpus and own_cpu <= cpu and own_memory <= memory
        )
        total = sum(pod[2] for pod in self.pods)
        means = (sum(pod[0] for pod in self.pods) / total, sum(pod[1] for pod in self.pods) / total)
        lost = [
            max(gpus - amount / (factor * mean), 0.0)
            for amount, mean in zip((cpu, memory), means, strict=True)
            for factor in (0.5, 1.0, 2.0)
        ]
        return usable - sum(lost) / 3

    def score(self, node: int, pod: tuple[int, int, int]) -> float:
        cpu, memory, gpus = self.free[node]
        loss = self.worth(cpu, memory, gpus) - self.worth(cpu - pod[0], memory - pod[1], gpus - pod[2])
        return 100 / (1 + math.exp(round(loss, 9)))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[str, Counted]:
    """Nodes with GPUs, running pods, and six waiting pods with claims made from templates."""
    lines, counted = ["deviceclass gpu.nvidia.com driver=gpu.nvidia.com"], Counted([])
    for node in range(draw(st.integers(1, 3))):
        gpus = draw(st.integers(1, 5))
        lines += [f"node n{node} cpu=16 memory=32Gi", f"devices n{node} count={gpus} driver=gpu.nvidia.com"]
        counted.free.append([16000, 32 * GI, gpus])
        if draw(st.booleans()):
            lines.append(f"job r{node}: 1 x cpu=2 memory=4Gi on=n{node} template=g")
            lines.append(
                f"claim r{node}-0-g class=gpu.nvidia.com driver=gpu.nvidia.com count=1 has=n{node}/0 users=r{node}-0 owner=r{node}-0"
            )
            counted.put(node, (2000, 4 * GI, 1))
            counted.pods.append((2000, 4 * GI, 1))
    waiting = []
    for number in range(6):
        gpus, cpu, memory = (
            draw(st.sampled_from((1, 1, 2, 3))),
            draw(st.sampled_from((1, 3))),
            draw(st.sampled_from((2, 9))),
        )
        lines.append(f"job w{number}: 1 x cpu={cpu} memory={memory}Gi template=g{gpus}")
        lines.append(f"claim w{number}-0-g{gpus} class=gpu.nvidia.com count={gpus} owner=w{number}-0")
        waiting.append((cpu * 1000, memory * GI, gpus))
    counted.pods += waiting
    return "\n".join(lines), counted


@examples(60)
@given(clusters(), st.data())
def test_scores_and_free_gpus_follow_placements_and_rollbacks(given_: tuple[str, Counted], data: st.DataObject) -> None:
    text, counted = given_
    session = Session(seen(text), configured({"gang": {}, "predicates": {}, "fragmentation": {}}))
    cluster, table = session.cluster, session.snapshot.tasks
    devices = GpuDevices.of(cluster, CLASSES)
    assert devices is not None
    keys = table.keys.tolist()
    rows = {f"w{number}": keys.index(f"default/w{number}-0") for number in range(6)}
    pods = dict(zip(rows, counted.pods[-6:], strict=True))
    nodes = range(len(counted.free))
    open_: list[tuple[Statement, str, int]] = []
    known, before = 0, [room[2] for room in counted.free]
    for _ in range(8):
        left = [name for name in rows if name not in {name for _, name, _ in open_}]
        places = [(name, node) for name in left for node in nodes if counted.has_room(node, pods[name])]
        if open_ and (not places or data.draw(st.booleans())):
            statement, name, node = open_.pop()
            statement.rollback()
            counted.put(node, pods[name], -1)
        elif places:
            name, node = data.draw(st.sampled_from(places))
            statement = Statement(session.ledger)
            statement.allocate(rows[name], node)
            counted.put(node, pods[name])
            open_.append((statement, name, node))
        changed = devices.changed()
        cards = [np.arange(devices.start[node], devices.start[node + 1]) for node in nodes]
        free = [int((devices.free(own)[0] > 0).sum()) for own in cards]
        assert free == [room[2] for room in counted.free]
        assert {node for node in nodes if free[node] != before[node]} <= set(changed[known:])
        known, before = len(changed), free
        for name in set(rows) - {name for _, name, _ in open_}:
            scores = session.hooks.score(TasksView([cluster.task(rows[name])]), cluster.nodes())[0].tolist()
            for node in nodes:
                if counted.has_room(node, pods[name]):
                    assert math.isclose(scores[node], counted.score(node, pods[name]), rel_tol=1e-6)
