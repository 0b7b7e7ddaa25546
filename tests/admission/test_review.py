"""Validation at submission: all problems are reported together, with path and rule."""

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.admission.context import Context
from volcanopy.admission.review import mutate, review
from volcanopy.api.core import Queue
from volcanopy.api.model import quoted
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, plugin_problems

Json = dict[str, Any]
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}


def queue(name: str, *, parent: str = "root", state: str = "Open") -> Queue:
    """A queue that exists."""
    return msgspec.convert({"metadata": {"name": name}, "spec": {"parent": parent}, "status": {"state": state}}, Queue)


QUEUES = {
    item.metadata.name: item
    for item in (
        queue("root", parent=""),
        queue("default"),
        queue("closed", state="Closed"),
        queue("new", state=""),
        queue("science"),
        queue("physics", parent="science"),
    )
}
CONTEXT = Context(QUEUES, plugin_problems)


def task(name: str = "a", **fields: Any) -> Json:
    """A task."""
    return {"name": name, "replicas": 1, "template": TEMPLATE, **fields}


def job(*tasks: Json, name: str = "j", **spec: Any) -> Json:
    """A job as it is submitted."""
    return {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"tasks": list(tasks or (task(),)), **spec},
    }


def ask(
    manifest: Json,
    operation: str = "CREATE",
    group: str = "batch.volcanopy.io",
    context: Context = CONTEXT,
    user: str = "",
) -> Json:
    """The response to a request."""
    where = "oldObject" if operation == "DELETE" else "object"
    kind = {"group": group, "version": "v1", "kind": manifest.get("kind", "")}
    request = {"uid": "r1", "kind": kind, "operation": operation, where: manifest, "userInfo": {"username": user}}
    response: Json = review({"request": request}, context)["response"]
    assert response["uid"] == "r1"
    return response


def refusals(manifest: Json, operation: str = "CREATE", group: str = "batch.volcanopy.io") -> list[str]:
    """The problems of an object."""
    response = ask(manifest, operation, group)
    return response["status"]["message"].split("; ") if not response["allowed"] else []


def patched(manifest: Json) -> Json:
    """The spec of an object after the patch."""
    response = ask(manifest)
    spec = dict(manifest["spec"])
    for operation in json.loads(base64.b64decode(response.get("patch", "W10="))):
        spec[operation["path"].removeprefix("/spec/")] = operation["value"]
    return spec


def after(name: str, *others: str) -> Json:
    """A task that waits for others."""
    return task(name, dependsOn={"name": list(others)})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (job(), []),
        (job(queue="new"), []),
        (job(queue="physics"), []),
        (job(plugins={"svc": [], "ssh": ["--ssh-port=2022"]}), []),
        (job(after("a", "b"), task("b")), []),
        (job(queue="nope"), ['spec.queue: Not found: queue "nope": create it or choose another queue']),
        (job(queue="closed"), ['spec.queue: Invalid value: "closed": queue is Closed: submit to an open queue']),
        (job(queue="root"), ['spec.queue: Invalid value: "root": not a leaf queue: submit to a child queue']),
        (
            job(queue="science"),
            ['spec.queue: Invalid value: "science": not a leaf queue: submit to a child queue ("physics")'],
        ),
        (
            job(plugins={"nope": []}),
            [f'spec.plugins.nope: Not found: job plugin "nope": job plugins are {quoted(JOB_PLUGINS)}'],
        ),
        (
            job(plugins={"env": ["--x"]}),
            ["spec.plugins.env: '--x' is no argument for plugin env. env takes --first-index=0"],
        ),
        (
            job(after("a", "b"), after("b", "c"), after("c", "a")),
            ["spec.tasks: Invalid value: dependsOn has a cycle: a -> b -> c -> a"],
        ),
        (job(after("a", "a")), ["spec.tasks: Invalid value: dependsOn has a cycle: a -> a"]),
        (job(after("a", "z")), ['spec.tasks[0].dependsOn.name[0]: Not found: task "z": tasks of the job are "a"']),
        (job(task(), task()), ['spec.tasks[1].name: Duplicate value: "a"']),
        (
            job(task(replicas=2), minAvailable=5),
            [
                "spec.minAvailable: Invalid value: 5: must not be greater than the sum of task replicas (2): lower it or raise replicas"
            ],
        ),
        (
            job(task(replicas=2, minAvailable=3)),
            [
                "spec.tasks[0].minAvailable: Invalid value: 3: must not be greater than replicas (2): lower it or raise replicas",
            ],
        ),
        (
            job(name="1j", plugins={"svc": []}),
            [
                'metadata.name: Invalid value: "1j": must begin with a letter and contain no dots: plugin svc creates a Service of this name'
            ],
        ),
        (
            job(minAvailabl=1, queue="nope"),
            [
                "spec.minAvailabl: Unknown field: correct its name or remove it",
                'spec.queue: Not found: queue "nope": create it or choose another queue',
            ],
        ),
        (
            job(queue="nope", plugins={"nope": []}),
            [
                f'spec.plugins.nope: Not found: job plugin "nope": job plugins are {quoted(JOB_PLUGINS)}',
                'spec.queue: Not found: queue "nope": create it or choose another queue',
            ],
        ),
    ],
)
def test_jobs_are_validated(found: Json, expected: list[str]) -> None:
    assert refusals(found) == expected


