"""The hashes of the plans of a world, and the file with the recorded ones.

A line of the file is for one world: four digits for its text, and eight for each configuration, of which the first four are
for the decisions (binds, evictions, nominations, phases, moves) and the last four for all that is written for users.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.scheduler.plan_corpus import configurations, corpus_worlds
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Plan, SetPodGroup, document
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import NOW

RECORDED = Path(__file__).parent / "hashes.txt"
WORLDS = 2000
DIGITS = 4
SECOND_CYCLES = 8
"""Of so many worlds one is scheduled for two cycles, between which the plan is applied and pods terminate."""


def snapshot(text: str) -> Snapshot:
    """Return the snapshot of a world."""
    state = State()
    for obj in corpus_worlds.objects(text):
        state.upsert(obj)
    return state.snapshot(NOW, "corpus")


def plans(seed: int, name: str, seen: Snapshot | None = None) -> list[Plan]:
    """Return the plans of one or two cycles; ``seen`` is the snapshot of the world, if there is one already."""
    config, text = configurations.config(name, seed), corpus_worlds.text(seed)
    if seed % SECOND_CYCLES:
        return [schedule(seen or snapshot(text), config)]
    simulation = Simulation(corpus_worlds.objects(text), config, graceful=True)
    first = simulation.cycle()
    if seed % (2 * SECOND_CYCLES):
        simulation.end_terminating()
    return [first, simulation.cycle()]


def texts(plan: Plan) -> str:
    """Return all that the plan writes, one effect a line."""
    entries = document(plan)["effects"]
    for entry, effect in zip(entries, plan.effects, strict=True):
        if isinstance(effect, SetPodGroup):
            entry |= {"moves": msgspec.to_builtins(effect.moves), "evicted": msgspec.to_builtins(effect.evicted)}
            entry |= {"evictedSeconds": effect.evicted_seconds}
    return "\n".join(json.dumps(entry, sort_keys=True) for entry in entries)


def decisions(plan: Plan) -> str:
    """Return what the plan decides, without messages."""
    return "\n".join(json.dumps(entry, sort_keys=True) for entry in map(_decision, document(plan)["effects"]) if entry)


def _decision(entry: dict[str, Any]) -> dict[str, Any]:
    if entry["effect"] == "SetPodGroup":
        return {key: entry[key] for key in ("podGroup", "phase", "alternative") if key in entry}
    if entry["effect"] in {"SetQueue", "Explain"}:
        return {}
    return {key: value for key, value in entry.items() if key != "message"}


def digest(text: str) -> str:
    """Return the first digits of the hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def entry(seed: int, name: str, seen: Snapshot | None = None) -> str:
    """Return the recorded form of the plans of a world with a configuration."""
    made = plans(seed, name, seen)
    return digest("\n\n".join(map(decisions, made))) + digest("\n\n".join(map(texts, made)))


def line(seed: int) -> str:
    """Return the line of a world."""
    text = corpus_worlds.text(seed)
    seen = snapshot(text) if seed % SECOND_CYCLES else None
    return digest(text) + "".join(entry(seed, name, seen) for name in configurations.NAMES)


def entries(line: str) -> Iterator[tuple[str, str, str]]:
    """Yield the configurations of a line with the hashes of the decisions and of the texts."""
    for number, name in enumerate(configurations.NAMES):
        start = DIGITS + 2 * DIGITS * number
        yield name, line[start : start + DIGITS], line[start + DIGITS : start + 2 * DIGITS]
