"""Single functions of plugins, asked on the worlds of another system, beside what it answered."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.conformance.differences import differences
from tests.conformance.worlds import FOLDER, Scenario, scenarios
from volcanopy.scheduler.cluster import NodesView
from volcanopy.scheduler.config import ConfigError
from volcanopy.scheduler.session import Session
from volcanopy.scheduler.views import TaskView

FILES = {"plugins-nodegroup-nodegroup", "plugins-overcommit-overcommit", "plugins-resourcequota-resourcequota"}
"""The files whose functions have a counterpart of the same meaning here."""
DIFFERENCES = differences()
ASKED = [
    scenario
    for scenario in scenarios("custom")
    if scenario.file in FILES and (scenario.expected.get("other") or {}).keys()
]

if not ASKED:
    pytest.skip(f"no conformance worlds in {FOLDER}", allow_module_level=True)


def disagreements(scenario: Scenario) -> Iterator[str]:
    """Where our answer is another, a line each."""
    try:
        session = Session(scenario.snapshot(), scenario.config())
    except ConfigError as error:
        yield f"the configuration is refused: {error}"
        return
    said = scenario.expected["other"]
    if "expectedEnqueueAble" in said:
        jobs = [job for job in session.jobs() if job.phase != "Inqueue"] or session.jobs()
        permitted = session.hooks.job_enqueueable(jobs[0]).value >= 0
        if permitted is not said["expectedEnqueueAble"]:
            yield f"enqueueable is {permitted} for {said['expectedEnqueueAble']}"
    for task, scores in said.get("expected", {}).items():
        yield from _of_nodes(session, task, scores, {})
    for task, codes in said.get("expectedStatus", {}).items():
        if isinstance(codes, dict):
            yield from _of_nodes(session, task, {}, codes)


def _of_nodes(session: Session, key: str, scores: dict[str, float], codes: dict[str, int]) -> Iterator[str]:
    task = TaskView(session.ledger, session.snapshot.task_rows[key])
    for name, score in scores.items():
        node = np.array([session.snapshot.nodes.index[name]])
        ours = float(session.hooks.node_order(task, NodesView(session.ledger, node))[0])
        if ours != score:
            yield f"{key} scores {ours} on {name} for {score}"
    for name, code in codes.items():
        refused = session.placement.refused(task, session.snapshot.nodes.index[name])
        if refused is (code == 0):
            yield f"{key} is {'refused' if refused else 'taken'} by {name} for code {code}"


@pytest.mark.parametrize("scenario", ASKED, ids=lambda scenario: scenario.name)
def test_a_plugin_answers_as_the_other_system_s(scenario: Scenario) -> None:
    found = list(disagreements(scenario))
    if scenario.name in DIFFERENCES:
        assert found, f"{scenario.name} agrees by now: take it out of the document of differences"
        pytest.xfail(f"differs on purpose: {DIFFERENCES[scenario.name]}")
    assert found == []
