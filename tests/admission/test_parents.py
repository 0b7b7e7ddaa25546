"""An object that creates jobs is admitted only if its jobs can be."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import review
from volcanopy.api import names
from volcanopy.api.bindings import BINDINGS, VOLCANO, VOLCANOPY, Binding
from volcanopy.api.core import Meta, Queue, QueueSpec
from volcanopy.api.core import Subjects as ReadSubjects
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.model import InvalidObjectError
from volcanopy.api.scheduling import Subjects
from volcanopy.api.translation import with_api_names
from volcanopy.jobcontroller.cron import reconcile_cron
from volcanopy.jobcontroller.flow_jobs import FlowObserved
from volcanopy.jobcontroller.flows import reconcile_flow
from volcanopy.jobcontroller.plan import CreateJob
from volcanopy.jobcontroller.plugins.registry import plugin_problems

Json = dict[str, Any]
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}
CONTROLLER = "system:serviceaccount:volcanopy:controller"
POLICY = AdmissionPolicy(
    scheduler_names=["volcanopy", "volcano"], controllers=[CONTROLLER], unpreemptable=Subjects(users=["ben"])
)
QUEUES = {
    "root": Queue(metadata=Meta(name="root")),
    "default": Queue(metadata=Meta(name="default")),
    "of-ben": Queue(metadata=Meta(name="of-ben"), spec=QueueSpec(submitters=ReadSubjects(users=("ben",)))),
}
CONTEXT = Context(queues=QUEUES, check_plugins=plugin_problems, policy=POLICY)
START = datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)


def job_spec(task: str = "a", **spec: Any) -> Json:
    return {"tasks": [{"name": task, "replicas": 1, "template": TEMPLATE}], **spec}


def job(binding: Binding, name: str, **spec: Any) -> Json:
    return {
        "apiVersion": binding.api_version(names.BATCH_V1ALPHA1),
        "kind": binding.kind("BatchJob"),
        "metadata": {"name": name, "namespace": "ns"},
        "spec": job_spec(**spec),
    }


def cron(binding: Binding, name: str, schedule: str = "* * * * *", **spec: Any) -> Json:
    return {
        "apiVersion": binding.api_version(names.BATCH_V1ALPHA1),
        "kind": binding.kind("CronBatchJob"),
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": job_spec(**spec)}},
    }


def flow(binding: Binding, name: str, *steps: str | Json) -> Json:
    return {
        "apiVersion": binding.api_version(names.FLOW_V1ALPHA1),
        "kind": "JobFlow",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"flows": [{"name": step} if isinstance(step, str) else step for step in steps]},
    }


def template(binding: Binding, name: str, annotations: Json | None = None, **spec: Any) -> JobTemplate:
    """A JobTemplate that exists."""
    metadata = {"name": name, "namespace": "ns", "annotations": annotations or {}}
    version = binding.api_version(names.FLOW_V1ALPHA1)
    manifest = {"apiVersion": version, "kind": "JobTemplate", "metadata": metadata, "spec": spec}
    return JobTemplate.bound(binding).read(manifest)


def response(manifest: Json, templates: Iterable[JobTemplate] | None = None, user: str = "ana") -> Json:
    """The response to the creation of an object."""
    group = manifest["apiVersion"].rpartition("/")[0]
    asked = {
        "kind": {"group": group, "kind": manifest["kind"]},
        "operation": "CREATE",
        "namespace": "ns",
        "object": manifest,
        "userInfo": {"username": user, "groups": []},
    }
    known = None if templates is None else {item.metadata.name: item for item in templates}
    answer: Json = review({"request": asked}, replace(CONTEXT, job_templates=known))["response"]
    return answer


def refusal(manifest: Json, *templates: JobTemplate, user: str = "ana") -> str:
    """The message of the rejection of an object that is created; empty if it is admitted."""
    answer = response(manifest, templates, user)
    return "" if answer["allowed"] else str(answer["status"]["message"])


def submitted(manifest: Json, user: str = "ana") -> Json:
    """An object as it is stored, with its submitter."""
    recorded = {names.SUBMITTED_BY: user, names.SUBMITTER_GROUPS: "[]"}
    metadata = {**manifest["metadata"], "uid": "u", "creationTimestamp": START.isoformat(), "annotations": recorded}
    return {**manifest, "metadata": metadata}


def child_of_cron(manifest: Json) -> Json:
    """The first job that the cron controller creates."""
    binding = VOLCANO if manifest["kind"] == "CronJob" else VOLCANOPY
    plan = reconcile_cron(CronBatchJob.bound(binding).read(submitted(manifest)), {}, START + timedelta(days=2))
    created = next(effect.manifest for effect in plan.effects if isinstance(effect, CreateJob))
    return with_api_names(created, binding)


def children_of_flow(binding: Binding, manifest: Json, *templates: JobTemplate) -> list[Json]:
    """The jobs that the flow controller creates at first, without those that it cannot make."""
    observed = FlowObserved(templates={item.metadata.name: item for item in templates})
    plan = reconcile_flow(JobFlow.bound(binding).read(submitted(manifest)), observed, START)
    return [with_api_names(effect.manifest, binding) for effect in plan.effects if isinstance(effect, CreateJob)]


@pytest.mark.parametrize("manifest", [cron(VOLCANOPY, "c.1"), flow(VOLCANOPY, "f.1", "t"), job(VOLCANOPY, "j.1")])
def test_a_name_that_jobs_may_not_have_is_rejected_in_what_creates_them(manifest: Json) -> None:
    assert refusal(manifest).startswith("metadata.name: Invalid value: ")


@pytest.mark.parametrize("manifest", [cron(VOLCANO, "c.1"), flow(VOLCANO, "f.1", "t"), job(VOLCANO, "j.1")])
def test_jobs_of_volcano_and_what_creates_them_have_names_with_dots(manifest: Json) -> None:
    assert refusal(manifest) == ""


@pytest.mark.parametrize("plugin", ["svc", "pytorch", "mpi", "tensorflow"])
def test_a_name_with_dots_is_rejected_with_a_plugin_that_gives_host_names(plugin: str) -> None:
    for manifest in (
        job(VOLCANO, "j.1", task="master", plugins={plugin: []}),
        cron(VOLCANO, "c.1", task="master", plugins={plugin: []}),
    ):
        assert "contain no dots: plugin svc creates a Service of this name" in refusal(manifest)


@given(
    binding=st.sampled_from(BINDINGS),
    name=st.from_regex(r"[a-z0-9]([-.a-z0-9]{0,50}[a-z0-9])?", fullmatch=True),
    task=st.integers(1, 20).map("t".__mul__),
    schedule=st.sampled_from(["@every 90s", "@every 5m", "* * * * *", "@hourly"]),
    plugins=st.sampled_from([{}, {"svc": []}, {"ssh": []}]),
)
def test_a_cron_job_is_admitted_just_if_its_jobs_are(
    binding: Binding, name: str, task: str, schedule: str, plugins: Json
) -> None:
    manifest = cron(binding, name, schedule, task=task, plugins=plugins)
    assert (refusal(manifest) == "") is (refusal(child_of_cron(manifest), user=CONTROLLER) == "")


PROTECTED = {"metadata": {"annotations": {names.PREEMPTABLE: "false"}}, **TEMPLATE}
TASKS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", "c"]), "replicas": st.integers(1, 3)},
        optional={
            "minAvailable": st.integers(1, 3),
            "dependsOn": st.sampled_from([{"name": ["a"]}, {"name": ["z"]}]),
            "topologyPolicy": st.just("restricted"),
        },
    ).flatmap(lambda fields: st.sampled_from([TEMPLATE, PROTECTED]).map(lambda pod: {**fields, "template": pod})),
    min_size=1,
    max_size=3,
)
SPECS = st.fixed_dictionaries(
    {"tasks": TASKS},
    optional={
        "minAvailable": st.integers(1, 4),
        "queue": st.sampled_from(["default", "of-ben"]),
        "plugins": st.sampled_from(
            [{"svc": []}, {"ssh": ["--ssh-private-key=x"]}, {"pytorch": ["--master=none"]}, {"none": []}]
        ),
    },
)
PATCHES = st.fixed_dictionaries(
    {},
    optional={
        "minAvailable": st.one_of(st.none(), st.integers(1, 4)),
        "queue": st.sampled_from(["default", "of-ben"]),
        "tasks": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["a", "b", "d"])},
                optional={
                    "replicas": st.integers(0, 3),
                    "minAvailable": st.integers(1, 3),
                    "template": st.just(PROTECTED),
                },
            ),
            max_size=2,
        ),
        "plugins": st.sampled_from([{"svc": None}, {"none": []}]),
    },
)


@given(st.sampled_from(BINDINGS), SPECS)
def test_a_cron_job_of_any_content_is_admitted_just_if_its_jobs_are(binding: Binding, spec: Json) -> None:
    manifest = cron(binding, "c") | {"spec": {"schedule": "@hourly", "jobTemplate": {"spec": spec}}}
    try:
        CronBatchJob.bound(binding).read(manifest)
    except InvalidObjectError:
        assert refusal(manifest)
        return
    assert (refusal(manifest) == "") is (refusal(child_of_cron(manifest), user=CONTROLLER) == "")


@given(st.sampled_from(BINDINGS), SPECS, PATCHES, st.sampled_from(["ana", "ben"]))
def test_a_flow_is_admitted_just_if_its_jobs_are(binding: Binding, spec: Json, patch: Json, author: str) -> None:
    annotations = {names.SUBMITTED_BY: author, names.SUBMITTER_GROUPS: "[]"}
    source = template(binding, "t", annotations, **spec)
    manifest = flow(binding, "f", {"name": "s", "template": "t", "patch": {"jobSpec": patch}})
    children = children_of_flow(binding, manifest, source)
    is_possible = bool(children) and not any(refusal(child, user=CONTROLLER) for child in children)
    assert (refusal(manifest, source) == "") is is_possible


def test_a_problem_of_a_job_of_a_flow_is_named_by_the_field_of_the_flow_that_makes_it() -> None:
    tasks = [{"name": name, "replicas": 1, "template": TEMPLATE} for name in ("a", "b")]
    source, invalid = template(VOLCANOPY, "t", tasks=tasks), template(VOLCANOPY, "u", tasks=tasks, minAvailable=5)
    change = {"tasks": [{"name": "b", "minAvailable": 4}], "queue": "of-ben", "minAvailable": 3}
    assert refusal(flow(VOLCANOPY, "f", {"name": "s", "template": "t", "patch": {"jobSpec": change}}), source) == (
        "spec.flows[0].patch.jobSpec.minAvailable: Invalid value: 3: must not be greater than the sum of task replicas (2):"
        " lower it or raise replicas; "
        "spec.flows[0].patch.jobSpec.tasks[0].minAvailable: Invalid value: 4: must not be greater than replicas (1):"
        " lower it or raise replicas; "
        'spec.flows[0].patch.jobSpec.queue: Forbidden: user "ana" may not submit to queue "of-ben"'
        ' from namespace "ns": submitters are user "ben"'
    )
    assert refusal(flow(VOLCANOPY, "f", "t", "u"), source, invalid) == (
        'spec.flows[1].template: JobTemplate "u": spec.minAvailable: Invalid value: 5: must not be greater than the sum of'
        " task replicas (2): lower it or raise replicas"
    )


def test_a_template_of_a_flow_may_be_created_later() -> None:
    manifest = flow(VOLCANOPY, "f", "a", {"name": "b", "template": "a"}, "c")
    answer = response(manifest, [template(VOLCANOPY, "c", **job_spec())])
    assert answer["allowed"]
    assert answer["warnings"] == [
        'spec.flows[0].template: Not found: JobTemplate "a": its jobs are checked and created when it exists'
    ]
    assert "warnings" not in response(manifest, None)


def test_values_of_annotations_in_a_patch_of_a_flow_are_checked() -> None:
    pod = {"metadata": {"annotations": {names.SLA_WAITING_TIME: "abc"}}}
    patch = {"jobSpec": {"tasks": [{"name": "a", "template": pod}]}}
    for templates in ((), (template(VOLCANOPY, "s", **job_spec()),)):
        assert refusal(flow(VOLCANOPY, "f", {"name": "s", "patch": patch}), *templates) == (
            f"spec.flows[0].patch.jobSpec.tasks[0].template.metadata.annotations[{names.SLA_WAITING_TIME}]:"
            ' Invalid value: "abc": must be a duration such as 90s, 10m or 1h30m'
        )


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize(("base", "allowed"), [("gang-", True), ("3-gangs-", False)])
def test_a_job_with_a_generated_name_is_reviewed_as_with_that_name(binding: Binding, base: str, allowed: bool) -> None:
    manifest = job(binding, "", plugins={"svc": [], "ssh": []})
    manifest["metadata"] = {"generateName": base, "namespace": "ns"}
    message = refusal(manifest)
    assert (message == "") is allowed
    assert allowed or f'"{base}00000": must begin with a letter' in message
