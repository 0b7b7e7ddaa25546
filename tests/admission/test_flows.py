"""Flows, templates and cron jobs are judged before they are stored: every problem at once, each with its path."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.admission.test_review import CONTEXT, after, ask, refusals, task, values
from volcanopy.api.flow import JobTemplate
from volcanopy.api.model import Json


def flow(*flows: Json, name: str = "f", **spec: Any) -> Json:
    """A flow."""
    return {
        "apiVersion": "flow.volcanopy.io/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"flows": list(flows), **spec},
    }


def step(name: str, *targets: str, **fields: Any) -> Json:
    """A job of a flow."""
    return {"name": name, **({"dependsOn": {"targets": list(targets)}} if targets else {}), **fields}


def cron(schedule: str = "@daily", name: str = "c", job: Json | None = None, **spec: Any) -> Json:
    """A cron job."""
    return {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "CronBatchJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": job or {"tasks": [task()]}}, **spec},
    }


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (flow(step("a"), step("b", "a")), []),
        (flow(step("a", "x")), ['spec.flows[0].dependsOn.targets[0]: Not found: job "x": jobs of the flow are "a"']),
        (flow(step("a", "b"), step("b", "a")), ["spec.flows: Invalid value: dependsOn has a cycle: a -> b -> a"]),
        (flow(step("a"), step("a")), ['spec.flows[1].name: Duplicate value: "a"']),
        (
            flow(step("a", patch={"jobSpec": {"quee": "x"}})),
            ["spec.flows[0].patch.jobSpec.quee: Unknown field: correct its name or remove it"],
        ),
        (flow(step("a", retries=3)), ["spec.flows[0].retries: Unknown field: correct its name or remove it"]),
        (
            flow(step("a"), jobRetainPolicy="keep"),
            ['spec.jobRetainPolicy: Unsupported value: "keep": supported values: "retain", "delete"'],
        ),
    ],
)
def test_flows_are_validated(found: Json, expected: list[str]) -> None:
    assert refusals(found, group="flow.volcanopy.io") == expected


def test_the_name_of_a_flow_is_limited_by_its_job_names() -> None:
    (refusal,) = refusals(flow(step("a" * 20), name="f" * 40), group="flow.volcanopy.io")
    assert "has 61 characters, must have at most 60" in refusal


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (cron("*/5 * * * *", timeZone="Asia/Tokyo"), []),
        (
            cron("5 5 5 5"),
            [
                'spec.schedule: Invalid value: "5 5 5 5": must have five fields: minute, hour, day of month, month, day of week'
            ],
        ),
        (
            cron("TZ=UTC 0 0 * * *"),
            ['spec.schedule: Invalid value: "TZ=UTC 0 0 * * *": must not contain a time zone: use timeZone'],
        ),
        (
            cron(timeZone="Moon/Base"),
            [
                'spec.timeZone: Invalid value: "Moon/Base": must be the name of a time zone, such as Europe/Berlin or UTC'
            ],
        ),
        (
            cron(job={"tasks": [after("a", "b"), after("b", "a")]}),
            ["spec.jobTemplate.spec.tasks: Invalid value: dependsOn has a cycle: a -> b -> a"],
        ),
        (
            cron(name="c" * 53),
            [
                'metadata.name: Too long: "ccccccccccccccccccccccccccccccccccccccccccccccccccccc" has 53 characters, must have at most 52'
            ],
        ),
    ],
)
def test_cron_jobs_are_validated(found: Json, expected: list[str]) -> None:
    assert [
        refusal for refusal in refusals(found) if "Too long" not in refusal or "metadata.name" in refusal
    ] == expected


def test_a_template_is_validated_like_a_job() -> None:
    manifest = {
        "apiVersion": "flow.volcanopy.io/v1alpha1",
        "kind": "JobTemplate",
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"tasks": [task("a"), task("a")]},
    }
    assert refusals(manifest, group="flow.volcanopy.io") == ['spec.tasks[1].name: Duplicate value: "a"']


@given(values, values, values)
def test_malformed_objects_get_a_response(flows: Any, schedule: Any, job: Any) -> None:
    for result, group in (
        (flow() | {"spec": {"flows": flows}}, "flow.volcanopy.io"),
        (cron() | {"spec": {"schedule": schedule, "jobTemplate": job}}, "batch.volcanopy.io"),
        ({**flow(), "kind": "JobTemplate", "spec": job}, "flow.volcanopy.io"),
    ):
        assert isinstance(ask(result, group=group)["allowed"], bool)


@given(st.dictionaries(st.sampled_from(["tasks", "queue", "plugins", "minAvailable", "policies", "volumes"]), values))
def test_malformed_patches_of_templates_get_a_response(patch: Json) -> None:
    spec = {"tasks": [task(dependsOn={"name": []})], "policies": [{"event": "PodFailed", "action": "AbortJob"}]}
    manifest = {
        "apiVersion": "flow.volcanopy.io/v1alpha1",
        "kind": "JobTemplate",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    context = replace(CONTEXT, job_templates={"a": JobTemplate.read(manifest)})
    result = ask(flow(step("a", patch={"jobSpec": patch})), group="flow.volcanopy.io", context=context)
    assert isinstance(result["allowed"], bool)
