"""``explain job`` on the worlds of the page on why jobs wait: each gate, end to end, from what the scheduler has written."""

import re
from pathlib import Path

import msgspec
import pytest

from tests.cli.explaining.worlds import placed
from tests.scheduler.test_waiting import RULES, cases
from volcanopy.cli.explaining.account import JobAccount, Mark
from volcanopy.cli.explaining.gates import place_of
from volcanopy.cli.explaining.job import account_of
from volcanopy.cli.explaining.reading import job_facts
from volcanopy.cli.explaining.text import job_lines, plain

TOLD = re.compile(r"^(\S+) \[(\w+)\]\n((?:  .*\n)+)", re.MULTILINE)
WORLDS = [
    case
    for case in cases()
    if " releasing" not in case[1] and "reservation" not in case[0] and "[actions]" not in case[2]
]
"""A pod that leaves cannot be made, only deleted; room is kept after minutes; who needs no room is not called waiting."""


def configured(rules: str) -> str:
    actions, _, plugins = rules.partition(";")
    tiers = [
        {"plugins": [{"name": name.strip(" +"), "enableHierarchy": "+" in name} for name in tier.split(",")]}
        for tier in (plugins.strip() or RULES).split("|")
    ]
    return msgspec.json.encode({"actions": actions.strip() or "enqueue, allocate, backfill", "tiers": tiers}).decode()


def expected(text: str) -> dict[str, tuple[str, list[str]]]:
    """By job: the gate, and the lines that the page has below it."""
    return {name: (gate, [line.strip() for line in lines.splitlines()]) for name, gate, lines in TOLD.findall(text)}


@pytest.mark.parametrize("case", WORLDS, ids=lambda case: case[2].split("\n")[0])
async def test_a_job_that_waits_is_told_at_which_gate_and_why(case: tuple[str, str, str], tmp_path: Path) -> None:
    rules, text, told = case
    wanted = expected(told)
    async with placed(text, configured(rules), tmp_path) as place:
        await place.explained(list(wanted))
        for name, (gate, lines) in wanted.items():
            account = account_of(await job_facts(place.client, "default", name, "volcanopy-system"))
            check(account, gate, lines)


def check(account: JobAccount, gate: str, lines: list[str]) -> None:
    shown = plain(job_lines(account))
    sentence, *more = lines
    assert account.verdict == f"job {account.name} waits: {sentence}"
    assert account.gate == gate
    for line in more:
        if line.startswith("unblocked by: "):
            assert account.unblock == line.removeprefix("unblocked by: ")
        else:
            assert ", ".join(account.ahead) == line.removeprefix("blocked by:").strip()
    held = [one for one in account.gates if one.mark is Mark.HELD]
    enqueued = gate not in {"quota", "overcommit"} and any(
        one.name == "enqueued" and one.mark is Mark.PASSED for one in account.gates
    )
    assert [one.name for one in held] == [place_of(gate, enqueued=enqueued)]
    assert held[0].text, "what is missing is not said"
    assert f"✗ {held[0].name}" in shown
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", shown), "a group's name is no word for people"
