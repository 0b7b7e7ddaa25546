"""An object that creates jobs is admitted only if its jobs can be."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import review
from volcanopy.api import names
from volcanopy.api.bindings import BINDINGS, VOLCANO, VOLCANOPY, Binding
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.volcano import bound
from volcanopy.jobcontroller.cron import reconcile_cron
from volcanopy.jobcontroller.plan import CreateJob
from volcanopy.jobcontroller.plugins.registry import plugin_problems

Json = dict[str, Any]
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}
CONTEXT = Context(check_plugins=plugin_problems, policy=AdmissionPolicy(scheduler_names=["volcanopy", "volcano"]))
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


def flow(binding: Binding, name: str, *steps: str) -> Json:
    return {
        "apiVersion": binding.api_version(names.FLOW_V1ALPHA1),
        "kind": "JobFlow",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"flows": [{"name": step} for step in steps]},
    }


def refusal(manifest: Json) -> str:
    """The message of the rejection of an object that is created; empty if it is admitted."""
    group = manifest["apiVersion"].rpartition("/")[0]
    asked = {
        "kind": {"group": group, "kind": manifest["kind"]},
        "operation": "CREATE",
        "namespace": "ns",
        "object": manifest,
    }
    response = review({"request": asked}, CONTEXT)["response"]
    return "" if response["allowed"] else str(response["status"]["message"])


def child_of_cron(manifest: Json) -> Json:
    """The first job that the cron controller creates."""
    model = bound(CronBatchJob, VOLCANO if manifest["kind"] == "CronJob" else VOLCANOPY)
    metadata = {**manifest["metadata"], "uid": "u", "creationTimestamp": START.isoformat()}
    plan = reconcile_cron(model.read({**manifest, "metadata": metadata}), {}, START + timedelta(days=2))
    return next(effect.manifest for effect in plan.effects if isinstance(effect, CreateJob))


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
    assert (refusal(manifest) == "") is (refusal(child_of_cron(manifest)) == "")