@pytest.mark.parametrize("above", [{}, {"root": queue("root", parent="")}])
def test_a_job_may_precede_the_default_queue_which_the_scheduler_creates(above: dict[str, Queue]) -> None:
    assert ask(job(queue="default"), context=Context(above))["allowed"]


def test_before_the_default_queue_is_created_the_submitters_of_the_root_may_submit_to_it() -> None:
    root = msgspec.convert({"metadata": {"name": "root"}, "spec": {"submitters": {"users": ["ana"]}}}, Queue)
    response = ask(job(), context=Context({"root": root}), user="eve")
    assert 'submitters of its ancestor "root" are user "ana"' in response["status"]["message"]
    assert ask(job(), context=Context({"root": root}), user="ana")["allowed"]


def test_pod_names_must_fit_the_length_limit() -> None:
    [refusal] = refusals(job(task("t" * 30, replicas=101), name="j" * 30))
    assert "has 65 characters, must have at most 63" in refusal


def test_a_job_in_a_closed_queue_can_be_updated() -> None:
    assert refusals(job(queue="closed"), "UPDATE") == []


def test_without_synced_queues_no_queue_is_rejected() -> None:
    assert ask(job(queue="nope"), context=Context(None, plugin_problems))["allowed"]


def test_a_task_without_a_name_gets_a_default() -> None:
    spec = patched(job(task("", replicas=3), task("b", replicas=6)))
    assert [task["name"] for task in spec["tasks"]] == ["default0", "b"]


def test_no_other_fields_of_a_job_are_defaulted() -> None:
    """What was filled in would be wrong when the job is scaled, and a second apply would find a difference."""
    assert "patch" not in ask(job(task("x", replicas=3), queue="default"))
    assert "patch" not in ask(job(task("x", replicas=3, minAvailable=1), minAvailable=1, queue="default"))


def test_a_job_without_a_queue_gets_the_default_queue() -> None:
    assert patched(job())["queue"] == patched(job(queue=""))["queue"] == "default"


def test_the_mutating_webhook_patches_and_does_not_validate() -> None:
    kind = {"group": "batch.volcanopy.io", "kind": "BatchJob"}
    result = job(task("", replicas=3), queue="nope")
    response = mutate({"request": {"uid": "r1", "kind": kind, "operation": "CREATE", "object": result}})["response"]
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")


def make_queue(name: str = "q", **spec: Any) -> Json:
    """A queue as it is submitted."""
    return {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (make_queue(weight=2, parent="science"), []),
        (make_queue(parent="nope"), ['spec.parent: Not found: queue "nope": create it first']),
        (make_queue(parent="q"), ['spec.parent: Invalid value: "q": must not be the queue itself']),
        (
            make_queue("science", parent="physics"),
            ['spec.parent: Invalid value: "physics": must not create a cycle: science -> physics -> science'],
        ),
        (
            make_queue(capability={"cpu": "-1"}),
            ['spec.capability[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (make_queue(weight=0), ["spec.weight: Invalid value: 0: must be greater than or equal to 1"]),
    ],
)
def test_queues_are_validated(found: Json, expected: list[str]) -> None:
    assert refusals(found, group="scheduling.volcanopy.io") == expected


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("default", ['metadata.name: Forbidden: queue "default" is required by volcanopy and cannot be deleted']),
        ("science", ['metadata.name: Forbidden: queue "science" has child queues: delete "physics" first']),
        ("physics", []),
    ],
)
def test_queues_in_use_cannot_be_deleted(name: str, says: list[str]) -> None:
    assert refusals(make_queue(name), "DELETE", "scheduling.volcanopy.io") == says


def test_other_kinds_are_allowed() -> None:
    assert ask({"kind": "Pod"}, group="")["allowed"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=15,
)
FIELDS = ("tasks", "minAvailable", "queue", "plugins", "policies", "volumes", "maxRetry", "networkTopology")


@given(st.dictionaries(st.sampled_from(FIELDS), values), values, st.sampled_from(["CREATE", "UPDATE"]))
def test_malformed_objects_get_a_response(spec: Json, extra: Any, operation: str) -> None:
    result = job(task(extra=extra), **{key: value for key, value in spec.items() if key != "tasks"})
    if "tasks" in spec:
        result["spec"]["tasks"] = spec["tasks"]
    response = ask(result, operation)
    assert isinstance(response["allowed"], bool)
    assert response["allowed"] or response["status"]["message"]


@given(values)
def test_an_invalid_review_gets_a_response(request: Any) -> None:
    for answer in (review({"request": request}, CONTEXT), mutate({"request": request})):
        assert isinstance(answer["response"]["allowed"], bool)


@given(values, values, values)
def test_a_malformed_request_gets_a_response(kind: Any, operation: Any, found: Any) -> None:
    request = {"kind": {"group": "batch.volcanopy.io", "kind": kind}, "operation": operation, "object": found}
    assert isinstance(review({"request": request}, CONTEXT)["response"]["allowed"], bool)


@pytest.mark.parametrize(("operations", "removed"), [(["Update"], True), (["Update", "Apply"], False), ([], False)])
def test_a_new_job_has_no_managers_of_fields_unless_it_was_applied_by_the_server(
    operations: list[str], removed: bool
) -> None:
    manifest = job()
    manifest["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": each} for each in operations]
    removal = {"op": "remove", "path": "/metadata/managedFields"}
    for operation in ("CREATE", "UPDATE"):
        patch = json.loads(base64.b64decode(ask(manifest, operation).get("patch", "W10=")))
        assert (removal in patch) is (removed and operation == "CREATE")
