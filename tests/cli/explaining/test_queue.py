"""What ``explain queue`` says, from what is known: data in, a sentence and a table out."""

from typing import Any

import pytest

from volcanopy.cli.explaining.queue import QueueFacts, account_of
from volcanopy.cli.explaining.reading import all_below, line_above
from volcanopy.cli.explaining.text import plain, queue_lines
from volcanopy.kube.client.kinds import Json


def a_queue(name: str, parent: str = "", state: str = "Open", spec: Json | None = None, **status: Any) -> Json:
    return {
        "metadata": {"name": name},
        "spec": ({"parent": parent} if parent else {}) | (spec or {}),
        "status": {"state": state, **status},
    }


def a_group(name: str, gate: str = "", place: int = 0, phase: str = "Inqueue", owner: str = "") -> Json:
    owners = [{"kind": "BatchJob", "name": owner}] if owner else []
    why = {"gate": gate, "message": f"because of {gate}", "numbers": {"position": str(place)}} if gate else None
    return {
        "metadata": {"name": name, "namespace": "lab", "ownerReferences": owners},
        "spec": {"queue": "ml"},
        "status": {"phase": phase, **({"explanation": why} if why else {})},
    }


ROOT = a_queue("root")
TEAM = a_queue("team", spec={"capability": {"cpu": "8"}}, allocated={"cpu": "8"})
FULL = a_queue("ml", "team", spec={"capability": {"cpu": "16"}}, allocated={"cpu": "4"}, deserved={"cpu": "6"})


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        (QueueFacts(a_queue("ml")), "is open; holds nothing; nobody waits"),
        (QueueFacts(a_queue("ml"), groups=None), "is open; holds nothing"),
        (
            QueueFacts(a_queue("ml", state="Closing")),
            "is closing: it takes no new jobs; holds nothing; nobody waits",
        ),
        (
            QueueFacts(a_queue("ml", spec={"stopPolicy": "Hold"})),
            "is held: nothing new starts until `volcanopy queue resume ml`; holds nothing; nobody waits",
        ),
        (
            QueueFacts(a_queue("ml", "team"), above=[a_queue("team", spec={"stopPolicy": "HoldAndDrain"}), ROOT]),
            "is drained with queue team above it: nothing new starts, and what runs leaves until "
            "`volcanopy queue resume team`; holds nothing; nobody waits",
        ),
        (
            QueueFacts(a_queue("ml"), above=[a_queue("root", spec={"stopPolicy": "Hold"})]),
            "is open; holds nothing; nobody waits",
        ),
        (
            QueueFacts(FULL, above=[TEAM, ROOT]),
            "is open; holds 4 of the 6 cpu that it deserves; may take no more cpu because of queue team; nobody waits",
        ),
        (
            QueueFacts(
                a_queue("ml", allocated={"cpu": "6"}, deserved={"cpu": "4"}, borrowed={"cpu": "2"}),
                groups=[a_group("a", "share", 1), a_group("b", "share", 2), a_group("c", "nodes", 3)],
            ),
            "is open; holds 6 of the 4 cpu that it deserves; has borrowed 2 cpu; 3 jobs wait (2 at share, 1 at nodes)",
        ),
    ],
)
def test_the_verdict_is_one_sentence(facts: QueueFacts, verdict: str) -> None:
    assert account_of(facts).verdict == f"queue ml {verdict}"


def test_what_it_may_take_ends_where_the_first_of_its_line_ends() -> None:
    (cpu,) = account_of(QueueFacts(FULL, above=[TEAM, ROOT])).holdings
    assert (cpu.limit, cpu.capped_by, cpu.left, cpu.lendable) == ("8", "team", "0", "2")
    (own,) = account_of(QueueFacts(FULL, above=[ROOT])).holdings
    assert (own.limit, own.capped_by, own.left) == ("16", "ml", "12")


def test_who_waits_is_told_in_the_order_of_the_line_by_the_name_of_the_job() -> None:
    groups = [a_group("b-uid", "nodes", 2, owner="b"), a_group("x", phase="Pending"), a_group("a", "share", 1)]
    account = account_of(QueueFacts(FULL, groups=[*groups, a_group("runs", phase="Running")]))
    assert [(one.place, one.name, one.gate) for one in account.waiting] == [
        (1, "a", "share"),
        (2, "b", "nodes"),
        (0, "x", "not looked at yet"),
    ]
    assert "  1. lab/a [share] because of share" in plain(queue_lines(account))


def test_a_long_line_is_cut_in_the_text_and_whole_in_the_document() -> None:
    account = account_of(QueueFacts(FULL, groups=[a_group(f"j{number}", "share", number) for number in range(1, 31)]))
    assert "  and 20 more" in plain(queue_lines(account))
    assert len(account.document()["waiting"]) == 30


def test_the_line_above_ends_where_a_queue_is_missing_or_comes_again() -> None:
    ring = [a_queue("a", "b"), a_queue("b", "a")]
    assert [one["metadata"]["name"] for one in line_above(ring[0], ring)] == ["b"]
    lost = a_queue("c", "gone")
    assert line_above(lost, [lost]) == []
    assert [one["metadata"]["name"] for one in line_above(FULL, [FULL, TEAM, ROOT])] == ["team", "root"]
    assert [one["metadata"]["name"] for one in all_below(ROOT, [FULL, TEAM, ROOT])] == ["ml", "team"]
