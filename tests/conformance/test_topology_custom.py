"""Conformance of topology scores: scenarios of another system with its scores."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.conformance.differences import differences
from tests.conformance.worlds import Scenario, scenarios
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.task_status import Status

DIFFERENCES = differences()
ASKED = [
    scenario
    for scenario in scenarios("custom")
    if scenario.file == "plugins-network-topology-aware-network_topology_aware"
]

if not ASKED:
    pytest.skip("needs VOLCANOPY_CONFORMANCE, a folder with recorded sessions of Volcano", allow_module_level=True)


def disagreements(scenario: Scenario) -> Iterator[str]:
    """Return the differences of scores, one line each; the expected scores are truncated to one digit."""
    session = Session(scenario.snapshot(), scenario.config())
    said = scenario.expected["other"]
    pending = np.flatnonzero(session.snapshot.tasks.status == Status.PENDING).tolist()
    assert len(pending) == 1
    names = session.snapshot.nodes.index
    for name, score in (said.get("expected") or said.get("expectedScores") or dict.fromkeys(names, 0.0)).items():
        node = np.array([names[name]])
        tasks = TasksView([TaskView(session.ledger, pending[0])])
        ours = float(session.hooks.score(tasks, NodesView(session.ledger, node))[0, 0])
        if abs(ours - score) > 0.1:
            yield f"{name} scores {ours} for {score}"


@pytest.mark.parametrize("scenario", ASKED, ids=lambda scenario: scenario.name)
def test_node_scores_equal_the_expected_scores(scenario: Scenario) -> None:
    result = list(disagreements(scenario))
    if scenario.name in DIFFERENCES:
        assert result, f"{scenario.name} agrees by now: take it out of the document of differences"
        pytest.xfail(f"differs on purpose: {DIFFERENCES[scenario.name]}")
    assert result == []
