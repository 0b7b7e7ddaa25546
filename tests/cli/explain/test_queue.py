"""Reports of ``explain queue``: objects in, a summary and a table out."""

from typing import Any

import msgspec
import pytest

from volcanopy.api.core import PodGroup, Queue
from volcanopy.cli.explain.text import plain, queue_lines
from volcanopy.client.explain.hierarchy import ancestors, descendants
from volcanopy.client.explain.queue import QueueFacts, queue_report
from volcanopy.kube.client.kinds import Json


def a_queue(name: str, parent: str = "", state: str = "Open", spec: Json | None = None, **status: Any) -> Queue:
    body = {
        "metadata": {"name": name},
        "spec": ({"parent": parent} if parent else {}) | (spec or {}),
        "status": {"state": state, **status},
    }
    return msgspec.convert(body, Queue)


def a_group(name: str, gate: str = "", position: int = 0, phase: str = "Inqueue", owner: str = "") -> PodGroup:
    owners = [{"kind": "BatchJob", "name": owner}] if owner else []
    reason = {"gate": gate, "message": f"because of {gate}", "numbers": {"position": str(position)}} if gate else None
    body = {
        "metadata": {"name": name, "namespace": "lab", "ownerReferences": owners},
        "spec": {"queue": "ml"},
        "status": {"phase": phase, **({"explanation": reason} if reason else {})},
    }
    return msgspec.convert(body, PodGroup)


ROOT = a_queue("root")
TEAM = a_queue("team", spec={"capability": {"cpu": "8"}}, allocated={"cpu": "8"})
FULL = a_queue("ml", "team", spec={"capability": {"cpu": "16"}}, allocated={"cpu": "4"}, fairShare={"cpu": "6"})


@pytest.mark.parametrize(
    ("facts", "summary"),
    [
        (QueueFacts(a_queue("ml")), "is open; nothing allocated; no pending jobs"),
        (QueueFacts(a_queue("ml"), groups=None), "is open; nothing allocated"),
        (
            QueueFacts(a_queue("ml", state="Closing")),
            "is closing: it accepts no new jobs; nothing allocated; no pending jobs",
        ),
        (
            QueueFacts(a_queue("ml", spec={"stopPolicy": "Hold"})),
            "is held: no new pods start until `volcanopy queue resume ml`; nothing allocated; no pending jobs",
        ),
        (
            QueueFacts(a_queue("ml", "team"), ancestors=[a_queue("team", spec={"stopPolicy": "HoldAndDrain"}), ROOT]),
            'is drained by its ancestor "team": no new pods start and running pods are evicted until '
            "`volcanopy queue resume team`; nothing allocated; no pending jobs",
        ),
        (
            QueueFacts(a_queue("ml"), ancestors=[a_queue("root", spec={"stopPolicy": "Hold"})]),
            "is open; nothing allocated; no pending jobs",
        ),
        (
            QueueFacts(FULL, ancestors=[TEAM, ROOT]),
            'is open; cpu allocated 4, fair share 6; capability of queue "team" reached for cpu; no pending jobs',
        ),
        (
            QueueFacts(
                a_queue("ml", allocated={"cpu": "6"}, fairShare={"cpu": "4"}, borrowed={"cpu": "2"}),
                groups=[a_group("a", "share", 1), a_group("b", "share", 2), a_group("c", "nodes", 3)],
            ),
            "is open; cpu allocated 6, fair share 4; borrowed cpu 2; 3 jobs pending (by gate: share 2, nodes 1)",
        ),
    ],
)
def test_the_summary_is_one_sentence(facts: QueueFacts, summary: str) -> None:
    assert queue_report(facts).summary == f'queue "ml" {summary}'


def test_available_is_the_least_that_the_queue_and_its_ancestors_leave() -> None:
    (cpu,) = queue_report(QueueFacts(FULL, ancestors=[TEAM, ROOT])).resources
    assert (cpu.capability, cpu.limited_by, cpu.available, cpu.lendable) == ("8", "team", "0", "2")
    (own,) = queue_report(QueueFacts(FULL, ancestors=[ROOT])).resources
    assert (own.capability, own.limited_by, own.available) == ("16", "ml", "12")


def test_waiting_groups_are_listed_by_position_under_the_name_of_their_job() -> None:
    groups = [a_group("b-uid", "nodes", 2, owner="b"), a_group("x", phase="Pending"), a_group("a", "share", 1)]
    report = queue_report(QueueFacts(FULL, groups=[*groups, a_group("runs", phase="Running")]))
    assert [(group.position, group.name, group.gate) for group in report.waiting] == [
        (1, "a", "share"),
        (2, "b", "nodes"),
        (0, "x", "not processed yet"),
    ]
    assert "  1. lab/a [share] because of share" in plain(queue_lines(report))


def test_the_document_has_all_waiting_groups_and_the_text_the_first_ten() -> None:
    report = queue_report(QueueFacts(FULL, groups=[a_group(f"j{number}", "share", number) for number in range(1, 31)]))
    assert "  and 20 more" in plain(queue_lines(report))
    assert len(report.document()["waiting"]) == 30


def test_ancestors_end_at_a_missing_queue_and_at_a_cycle() -> None:
    cycle = [a_queue("a", "b"), a_queue("b", "a")]
    assert [queue.metadata.name for queue in ancestors(cycle[0], cycle)] == ["b"]
    orphan = a_queue("c", "gone")
    assert ancestors(orphan, [orphan]) == []
    assert [queue.metadata.name for queue in ancestors(FULL, [FULL, TEAM, ROOT])] == ["team", "root"]
    assert [queue.metadata.name for queue in descendants("root", [FULL, TEAM, ROOT])] == ["ml", "team"]
