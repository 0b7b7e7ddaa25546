"""Logs of the services, secrets that must not be logged, and metrics of controllers and admission."""

import base64
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import structlog

from tests.cli.captured_logs import CapturedLogs, logged
from tests.kube import cluster as kube
from tests.kube.applier_setup import applier_rig, bind
from tests.kube.flaky_client import refused
from tests.services.service_cluster import Cluster, controller, task
from tests.services.test_admission import admission
from tests.services.test_scheduler import placed, scheduling
from tests.services.test_scheduler_metrics import served
from volcanopy.kube.client.errors import ApiError
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.scheduler.model.plan import SetPodGroup
from volcanopy.services.admission.review_metrics import measured
from volcanopy.services.scheduler.writers.status_writer import Timing

SECRETS: Kind[Json] = Kind("", "v1", "Secret", "secrets", True, dict)
PASSWORD = "correct-horse-battery-staple"


def of(seen: CapturedLogs, logger: str) -> list[dict[str, Any]]:
    """The lines of one logger and those below it."""
    return [line for line in seen.lines if line["logger"].startswith(logger)]


# The scheduler


@pytest.fixture
async def world() -> AsyncIterator[kube.Cluster]:
    async with kube.running_cluster() as running:
        yield running


async def test_log_records_of_a_cycle_have_its_session_id(world: kube.Cluster) -> None:
    await world.node("n1")
    with logged(verbose=True) as seen:
        async with scheduling(world):
            await world.gang("a", 2, phase="")
            await world.until(lambda: placed(world, 2))
    lines = of(seen, "volcanopy.services.scheduler.scheduler_service")
    cycles = [line for line in lines if line["event"] == "cycle"]
    decisions = [line for line in lines if line["event"] == "decision"]
    assert cycles
    assert all(re.fullmatch(r"[0-9a-f]{8}-\d+", line["session"]) for line in [*cycles, *decisions])
    assert {"bind a-0 -> n1", "bind a-1 -> n1"} <= {line["effect"] for line in decisions}
    binding = next(line["session"] for line in decisions if line["effect"] == "bind a-0 -> n1")
    assert binding in {line["session"] for line in cycles if line.get("binds")}


async def test_delayed_writes_of_a_cycle_log_its_session_id(world: kube.Cluster) -> None:
    """A bind that is rejected immediately, and a status write that fails a little later."""
    await world.gang("a", 1)
    with logged() as seen:
        async with applier_rig(world, Timing(settle=0.01, message_delay=0.01, repeat_delay=0.01)) as rig:
            await rig.see()
            rig.script.plan("bind", refused(message="not today"))
            with structlog.contextvars.bound_contextvars(session="s-1"):
                await rig.apply(bind("a-0"))
            rig.script.sent.clear()
            rig.script.plan("patch", refused(message="nor today"))
            with structlog.contextvars.bound_contextvars(session="s-2"):
                rig.submit(SetPodGroup("default/a", "Inqueue", running=1))
            await rig.script.until("patch")
            assert await rig.applier.finish(5)
    events = [
        (line["event"], line.get("pod") or line.get("podgroup"), line.get("session"))
        for line in of(seen, "volcanopy.services.scheduler.writers")
    ]
    assert ("bind failed", "default/a-0", "s-1") in events
    assert ("podgroup status not written", "default/a", "s-2") in events


# Controller and admission


async def test_the_controller_and_admission_log_no_secrets(cluster: Cluster) -> None:
    """Keys are created for one job, the Secret of the other has another owner; all is logged at the lowest level."""
    cluster.ends = ""
    with logged(verbose=True) as seen:
        async with admission(cluster), controller(cluster):
            foreign = {"metadata": {"name": "b-ssh"}, "stringData": {"password": PASSWORD}}
            await cluster.client.create(SECRETS, cluster.namespace, foreign)
            environment = [{"name": "main", "image": "x", "env": [{"name": "PASSWORD", "value": PASSWORD}]}]
            secretive = {**task(), "template": {"spec": {"containers": environment}}}
            await cluster.submit("a", secretive, plugins={"ssh": [], "env": [], "svc": []})
            await cluster.submit("b", secretive, plugins={"ssh": []})
            with suppress(ApiError):
                await cluster.submit("c", secretive, plugins={"ssh": ["--no-such-flag=1"]})
            await cluster.until(lambda: cluster.phase("a") == "Running")
            await cluster.until(lambda: "b-ssh" in cluster.message("b"))
            keys = await cluster.client.get(SECRETS, cluster.namespace, "a-ssh")
    text = seen.text
    assert of(seen, "volcanopy.services.controllers.effects")
    assert "ApplyObject Secret a-ssh" in {line.get("effect") for line in seen.lines}
    assert len(keys["data"]["id_rsa"]) > 100
    for value in keys["data"].values():
        assert value not in text
        for line in base64.b64decode(value).decode().splitlines():
            assert line.startswith("-----") or line not in text
    assert PASSWORD not in text
    assert base64.b64encode(PASSWORD.encode()).decode() not in text
    for header in (await cluster.connection.credentials.headers()).values():
        assert header.rpartition(" ")[2] not in text


