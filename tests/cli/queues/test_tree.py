"""The drawing of the queue tree: order, bars, columns that fit the terminal."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.api.core import Queue
from volcanopy.cli.explain.text import plain
from volcanopy.cli.queues.tree import BAR, Amounts, amounts_of, bar, branches, document, lines, select_resource
from volcanopy.cli.queues.views import VIEW
from volcanopy.client.errors import CommandError
from volcanopy.client.kinds import read
from volcanopy.kube.client.kinds import Json

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def a_queue(name: str, parent: str = "", spec: Json | None = None, **status: Any) -> Queue:
    body = {
        "metadata": {"name": name},
        "spec": ({"parent": parent} if parent else {}) | (spec or {}),
        "status": {"state": "Open", **status},
    }
    return read(Queue, body)


ROOT = a_queue("root", allocated={"cpu": "18", "memory": "1Gi"}, fairShare={"cpu": "24", "memory": "64Gi"})
QUEUES = [
    ROOT,
    a_queue("web", spec={"capability": {"cpu": "6"}}, allocated={"cpu": "2"}, fairShare={"cpu": "2"}, running=1),
    a_queue("ml", allocated={"cpu": "16"}, fairShare={"cpu": "12"}, waiting={"cpu": "8"}, running=2, pending=1),
    a_queue("train", "ml", allocated={"cpu": "16"}, fairShare={"cpu": "12"}, running=2),
    a_queue("serve", "ml", spec={"stopPolicy": "Hold"}),
]


def test_the_tree_has_bars_of_one_scale() -> None:
    assert plain(lines(branches(QUEUES), "cpu")) == (
        "QUEUE        CPU                        ALLOCATED  FAIR SHARE  CAPABILITY  WAITING  JOBS  STATE\n"
        "root         ███████████████████▒▒▒▒▒▒         18          24           -        -     0  Open\n"
        "├─ ml        ████████████▓▓▓▓▓                 16          12           -        8     3  Open\n"
        "│  ├─ serve                                     0           -           -        -     0  Open, Hold\n"
        "│  └─ train  ████████████▓▓▓▓▓                 16          12           -        -     2  Open\n"
        "└─ web       ██····                             2           2           6        -     1  Open\n"
        "\n"
        "█ allocated  ▓ borrowed  ▒ fair share  · capability"
    )


@pytest.mark.parametrize("width", [100, 90, 80, 70, 60, 50, 40])
def test_the_tree_fits_the_terminal(width: int) -> None:
    rows = plain(lines(branches(QUEUES), "cpu", width)).split("\n\n")[0].split("\n")
    assert max(map(len, rows)) <= width
    assert rows[0].split()[-1] == "STATE"
    assert all(row.split()[-1] in {"Open", "Hold"} for row in rows[1:])


def test_narrow_terminals_lose_columns_in_a_fixed_order() -> None:
    def headings(width: int) -> list[str]:
        return (
            plain(lines(branches(QUEUES), "cpu", width))
            .split("\n")[0]
            .replace("FAIR SHARE", "FAIR-SHARE")
            .split()[2:-1]
        )

    assert headings(80) == ["ALLOCATED", "FAIR-SHARE", "CAPABILITY", "JOBS"]
    assert headings(70) == ["ALLOCATED", "FAIR-SHARE", "JOBS"]
    assert headings(60) == ["ALLOCATED", "FAIR-SHARE"]
    assert headings(45) == ["ALLOCATED"]


def test_a_subtree_begins_with_its_root() -> None:
    assert [branch.stem + branch.name for branch in branches(QUEUES, "ml")] == [
        "ml",
        "├─ serve",
        "└─ train",
    ]


def test_queues_with_unreadable_parents_are_drawn_as_roots() -> None:
    assert [branch.stem for branch in branches([a_queue("a", "gone"), a_queue("b", "gone")])] == ["", ""]


def test_the_document_is_the_tree() -> None:
    (root,) = document(QUEUES)["queues"]
    assert [child["name"] for child in root["children"]] == ["ml", "web"]
    assert [child["name"] for child in root["children"][0]["children"]] == ["serve", "train"]


def test_the_scarcest_resource_is_the_default() -> None:
    assert select_resource(QUEUES) == "cpu"
    assert select_resource(QUEUES, "memory") == "memory"
    idle = a_queue("root", fairShare={"cpu": "1", "memory": "1Gi", "pods": "9"}, allocated={"pods": "9"})
    assert select_resource([idle]) == "cpu"
    assert select_resource([a_queue("root")]) == "cpu"
    with pytest.raises(CommandError, match=r'^--resource: no queue has resource "gpu": use one of cpu, memory$'):
        select_resource(QUEUES, "gpu")


@given(
    st.builds(
        Amounts,
        allocated=st.integers(0, 10**6),
        fair_share=st.integers(0, 10**6),
        capability=st.none() | st.integers(0, 10**6),
        waiting=st.integers(0, 10**6),
    ),
    st.integers(0, 10**6),
)
def test_bars_have_one_width_and_grow_with_the_amount(amounts: Amounts, more: int) -> None:
    scale = max(amounts.allocated + more, amounts.fair_share, amounts.capability or 0)
    first, second = bar(amounts, scale), bar(amounts._replace(allocated=amounts.allocated + more), scale)
    assert len("".join(part.text for part in first)) == len("".join(part.text for part in second)) == BAR

    def allocated(parts: list[Any]) -> int:
        return sum(len(part.text) for part in parts[:2]) if scale else 0

    assert allocated(first) <= allocated(second)
    assert not amounts.allocated or allocated(first) > 0


def test_amounts_of_a_resource() -> None:
    assert amounts_of(QUEUES[1], "cpu") == Amounts(2000, 2000, 6000, 0)
    assert amounts_of(QUEUES[1], "memory") == Amounts(0, 0, None, 0)


def test_a_queue_without_allocated_resources_lists_its_deserved_share() -> None:
    queue = a_queue("teaching", allocated={}, fairShare={"amd.com/gpu": "1", "cpu": "8", "memory": "16Gi", "pods": "9"})
    cells = {column.heading: column.cell(queue, NOW) for column in VIEW.columns}
    assert (cells["ALLOCATED"], cells["FAIR SHARE"]) == ("-", "cpu=8")
