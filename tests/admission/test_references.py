"""A job that could never run is rejected: names that no object can have, queues that never accept jobs."""

import msgspec
import pytest

from tests.admission.test_entry import group, job
from tests.admission.test_powers import QUEUES, answer
from tests.admission.test_queue_bypasses import Json, cron, template
from volcanopy.admission.context import Context
from volcanopy.admission.review import validate
from volcanopy.api.core import Queue

SENTENCE = "names of objects consist of lower case letters, digits, '-' and '.'"


@pytest.mark.parametrize("name", ["A B", "A_b", "-a", "a..b", "a-"])
def test_a_name_that_no_object_can_have_is_rejected(name: str) -> None:
    volume = {"mountPath": "/x", "volumeClaimName": name}
    assert f'spec.priorityClassName: Invalid value: "{name}": {SENTENCE}' in answer(
        None, job("free", "1", priorityClassName=name)
    )
    assert f'spec.volumes[0].volumeClaimName: Invalid value: "{name}": {SENTENCE}' in answer(
        None, job("free", "1", volumes=[volume])
    )
    made = group("free", "1")
    made["spec"]["priorityClassName"] = name
    assert SENTENCE in answer(None, made)
    assert SENTENCE not in answer(made, made), "an object that exists stays writable"


def test_a_minimum_of_a_task_below_zero_is_rejected() -> None:
    made = group("free", "1")
    made["spec"]["minTaskMember"] = {"a": -1}
    assert "spec.minTaskMember[a]: Invalid value: -1: must be greater than or equal to 0" in answer(None, made)


def _of(kind: str, queue: str) -> Json:
    made = cron("eve", "x") if kind == "CronBatchJob" else template("eve", "x")
    spec = made["spec"]["jobTemplate"]["spec"] if kind == "CronBatchJob" else made["spec"]
    spec["queue"] = queue
    return made


@pytest.mark.parametrize("kind", ["CronBatchJob", "JobTemplate", "JobFlow"])
def test_jobs_that_are_created_later_are_rejected_for_the_root_queue_and_warned_about_for_a_parent(kind: str) -> None:
    """A queue may lose its child queues until then."""
    below = {"metadata": {"name": "child"}, "spec": {"parent": "parent"}}
    queues = {
        **QUEUES,
        "parent": msgspec.convert({"metadata": {"name": "parent"}}, Queue),
        "child": msgspec.convert(below, Queue),
    }
    for queue in ("root", "parent"):
        if kind == "JobFlow":
            step = {"name": "a", "patch": {"jobSpec": {"queue": queue}}}
            api = {"apiVersion": "flow.volcanopy.io/v1alpha1", "kind": kind}
            made: Json = {**api, "metadata": {"name": "f", "namespace": "team"}, "spec": {"flows": [step]}}
        else:
            made = _of(kind, queue)
        review = {
            "uid": "1",
            "operation": "CREATE",
            "kind": {"group": made["apiVersion"].partition("/")[0], "version": "v1", "kind": kind},
            "namespace": "team",
            "name": made["metadata"]["name"],
            "userInfo": {"username": "eve", "groups": ["system:authenticated"]},
            "object": made,
        }
        response = validate({"request": review}, Context(queues=queues))["response"]
        texts = str(response.get("status", {}).get("message", "") if queue == "root" else response.get("warnings", ""))
        assert "not a leaf queue: submit to a child queue" in texts
