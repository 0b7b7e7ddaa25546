"""The order of queues while jobs are admitted and placed: always the first by the keys of the moment, for a few keys a job."""

import json
import re
from random import Random
from typing import Any

import pytest

from tests.scheduler.random_cases import case
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.engine.queue_order import QueueOrder
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import QueueView
from volcanopy.scheduler.model.plan import SetPodGroup
from volcanopy.scheduler.policy.config import DEFAULT, parse
from volcanopy_testing.notation import all_policies, snapshot

WORLDS = 60
PATH = "volcanopy.io/hierarchy"
ORDERS: dict[str, list[dict[str, Any]]] = {
    "proportion": [{"name": "proportion"}],
    "capacity": [{"name": "capacity", "enableHierarchy": True}],
    "capacity without a tree": [{"name": "capacity"}],
    "hierarchical drf": [{"name": "drf", "enableHierarchy": True}],
    "hierarchical drf with annotated paths": [{"name": "drf", "enableHierarchy": True}],
    "demand and proportion": [{"name": "demand"}, {"name": "proportion"}],
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_first_queue_has_the_smallest_key_of_all(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In random worlds, compared with the keys of all queues that are left."""
    first, compared = QueueOrder.first, 0

    def checked(self: QueueOrder) -> QueueView:
        nonlocal compared
        queue = first(self)
        keys = {part.row: self._key_of(part) for part in _leaves(self)}
        compared += len(keys) > 1
        assert keys[queue.row] == min(keys.values())
        return queue

    monkeypatch.setattr(QueueOrder, "first", checked)
    document = {
        "actions": "enqueue, allocate",
        "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}, *ORDERS[order]]}],
    }
    configured = parse(json.dumps(document), all_policies())
    for seed in range(WORLDS):
        text = case(Random(seed)).world
        if order == "hierarchical drf with annotated paths":
            text = re.sub(
                r"^queue q(\d+)",
                lambda queue: f"{queue[0]} note.{PATH}=root/{int(queue[1]) % 2}/{queue[1]}",
                text,
                flags=re.MULTILINE,
            )
        schedule(snapshot(text), configured)
    assert compared > WORLDS / 3


def _leaves(order: QueueOrder) -> list[Any]:
    parts, leaves = [order._root], []
    while parts:
        part = parts.pop()
        parts += part.children
        leaves += [part] if part.row >= 0 else []
    return leaves


def test_an_admission_computes_the_keys_of_few_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, queue_key = 0, Session.queue_key

    def counted(self: Session, queue: QueueView, *, admission: bool = False) -> tuple[object, ...]:
        nonlocal keys
        keys += admission
        return queue_key(self, queue, admission=admission)

    monkeypatch.setattr(Session, "queue_key", counted)
    lines = ["node n1 cpu=10000", "queue root", *(f"queue p{parent} parent=root" for parent in range(2))]
    for number in range(400):
        lines.append(f"queue q{number} parent=p{number % 2}")
        lines += [f"job j{number}-{job} queue=q{number} phase=Pending minres.cpu=1:" for job in range(2)]
    plan = schedule(snapshot("\n".join(lines)), parse(DEFAULT, all_policies()))
    admitted = sum(effect.phase == "Inqueue" for effect in plan.of(SetPodGroup))
    assert admitted == 800
    assert keys < 5 * admitted
