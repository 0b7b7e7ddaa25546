"""Free devices are counted where any of them suffice for a pod: the nodes are those that the search for devices finds."""

from random import Random

import numpy as np
import pytest

from tests.scheduler.plugins.scene import configured, seen
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.nodes.devices import device_claims
from volcanopy.scheduler.nodes.devices.device_allocation import equal_requests

CASES = 40
CLAIMS = (
    "",
    " count=2",
    " count=3",
    " model=a",
    " model=b count=2",
    " count=2 match=model",
    " all",
    " admin",
    " kind=x",
    " count=9",
)


def world(dice: Random) -> str:
    """Nodes with devices of two models, running and terminating pods that have some, and eight waiting pods with claims."""
    lines = ["deviceclass gpu driver=gpu.example.com", "deviceclass broken driver=gpu.example.com model=a"]
    for node in range(dice.randint(1, 5)):
        count = dice.randint(0, 5)
        lines.append(f"node n{node} cpu=64")
        if not count:
            continue
        lines.append(f"devices n{node} count={count} model={dice.choice('ab')}")
        for card in range(dice.randint(0, count)):
            pod, status = f"r{node}x{card}", dice.choice(["", "", " releasing"])
            lines.append(f"job {pod}: 1 x cpu=1 on=n{node} template=c{status}")
            lines.append(f"claim {pod}-0-c class=gpu has=n{node}/{card} users={pod}-0 owner={pod}-0")
    for number in range(8):
        names = [f"c{each}" for each in range(dice.choice([1, 1, 2]))]
        lines.append(f"job w{number}: 1 x cpu=1 template={','.join(names)}")
        for name in names:
            request = dice.choice(CLAIMS) if dice.randint(0, 2) else ""
            chosen = dice.choice(["gpu", "gpu", "gpu", "broken", "absent"])
            lines.append(f"claim w{number}-0-{name} class={chosen}{request} owner=w{number}-0")
    return "\n".join(lines)


def answers(text: str, dice: Random) -> list[object]:
    """What the session answers about all waiting pods after each of some placements and rollbacks."""
    session = Session(seen(text), configured({"gang": {}, "predicates": {}}))
    table, rows = session.snapshot.tasks, np.arange(len(session.snapshot.nodes))
    waiting = [row for row, key in enumerate(table.keys.tolist()) if key.startswith("default/w")]
    made, result = list[tuple[Statement, int]](), list[object]()
    for _ in range(10):
        free = list[list[int]]()
        for row in waiting:
            task = session.cluster.task(row)
            rejections = session.hooks.reject(task, NodesView(session.ledger, rows))
            result.append(
                [
                    (each.reason, each.nodes.tolist(), each.temporary, each.final)
                    for each in rejections
                    if each.nodes.any()
                ]
            )
            rejected = np.logical_or.reduce([np.zeros(len(rows), dtype=np.bool_), *(each.nodes for each in rejections)])
            free.append(np.flatnonzero(~rejected).tolist() if row not in {other for _, other in made} else [])
        places = [(row, node) for row, nodes in zip(waiting, free, strict=True) for node in nodes]
        if made and (not places or not dice.randint(0, 2)):
            made.pop()[0].rollback()
        elif places:
            row, node = dice.choice(places)
            statement = Statement(session.ledger)
            statement.allocate(row, node)
            made.append((statement, row))
    return result


@pytest.mark.parametrize("seed", range(CASES))
def test_counting_free_devices_equals_the_search(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = world(Random(seed))
    counted = answers(text, Random(seed))
    monkeypatch.setattr(device_claims, "equal_requests", lambda _: None)
    assert counted == answers(text, Random(seed)), text


def test_most_claims_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    is_counted = list[bool]()

    def recorded(claims: object) -> object:
        found = equal_requests(claims)  # type: ignore[arg-type]
        is_counted.append(found is not None)
        return found

    monkeypatch.setattr(device_claims, "equal_requests", recorded)
    for seed in range(10):
        answers(world(Random(seed)), Random(seed))
    assert sum(is_counted) > len(is_counted) / 3