async def test_reconciles_log_the_object_and_are_counted(cluster: Cluster) -> None:
    before = served()
    with logged(verbose=True) as seen:
        async with controller(cluster):
            await cluster.submit("a", task(replicas=2))
            await cluster.until(lambda: cluster.phase("a") == "Completed")
            now = served()
    lines = [line for line in of(seen, "volcanopy.services.controllers.effects") if line["event"] == "decision"]
    lines = [line for line in lines if line["object"].startswith(cluster.namespace)]  # others may have jobs there too
    assert {(line["controller"], line["object"]) for line in lines} == {("BatchJob", f"{cluster.namespace}/a")}
    assert {"CreatePod Pod a-a-0", "UpdateStatus Completed"} <= {line["effect"] for line in lines}
    grown = served() - before  # the last reconcile is counted after its status has been written
    assert grown["controller_reconciles_total BatchJob done"] >= 3
    assert grown["controller_reconcile_duration_seconds_count BatchJob"] >= 3
    assert grown["workqueue_queue_duration_seconds_count BatchJob"] >= 3
    assert grown["jobs_completed_total default"] >= 1
    assert grown["controller_job_to_pod_creation_latency_seconds_count"] >= 2
    assert now["job_phase_count Completed default"] >= 1
    assert "workqueue_depth BatchJob" in now


async def test_reviews_are_counted_by_verdict_and_rejections_are_logged(cluster: Cluster) -> None:
    before = served()
    with logged() as seen:
        async with admission(cluster):
            await cluster.submit("a")
            with pytest.raises(ApiError):
                await cluster.submit("b", queue="nowhere")
    grown = served() - before
    assert grown["admission_reviews_total CREATE batchjobs allowed review"] >= 1
    assert grown["admission_reviews_total CREATE batchjobs denied review"] >= 1
    assert grown["admission_review_duration_seconds_count CREATE review"] >= 2
    (line,) = [
        line
        for line in of(seen, "volcanopy.services.admission.review_metrics")
        if f"{cluster.namespace}/b" == line["object"]
    ]
    assert (line["event"], line["webhook"], line["operation"], line["resource"]) == (
        "request rejected",
        "review",
        "CREATE",
        "batchjobs",
    )
    assert line["reason"]
    assert len(line["review"]) == 36


async def test_unknown_paths_add_no_metric_series() -> None:
    async def judge(_: Json) -> Json:
        return {"response": {"allowed": True, "warnings": ["odd"]}}

    before = set(served())
    for number in range(20):
        wild = {
            "operation": f"O{number}",
            "resource": {"resource": f"r{number}"},
            "uid": 7,
            "name": ["x"],
            "namespace": {},
        }
        for body in ({"request": wild}, {"request": [number]}, {}, {"request": {"resource": str(number)}}):
            await measured("validate", judge)(body)
    fresh = {name for name in set(served()) - before if name.startswith("admission_reviews_total")}
    assert fresh <= {"admission_reviews_total other other warned validate"}
    assert served()["admission_reviews_total other other warned validate"] >= 80


async def test_a_failing_validator_is_an_error() -> None:
    async def judge(_: Json) -> Json:
        raise RuntimeError("no")

    before = served()
    with pytest.raises(RuntimeError):
        await measured("mutate", judge)({"request": {"operation": "CREATE", "resource": {"resource": "queues"}}})
    assert (served() - before)["admission_reviews_total CREATE queues error mutate"] == 1
