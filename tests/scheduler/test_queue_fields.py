"""The fields of queues that plugins read are those that the warnings of admission name."""

import pytest

from volcanopy.api.queue_fields import READERS, unread_fields
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.policy.config import parse
from volcanopy_testing.notation import decide

NODE = "node n1 cpu=8\n"
JOBS = "\njob a min=1 queue=q: 8 x cpu=1\njob b min=1 queue=r: 8 x cpu=1"
WORLDS = {
    "weight": (NODE, "queue q weight=3", "\nqueue r" + JOBS),
    "deserved": (NODE, "queue q deserved.cpu=6", "\nqueue r deserved.cpu=2" + JOBS),
    "guarantee": (NODE, "queue q guarantee.cpu=6", "\nqueue r\njob b min=1 queue=r: 8 x cpu=1"),
    "capability": (NODE, "queue q capability.cpu=2", "\njob a min=1 queue=q: 8 x cpu=1"),
    "borrowingLimit": (NODE, "queue q deserved.cpu=2 borrow.cpu=1", "\nqueue r\njob a min=1 queue=q: 8 x cpu=1"),
    "lendingLimit": (NODE, "queue q deserved.cpu=6 lend.cpu=1", "\nqueue r\njob b min=1 queue=r: 8 x cpu=1"),
}
"""Nodes, a queue with the field, and the rest, such that a plugin that reads the field places other pods."""
PLUGINS = ("proportion", "capacity", "drf")


@pytest.mark.parametrize("field", READERS)
@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_field_matters_to_the_plugins_that_are_said_to_read_it(field: str, plugin: str) -> None:
    """drf divides by weight, and knows limits, in a tree."""
    nodes, queue, rest = WORLDS[field]
    hierarchy = ", enableHierarchy: true" if plugin == "drf" else ""
    tiers = f"tiers: [{{plugins: [{{name: gang}}, {{name: predicates}}, {{name: {plugin}{hierarchy}}}]}}]"
    config = parse(f"actions: allocate\n{tiers}", builtin())

    def placed(text: str) -> list[Bind]:
        return decide(text, config).of(Bind)

    without = " ".join(token for token in queue.split() if not token.startswith(_TOKENS[field]))
    differs = placed(nodes + queue + rest) != placed(nodes + without + rest)
    assert differs == (plugin in READERS[field])


_TOKENS = {
    "weight": "weight=",
    "deserved": "deserved.",
    "guarantee": "guarantee.",
    "capability": "capability.",
    "borrowingLimit": "borrow.",
    "lendingLimit": "lend.",
}


def test_a_default_weight_and_absent_fields_are_not_reported() -> None:
    assert list(unread_fields({"weight": 1, "deserved": {}, "guarantee": None}, ())) == []


def test_deserved_beside_a_borrowing_limit_is_read_by_those_that_read_the_limit() -> None:
    spec = {"deserved": {"cpu": "2"}, "borrowingLimit": {"cpu": "1"}}
    assert list(unread_fields(spec, {"proportion"})) == []
    assert [name for name, _ in unread_fields(spec, {"gang"})] == ["deserved", "borrowingLimit"]
