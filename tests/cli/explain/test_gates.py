"""``explain job`` on the examples of docs/waiting.md, each gate end to end."""

import re
from pathlib import Path

import msgspec
import pytest

from tests.cli.explain.scheduled_jobs import scheduled_world
from tests.scheduler.test_waiting import RULES, cases
from volcanopy.api import core
from volcanopy.cli.explain.text import job_lines, plain
from volcanopy.client.explain.cluster_reads import job_facts
from volcanopy.client.explain.gates import Members, gate_rows
from volcanopy.client.explain.job import job_report
from volcanopy.client.explain.report import GateState, JobReport

ENTRY = re.compile(r"^(\S+) \[(\w+)\]\n((?:  .*\n)+)", re.MULTILINE)
CASES = [
    case
    for case in cases()
    if " releasing" not in case[1] and "reservation" not in case[0] and "[actions]" not in case[2]
]
"""Terminating pods cannot be created, reservations take minutes, and jobs without requests are not pending."""


def configured(rules: str) -> str:
    actions, _, plugins = rules.partition(";")
    tiers = [
        {"plugins": [{"name": name.strip(" +"), "enableHierarchy": "+" in name} for name in tier.split(",")]}
        for tier in (plugins.strip() or RULES).split("|")
    ]
    return msgspec.json.encode({"actions": actions.strip() or "enqueue, allocate, backfill", "tiers": tiers}).decode()


def expected(text: str) -> dict[str, tuple[str, list[str]]]:
    """Return by job its gate and the lines below it on the page."""
    return {name: (gate, [line.strip() for line in lines.splitlines()]) for name, gate, lines in ENTRY.findall(text)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[2].split("\n")[0])
async def test_the_report_of_a_pending_job_has_its_gate_and_reason(case: tuple[str, str, str], tmp_path: Path) -> None:
    rules, text, page = case
    jobs = expected(page)
    async with scheduled_world(text, configured(rules), tmp_path) as place:
        await place.explained(list(jobs))
        for name, (gate, lines) in jobs.items():
            report = job_report(await job_facts(place.client, "default", name, "volcanopy-system"))
            check(report, gate, lines)


def test_a_blocked_gate_without_numbers_shows_the_fact_and_not_its_remedy() -> None:
    reason = core.Explanation(
        gate="queue", message='queue "q" is held: stopPolicy Hold', unblocked_by='resuming queue "q"'
    )
    (row,) = (row for row in gate_rows(Members("q", 1, 0), None, None, reason) if row.state is GateState.BLOCKED)
    assert row.message == 'queue "q" is held: stopPolicy Hold'


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("", 'queue "q" is open'),
        ("Open", 'queue "q" is open'),
        ("Closing", 'queue "q" is closing: admitted jobs continue'),
    ],
)
def test_the_gate_of_a_queue_that_an_admitted_job_has_passed_names_the_state_of_the_queue(
    state: str, message: str
) -> None:
    queue = core.Queue(metadata=core.Meta(name="q"), status=core.QueueStatus(state=state))
    rows = gate_rows(Members("q", 1, 1), None, queue, core.Explanation(gate="nodes", message="no node"))
    assert next(row.message for row in rows if row.name == "queue") == message


def check(report: JobReport, gate: str, lines: list[str]) -> None:
    text = plain(job_lines(report))
    sentence, *more = lines
    assert report.summary == f'job "{report.name}" is pending: {sentence}'
    assert report.gate == gate
    for line in more:
        label, _, value = line.partition(": ")
        assert {"unblocked by": report.unblocked_by, "blocked by": ", ".join(report.blocked_by)}[label] == value.strip()
    (blocked,) = [row for row in report.gates if row.state is GateState.BLOCKED]
    assert blocked.name == gate
    assert blocked.message, "the missing amount is not shown"
    assert f"✗ {gate}" in text
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", text), "the uid of a pod group is shown"
