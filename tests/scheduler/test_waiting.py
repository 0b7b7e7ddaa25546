"""The page on waiting jobs: its messages equal those of the scheduler for its worlds."""

import re
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.model.plan import Explain
from volcanopy.scheduler.policy.config import parse
from volcanopy_testing.notation import decide

PAGE = Path(__file__).parents[2] / "docs" / "waiting.md"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RULES = "priority, gang | overcommit, resourcequota, predicates, proportion, binpack"
GATES = {"queue", "quota", "overcommit", "limits", "share", "capability", "gang", "topology", "nodes", "actions"}


def cases() -> list[tuple[str, str, str]]:
    """Rules, world and expected text of each pair of blocks on the page."""
    blocks = BLOCK.findall(PAGE.read_text())
    pairs = pairwise(blocks)
    return [
        (rules.strip(), text, message_block)
        for (kind, rules, text), (next_kind, _, message_block) in pairs
        if kind == "world" and next_kind == "text"
    ]


def message_block(explain: Explain) -> str:
    """Return an explanation in the form of the page."""
    lines = [f"{explain.job.removeprefix('default/')} [{explain.gate}]", f"  {explain.message}"]
    lines += [f"  unblocked by: {explain.unblocked_by}"] if explain.unblocked_by else []
    lines += [f"  blocked by: {', '.join(explain.blocked_by)}"] if explain.blocked_by else []
    return "\n".join(lines)


def shown(rules: str, text: str) -> str:
    """Return the messages of the scheduler for a world; the rules are ``actions; plugins | plugins``, ``+`` enables hierarchy."""
    actions, _, plugins = rules.partition(";")
    tiers = [
        {"plugins": [{"name": name.strip(" +"), "enableHierarchy": "+" in name} for name in tier.split(",")]}
        for tier in (plugins.strip() or RULES).split("|")
    ]
    document = {"actions": actions.strip() or "enqueue, allocate, backfill", "tiers": tiers}
    plan = decide(text, parse(msgspec.json.encode(document).decode(), builtin()))
    return "".join(f"{message_block(effect)}\n" for effect in plan.of(Explain))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case[2].split("\n")[0])
def test_messages_on_the_page_equal_those_of_the_scheduler(case: tuple[str, str, str]) -> None:
    rules, text, expected = case
    assert shown(rules, text) == expected


def test_every_block_is_a_world_or_its_message() -> None:
    assert [kind for kind, _, _ in BLOCK.findall(PAGE.read_text())] == ["world", "text"] * len(cases())


def test_every_gate_is_on_the_page() -> None:
    assert set(re.findall(r"^## (\w+)", PAGE.read_text(), re.MULTILINE)) >= GATES
