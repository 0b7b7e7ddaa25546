"""Conformance of sessions: scenarios of another system with its decisions."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.differences import differences
from tests.conformance.worlds import Scenario, scenarios
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.report.close import close

SESSIONS = scenarios("session")
DIFFERENCES = differences()

if not SESSIONS:
    pytest.skip("needs VOLCANOPY_CONFORMANCE, a folder with recorded sessions of Volcano", allow_module_level=True)


def decide(scenario: Scenario) -> tuple[Session, Plan]:
    """Run the scenario's actions in one session."""
    config = scenario.config()
    session = Session(scenario.snapshot(), config)
    for name in config.actions:
        action = builtin().actions[name]
        action(session, config.action_arguments.get(name) or action.arguments())
    return session, Plan(tuple(close(session)))


def disagreements(scenario: Scenario) -> Iterator[str]:
    """Return the differences between our decisions and the expected ones, one line each."""
    session, plan = decide(scenario)
    said = scenario.expected
    # Nobody makes or binds volumes in these worlds: a bind that first waits for some never came to the server there.
    binds = {effect.pod: effect.node for effect in plan.of(Bind) if effect.claims is None or not effect.claims.volumes}
    if said.get("minimalBindCheck") or "binds" not in said:
        if len(binds) != said["bindCount"]:
            yield f"{len(binds)} binds for {said['bindCount']}: {binds}"
    elif binds != said["binds"]:
        yield f"binds {binds} for {said['binds']}"
    evictions = sorted(effect.pod for effect in plan.of(Evict))
    if "evictions" in said and evictions != sorted(said["evictions"]):
        yield f"evictions {evictions} for {sorted(said['evictions'])}"
    nominated = {(effect.group, effect.node) for effect in plan.of(Nominate)}
    for group, nodes in said.get("pipelined", {}).items():
        places = {node for job, node in nominated if job == group}
        if not places or not places <= set(nodes):
            yield f"{group} is to get {sorted(places)} for {nodes}"
    yield from _of_groups(session, plan, said)


def _of_groups(session: Session, plan: Plan, said: Any) -> Iterator[str]:
    jobs = session.snapshot.jobs
    rows = {str(key): row for row, key in enumerate(jobs.keys) if key is not None}
    set_to = {effect.pod_group: effect.phase for effect in plan.of(SetPodGroup)}
    for group, phase in said.get("podGroupPhases", {}).items():
        ours = set_to.get(group, str(session.ledger.phase[rows[group]]))
        if ours != phase:
            yield f"{group} is {ours} for {phase}"
    for group, counts in said.get("taskStatus", {}).items():
        for status, count in counts.items():
            ours_count = session.ledger.job_counts[Status[status.upper()], rows[group]]
            if ours_count != count:
                yield f"{ours_count} tasks of {group} are {status} for {count}"


@pytest.mark.parametrize("scenario", SESSIONS, ids=lambda scenario: scenario.name)
def test_session_decisions_equal_the_expected_decisions(scenario: Scenario) -> None:
    result = list(disagreements(scenario))
    if scenario.name in DIFFERENCES:
        assert result, f"{scenario.name} agrees by now: take it out of the document of differences"
        pytest.xfail(f"differs on purpose: {DIFFERENCES[scenario.name]}")
    assert result == []


def test_every_documented_difference_is_a_scenario() -> None:
    assert set(DIFFERENCES) <= {scenario.name for scenario in (*SESSIONS, *scenarios("custom"))}


def test_few_sessions_differ_from_the_expected_decisions() -> None:
    differing = [scenario.name for scenario in SESSIONS if scenario.name in DIFFERENCES]
    assert len(differing) <= len(SESSIONS) / 20
