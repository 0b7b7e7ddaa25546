"""Bindings decide the names of an API: groups, kinds, labels and annotations."""

import pytest

from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.bindings import BINDINGS, VOLCANO, VOLCANOPY, binding_of, with_own_keys

JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "a"},
    "spec": {"tasks": [{"name": "t", "template": {"spec": {"containers": []}}}]},
}


def test_the_names_of_volcano() -> None:
    assert VOLCANO.api_version(names.BATCH_V1ALPHA1) == "batch.volcano.sh/v1alpha1"
    assert VOLCANO.group(names.SCHEDULING) == "scheduling.volcano.sh"
    assert VOLCANO.group("apps") == "apps"
    assert VOLCANO.group("") == ""
    assert [VOLCANO.kind(kind) for kind in ("BatchJob", "CronBatchJob", "Queue")] == ["Job", "CronJob", "Queue"]
    assert [VOLCANO.plural(plural) for plural in ("batchjobs", "cronbatchjobs", "numatopologies")] == [
        "jobs",
        "cronjobs",
        "numatopologies",
    ]
    assert VOLCANO.key(names.TASK_SPEC) == "volcano.sh/task-spec"
    assert VOLCANO.key(names.POD_QUEUE_NAME) == "scheduling.volcano.sh/queue-name"


def test_keys_that_volcano_lacks_keep_their_names() -> None:
    assert VOLCANO.key(names.SUBMITTED_BY) == names.SUBMITTED_BY
    assert VOLCANO.key(names.GROUP_NAME) == "scheduling.k8s.io/group-name"


def test_volcanopy_keeps_every_name() -> None:
    assert VOLCANOPY.api_version(names.BATCH_V1ALPHA1) == names.BATCH_V1ALPHA1
    assert VOLCANOPY.key(names.TASK_SPEC) == names.TASK_SPEC
    assert not VOLCANOPY.aliases


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
def test_a_binding_is_known_by_its_groups(binding: object) -> None:
    assert isinstance(binding, type(VOLCANO))
    assert binding_of(binding.api_version(names.SCHEDULING_V1BETA1)) is binding


def test_keys_of_volcano_are_read_as_ours() -> None:
    labels = {"volcano.sh/task-spec": "worker", "app": "x"}
    assert with_own_keys(labels, BINDINGS) == {**labels, names.TASK_SPEC: "worker"}


def test_a_value_under_our_key_is_kept() -> None:
    labels = {"volcano.sh/preemptable": "true", names.PREEMPTABLE: "false"}
    assert with_own_keys(labels, BINDINGS)[names.PREEMPTABLE] == "false"


def test_labels_without_keys_of_volcano_are_returned_unchanged() -> None:
    labels = {names.TASK_SPEC: "worker"}
    assert with_own_keys(labels, BINDINGS) is labels


def test_volcano_cannot_give_the_submitter() -> None:
    """Who submitted an object is written by admission only: a key of another domain must not be read as it."""
    assert names.SUBMITTED_BY not in with_own_keys({"volcano.sh/submitted-by": "root"}, BINDINGS)


def test_a_bound_model_has_the_names_of_its_api() -> None:
    job = BatchJob.bound(VOLCANO).read(JOB, unknown="forbid")
    assert (job.binding, job.api_version, job.kind) == (VOLCANO, "batch.volcano.sh/v1alpha1", "Job")
    assert job.spec.scheduler_name == "volcano"
    assert BatchJob.bound(VOLCANOPY) is BatchJob
    assert BatchJob.read(JOB, unknown="forbid") == job


def test_conditions_of_a_job_have_the_form_of_volcano() -> None:
    times = [f"2026-01-01T00:00:0{second}Z" for second in range(3)]
    history = [
        {"status": phase, "lastTransitionTime": time}
        for phase, time in zip(("Pending", "Running", "Restarting"), times, strict=True)
    ]
    status = BatchJob.bound(VOLCANO).read(JOB | {"status": {"conditions": history}}).status
    assert [(condition.type, condition.status) for condition in status.conditions] == [
        ("Pending", "False"),
        ("Running", "False"),
        ("Restarting", "True"),
    ]
    assert status.write()["conditions"] == history
