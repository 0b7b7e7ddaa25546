"""How many calls a review of a small job makes, which do not depend on the machine."""

from dataclasses import replace
from typing import Any

from tests.admission.golden_cases import world
from tests.call_counts import calls
from volcanopy.admission.pod_dry_run import dry_runs
from volcanopy.admission.request import Request
from volcanopy.admission.review import mutated, verdict
from volcanopy.installed.job_plugins import job_registry
from volcanopy.services.admission.pod_dry_run import pod_maker

Json = dict[str, Any]
CONTEXT = replace(
    world({"queues": [{"name": "default"}], "nodes": [{"cpu": "32", "memory": "256Gi", "pods": 110}]}),
    make_pod=pod_maker(job_registry()),
)
CONTAINER = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
TASK = {"name": "task", "replicas": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}
REVIEW = {
    "request": {
        "uid": "1",
        "kind": {"group": "batch.volcanopy.io", "version": "v1alpha1", "kind": "BatchJob"},
        "operation": "CREATE",
        "namespace": "team",
        "userInfo": {"username": "ana", "groups": ["system:authenticated"]},
        "object": {"metadata": {"name": "job"}, "spec": {"minAvailable": 1, "queue": "default", "tasks": [TASK]}},
    }
}


def reviewed() -> Json:
    """The response of the combined webhook, with the pods that the API server would be asked about."""
    request = Request.of(REVIEW)
    assert request is not None
    changed, _ = mutated(request, CONTEXT)
    assert len(dry_runs(changed, CONTEXT)) == 1
    return verdict(changed, CONTEXT)


def test_a_review_of_a_small_job_makes_few_calls() -> None:
    assert reviewed()["response"]["allowed"]  # what is made once is there now
    assert calls(reviewed) < 1_700
