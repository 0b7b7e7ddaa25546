"""The tree of queues as it is drawn: who stands where, and how long the bars are."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.cli.errors import CommandError
from volcanopy.cli.explaining.text import plain
from volcanopy.cli.queues.tree import WIDTH, Amounts, amounts_of, bar, chosen_resource, document, lines, twigs
from volcanopy.kube.client.kinds import Json


def a_queue(name: str, parent: str = "", spec: Json | None = None, **status: Any) -> Json:
    return {
        "metadata": {"name": name},
        "spec": ({"parent": parent} if parent else {}) | (spec or {}),
        "status": {"state": "Open", **status},
    }


ROOT = a_queue("root", allocated={"cpu": "18", "memory": "1Gi"}, deserved={"cpu": "24", "memory": "64Gi"})
QUEUES = [
    ROOT,
    a_queue("web", spec={"capability": {"cpu": "6"}}, allocated={"cpu": "2"}, deserved={"cpu": "2"}, running=1),
    a_queue("ml", allocated={"cpu": "16"}, deserved={"cpu": "12"}, waiting={"cpu": "8"}, running=2, pending=1),
    a_queue("train", "ml", allocated={"cpu": "16"}, deserved={"cpu": "12"}, running=2),
    a_queue("serve", "ml", spec={"stopPolicy": "Hold"}),
]


def test_the_tree_is_drawn_with_bars_to_one_scale() -> None:
    assert plain(lines(twigs(QUEUES), "cpu")) == (
        "QUEUE         CPU                              HOLDS   DESERVES   MAY HOLD   WAITING   JOBS   STATE\n"
        "root          ██████████████████████▒▒▒▒▒▒▒▒      18         24          -         -      0   Open\n"
        "├─ ml         ███████████████▓▓▓▓▓                16         12          -         8      3   Open\n"
        "│  ├─ serve                                        0          -          -         -      0   Open, Hold\n"
        "│  └─ train   ███████████████▓▓▓▓▓                16         12          -         -      2   Open\n"
        "└─ web        ██······                             2          2          6         -      1   Open\n"
        "\n"
        "█ holds  ▓ has borrowed  ▒ deserves besides  · may hold besides"
    )


def test_a_part_of_the_tree_begins_with_its_own_queue() -> None:
    assert [twig.stem + twig.queue["metadata"]["name"] for twig in twigs(QUEUES, "ml")] == [
        "ml",
        "├─ serve",
        "└─ train",
    ]


def test_queues_whose_parent_may_not_be_seen_are_drawn_side_by_side() -> None:
    assert [twig.stem for twig in twigs([a_queue("a", "gone"), a_queue("b", "gone")])] == ["", ""]


def test_the_document_is_the_tree() -> None:
    (root,) = document(QUEUES)["queues"]
    assert [one["name"] for one in root["children"]] == ["ml", "web"]
    assert [one["name"] for one in root["children"][0]["children"]] == ["serve", "train"]


def test_the_scarcest_resource_is_drawn_unless_another_is_asked_for() -> None:
    assert chosen_resource(QUEUES) == "cpu"
    assert chosen_resource(QUEUES, "memory") == "memory"
    idle = a_queue("root", deserved={"cpu": "1", "memory": "1Gi", "pods": "9"}, allocated={"pods": "9"})
    assert chosen_resource([idle]) == "cpu"
    assert chosen_resource([a_queue("root")]) == "cpu"
    with pytest.raises(CommandError, match=r"^--resource: no queue speaks of 'gpu', only of cpu, memory$"):
        chosen_resource(QUEUES, "gpu")


@given(
    st.builds(
        Amounts,
        held=st.integers(0, 10**6),
        deserved=st.integers(0, 10**6),
        capability=st.none() | st.integers(0, 10**6),
        waiting=st.integers(0, 10**6),
    ),
    st.integers(0, 10**6),
)
def test_a_bar_is_as_wide_as_all_others_and_longer_for_more(amounts: Amounts, more: int) -> None:
    scale = max(amounts.held + more, amounts.deserved, amounts.capability or 0)
    first, second = bar(amounts, scale), bar(amounts._replace(held=amounts.held + more), scale)
    assert len("".join(part.text for part in first)) == len("".join(part.text for part in second)) == WIDTH

    def held(parts: list[Any]) -> int:
        return sum(len(part.text) for part in parts[:2]) if scale else 0

    assert held(first) <= held(second)
    assert not amounts.held or held(first) > 0


def test_amounts_are_those_of_the_resource() -> None:
    assert amounts_of(QUEUES[1], "cpu") == Amounts(2000, 2000, 6000, 0)
    assert amounts_of(QUEUES[1], "memory") == Amounts(0, 0, None, 0)
