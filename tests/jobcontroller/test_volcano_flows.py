"""Flows of Volcano's API: they may be empty, and contain a name twice."""

from datetime import UTC, datetime
from typing import Any

from volcanopy.api.bindings import VOLCANO
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.jobcontroller.flow_jobs import FlowObserved
from volcanopy.jobcontroller.flows import reconcile_flow
from volcanopy.jobcontroller.plan import CreateJob, UpdateStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def planned(*jobs: Any) -> tuple[list[str], dict[str, Any]]:
    """The names of the jobs that are created, and the status that is written."""
    metadata = {"name": "f", "namespace": "default", "uid": "u"}
    body = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": metadata}
    flow = JobFlow.bound(VOLCANO).read(body | {"spec": {"flows": list(jobs)}})
    spec = {"tasks": [{"name": "t", "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]}
    templates = {
        name: JobTemplate.bound(VOLCANO).read(
            {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": {"name": name}, "spec": spec}
        )
        for name in ("a", "b")
    }
    plan = reconcile_flow(flow, FlowObserved(templates=templates, jobs={}, pods={}, answers={}, trouble=""), NOW)
    [status] = [effect.status for effect in plan.effects if isinstance(effect, UpdateStatus)]
    created = [effect.manifest["metadata"]["name"] for effect in plan.effects if isinstance(effect, CreateJob)]
    return created, status


def test_an_empty_flow_has_succeeded() -> None:
    created, status = planned()
    assert (created, status["state"]["phase"]) == ([], "Succeed")


def test_the_first_entry_of_a_name_counts() -> None:
    waiting = {"name": "a", "dependsOn": {"targets": ["b"]}}
    assert planned({"name": "a"}, {"name": "b"}, waiting)[0] == ["f-a", "f-b"]
    assert planned(waiting, {"name": "b"}, {"name": "a"})[0] == ["f-b"]
