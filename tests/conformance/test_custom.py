"""Conformance of single plugin functions: scenarios of another system with its expected results."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.conformance.differences import differences
from tests.conformance.worlds import Scenario, plugin_entry, scenarios
from volcanopy.api.config_file import ConfigError
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.measures import Measured, of_load
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.keys_without_effect import ACTION_ARGUMENTS, effective
from volcanopy.scheduler.policy.roles import Moment
from volcanopy_testing.notation import NOW, world

DIFFERENCES = differences()
NOON = NOW.replace(hour=12)
"""When the worlds are looked at: outside of the minute after midnight that closes some zones."""


def session(scenario: Scenario, **loads: tuple[float, float, Any]) -> Session:
    """Return a session at noon with the measured load of nodes; the previous cycle was a day before."""
    state = scenario.state()
    state.snapshot(NOON - timedelta(days=1), "before")
    if loads:
        state.set_measures(Measured(of_load(loads)))
    return Session(state.snapshot(NOON, "conformance"), scenario.config())


def said(scenario: Scenario) -> Any:
    """Return the expected result."""
    return scenario.expected.get("other") or {}


# A question for each file: where our answer is another, a line each


def of_scores(scenario: Scenario) -> Iterator[str]:
    """``expected``: the score of each node for each task."""
    yield from _scores(session(scenario), said(scenario)["expected"])


def of_groups_of_nodes(scenario: Scenario) -> Iterator[str]:
    """``expectedStatus`` is of tasks and nodes, or of the nodes for one task; 0 lets the task in."""
    asked = session(scenario)
    codes = said(scenario).get("expectedStatus", {})
    target = (scenario.said.get("rowFields") or {}).get("targetTaskName")
    if target:
        codes = {next(key for key in asked.snapshot.task_rows if key.endswith(f"/{target}")): codes}
    if not codes:
        codes = {"limit/pending-1": {"n1": 0}}
    yield from _refusals(asked, {key: {node: code == 0 for node, code in of.items()} for key, of in codes.items()})
    if any(call["call"] == "Allocate" for call in scenario.said["sessionCalls"]):
        asked.statement().allocate(asked.snapshot.task_rows["limit/pending-1"], asked.snapshot.nodes.index["n1"])
        yield from _refusals(asked, {"limit/pending-2": {"n1": False}})
    yield from _scores(asked, said(scenario).get("expected", {}))


def jobs_of(session: Session) -> list[JobView]:
    """The jobs that take part, in the order of their keys."""
    return sorted(map(session.cluster.job, session.job_rows.tolist()), key=lambda job: job.key)


def of_admission(scenario: Scenario) -> Iterator[str]:
    """``expectedEnqueueAble``: whether the pending job may be admitted."""
    asked = session(scenario)
    jobs = [job for job in jobs_of(asked) if job.phase != "Inqueue"] or jobs_of(asked)
    permitted = asked.hooks.verdict(jobs[0], Moment.ENQUEUE).value >= 0
    if permitted is not said(scenario)["expectedEnqueueAble"]:
        yield f"enqueueable is {permitted}"


def of_zones(scenario: Scenario) -> Iterator[str]:
    """``predicatedExpected`` names the feasible nodes, ``want`` counts the victims."""
    asked = session(scenario)
    if "want" in said(scenario):
        running = np.flatnonzero(asked.ledger.node >= 0)
        leave = len(asked.hooks.evicts(running))
        if leave != said(scenario)["want"]:
            yield f"{leave} leave for {said(scenario)['want']}"
        return
    open_to = said(scenario)["predicatedExpected"]
    names = asked.snapshot.nodes.names
    for key, scores in said(scenario)["scoreExpected"].items():
        yield from _refusals(asked, {key: {name: open_to.get(name, False) for name in names}})
        yield from _scores(asked, {key: scores})


def of_loads(scenario: Scenario) -> Iterator[str]:
    """The first code is of the only task on the only node, given the measured loads; or the score is to count once."""
    measured = scenario.said["sessionCalls"][0]["args"][1]
    loads = {
        name: (load["cpuUsageAvg"]["10m"], load["memUsageAvg"]["10m"], NOON + timedelta(seconds=load["metricsTime"]["nowPlusSeconds"]))
        for name, load in measured.items()
        if "metricsTime" in load
    }  # fmt: skip
    asked = session(scenario, **loads)
    key = next(iter(asked.snapshot.task_rows))
    if not said(scenario):
        weighed = {name: ((100 - cpu) + (100 - memory)) / 2 * 5 for name, (cpu, memory, _) in loads.items()}
        yield from _scores(asked, {key: weighed})
        return
    code = said(scenario)["expected"]["predicateStatus"][0]["code"]
    yield from _refusals(asked, {key: dict.fromkeys(asked.snapshot.nodes.names, code == 0)})


def of_waiting_times(scenario: Scenario) -> Iterator[str]:
    """``expectedOrder``: whether a job without a waiting time comes before one with an hour."""
    state = State()
    for obj in world("job left:\njob right note.volcanopy.io/sla-waiting-time=1h:"):
        state.upsert(obj)
    asked = Session(state.snapshot(NOON, "conformance"), scenario.config())
    left, right = jobs_of(asked)
    keys = asked.hooks.job_keys(np.array([left.row, right.row]))
    ours = keys[0] < keys[1]
    if ours is not said(scenario)["expectedOrder"]:
        yield f"the first is {'' if ours else 'not '}before the second"
    if (asked.hooks.verdict(left, Moment.ENQUEUE).value >= 0) is not said(scenario)["expectedEnqueueAble"]:
        yield "it is not enqueueable"


def of_shares(scenario: Scenario) -> Iterator[str]:
    """``expected``: what each job holds when all is handed out.

    The plugin proportion, which only breaks ties there, stands in a tier of its own: beside drf it is refused here.
    """
    entries = [plugin_entry(entry) for tier in scenario.said["config"]["tiers"] for entry in tier["plugins"]]
    document = {"actions": "allocate", "tiers": [{"plugins": [entry]} for entry in entries]}
    asked = Session(scenario.snapshot(), parse(json.dumps(document), builtin()))
    builtin().actions["allocate"](asked, {})
    for job in jobs_of(asked):
        wanted = said(scenario)["expected"][job.key.partition("/")[2]]
        ours = {"milliCPU": job.allocated["cpu"], "memory": job.allocated["memory"]}
        if ours != {key: wanted[key] for key in ours}:
            yield f"{job.key} holds {ours} for {wanted}"


def of_arguments(scenario: Scenario) -> Iterator[str]:
    """Check that the arguments of an action in the file reach it, but those without effect."""
    config: SchedulerConfig = scenario.config()
    for entry in scenario.said["config"]["configurations"]:
        arguments = config.action_arguments[entry["name"]]
        if arguments != type(arguments)(**effective(entry["arguments"], ACTION_ARGUMENTS[entry["name"]])):
            yield f"{entry['name']} gets {config.action_arguments[entry['name']]}"


QUESTIONS: dict[str, Callable[[Scenario], Iterator[str]]] = {
    "actions-allocate-allocate": of_arguments,
    "plugins-binpack-binpack": of_scores,
    "plugins-drf-hdrf": of_shares,
    "plugins-nodegroup-nodegroup": of_groups_of_nodes,
    "plugins-overcommit-overcommit": of_admission,
    "plugins-resource-strategy-fit-resource_strategy_fit": of_scores,
    "plugins-resource-strategy-fit-sra": of_scores,
    "plugins-resourcequota-resourcequota": of_admission,
    "plugins-sla-sla": of_waiting_times,
    "plugins-tdm-tdm": of_zones,
    "plugins-usage-usage": of_loads,
}
ELSEWHERE = {"plugins-network-topology-aware-network_topology_aware"}
"""The files that a module of their own asks about."""
UNASKED = {
    "plugins-priority-priority:67 GangReclaim permits all candidates regardless of priority": (
        "asks for a vote on whole bundles, which is no hook here: bundles go by priority when they are chosen"
    ),
}
"""The scenarios whose question cannot be asked here, each with the reason."""

ALL = scenarios("custom")
ASKED = [scenario for scenario in ALL if scenario.file in QUESTIONS and scenario.name not in UNASKED]

if not ALL:
    pytest.skip("needs VOLCANOPY_CONFORMANCE, a folder with recorded sessions of Volcano", allow_module_level=True)


def _scores(asked: Session, expected: dict[str, dict[str, float]]) -> Iterator[str]:
    for key, scores in expected.items():
        task = TaskView(asked.ledger, asked.snapshot.task_rows[key])
        for name, score in scores.items():
            node = np.array([asked.snapshot.nodes.index[name]])
            ours = float(asked.hooks.score(TasksView([task]), NodesView(asked.ledger, node))[0, 0])
            if ours != pytest.approx(score, abs=1e-6):
                yield f"{key} scores {ours} on {name} for {score}"


def _refusals(asked: Session, expected: dict[str, dict[str, bool]]) -> Iterator[str]:
    for key, name in ((key, name) for key, of in expected.items() for name in of):
        task = TaskView(asked.ledger, asked.snapshot.task_rows[key])
        node = np.array([asked.snapshot.nodes.index[name]])
        refused = any(item.nodes.any() for item in asked.hooks.reject(task, NodesView(asked.ledger, node)))
        if refused is expected[key][name]:
            yield f"{key} is {'refused' if refused else 'taken'} by {name}"


@pytest.mark.parametrize("scenario", ASKED, ids=lambda scenario: scenario.name)
def test_plugin_results_equal_the_expected_results(scenario: Scenario) -> None:
    try:
        result = list(QUESTIONS[scenario.file](scenario))
    except ConfigError as error:
        result = [f"the configuration is refused: {error}"]
    if scenario.name in DIFFERENCES:
        assert result, f"{scenario.name} agrees by now: take it out of the document of differences"
        pytest.xfail(f"differs on purpose: {DIFFERENCES[scenario.name]}")
    assert result == []


def test_every_scenario_is_covered_or_excluded_with_a_reason() -> None:
    names = Counter(scenario.name for scenario in ALL)
    left = {
        name for name, file in product(names, [*QUESTIONS, *ELSEWHERE]) if name.startswith(f"{file}:")
    } | UNASKED.keys()
    assert left == set(names)
    assert len(ASKED) + len(UNASKED) + sum(scenario.file in ELSEWHERE for scenario in ALL) == len(ALL)
