"""What users write is read exactly, and what is wrong with it is named with its path."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from volcanopy.api.batch import BatchJob
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.lifecycle import Command
from volcanopy.api.model import InvalidObjectError, format_duration, parse_duration, quoted
from volcanopy.api.scheduling import PodGroup, Queue
from volcanopy.api.times import format_time
from volcanopy.api.topology import HyperNode, NumaTopology

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}


def job(**spec: Any) -> dict[str, Any]:
    """A job with one task."""
    tasks = [{"name": "a", "replicas": 2, "template": TEMPLATE}]
    return {"metadata": {"name": "j"}, "spec": {"tasks": tasks, **spec}}


def problems(manifest: dict[str, Any]) -> list[str]:
    """What is wrong with a job that a person wrote."""
    with pytest.raises(InvalidObjectError) as caught:
        BatchJob.read(manifest, unknown="forbid")
    return [str(problem) for problem in caught.value.problems]


def test_a_job_has_the_defaults_of_the_specification() -> None:
    spec = BatchJob.read(job()).spec
    assert (spec.queue, spec.max_retry, spec.scheduler_name) == ("default", 3, "volcanopy")
    assert (spec.needed, spec.tasks[0].needed, spec.tasks[0].max_retry) == (2, 2, 3)


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({"replicas": 6}, 6),
        ({"replicas": 6, "minAvailable": 0}, 0),
        ({"replicas": 6, "minAvailable": 4}, 4),
        ({"replicas": 6, "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2}}, 6),
        ({"replicas": 6, "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}}, 4),
    ],
)
def test_min_available_of_a_task_is_derived(fields: dict[str, Any], needed: int) -> None:
    manifest = job(tasks=[{"name": "a", "template": TEMPLATE, **fields}])
    assert BatchJob.read(manifest).spec.tasks[0].needed == needed


def test_every_problem_is_named_with_its_path() -> None:
    manifest = job(minAvailble=1, maxRetry="3", policies=[{"event": "PodFaild", "action": "RestartJob"}])
    assert problems(manifest) == [
        'spec.policies[0].event: Unsupported value: "PodFaild": supported values: "*", "PodPending", "PodFailed",'
        ' "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"',
        'spec.maxRetry: Invalid value: "3": must be a valid integer',
        "spec.minAvailble: Unknown field: correct its name or remove it",
    ]


def test_unknown_fields_of_a_newer_server_are_ignored() -> None:
    assert BatchJob.read(job(somethingNew={"a": 1})).spec.queue == "default"


def test_a_pod_template_stays_as_it_was_written() -> None:
    written = BatchJob.read(job()).write()
    assert written["spec"]["tasks"][0]["template"] == TEMPLATE


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("500ms", 0.5), ("0", 0)]
)
def test_durations_use_the_format_of_go(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "-5s", "5 m", "5x", 5, None])
def test_an_invalid_duration_is_rejected(text: object) -> None:
    with pytest.raises(ValueError, match="must be a duration such as"):
        parse_duration(text)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10000)))
def test_a_duration_round_trips(value: timedelta) -> None:
    assert parse_duration(format_duration(value)) == value


def test_times_are_written_in_utc_and_whole_seconds() -> None:
    assert format_time(datetime(2026, 1, 2, 3, 4, 5, 999, tzinfo=UTC)) == "2026-01-02T03:04:05Z"


def test_a_queue_and_a_podgroup_and_a_command_are_read() -> None:
    queue = Queue.read({"metadata": {"name": "q"}, "spec": {"weight": 2, "capability": {"cpu": "4"}}})
    assert (queue.spec.weight, queue.spec.reclaimable, queue.spec.dequeue_strategy) == (2, True, "traverse")
    group = PodGroup.read(
        {"metadata": {"name": "g"}, "status": {"conditions": [{"type": "Scheduled", "status": "True"}]}}
    )
    assert group.spec.queue == "default"
    target = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "name": "j", "uid": "u"}
    assert Command.read({"metadata": {"name": "c"}, "action": "AbortJob", "target": target}).target.name == "j"


@pytest.mark.parametrize(
    "kind",
    [BatchJob, CronBatchJob, HyperNode, JobFlow, JobTemplate, NumaTopology, PodGroup, Queue],
    ids=lambda k: k.__name__,
)
def test_no_default_of_a_kind_is_an_object(kind: type[BaseModel]) -> None:
    """The validators of its model would be made where the module is imported, by every command."""
    assert not any(isinstance(field.default, BaseModel) for field in kind.model_fields.values())


def test_an_invalid_quantity_is_rejected() -> None:
    with pytest.raises(InvalidObjectError, match=r"spec.capability.cpu.*must be a quantity"):
        Queue.read({"metadata": {"name": "q"}, "spec": {"capability": {"cpu": "4 cores"}}})


def test_a_message_names_the_first_of_many() -> None:
    assert quoted(["a", "b"]) == '"a", "b"'
    assert quoted(map(str, range(1000))) == ", ".join(f'"{number}"' for number in range(16)) + " and 984 more"
