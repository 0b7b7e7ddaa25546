"""The life of jobs on real nodes: policies with real exit codes, images, init containers, sidecars, suspension."""

import re
from typing import Any

import pytest

from tests.realnode.cluster_client import RESTART, SERVE, ClusterClient, Json, container, job, shell, task


def test_a_job_that_keeps_failing_restarts_and_gives_up(client: ClusterClient) -> None:
    client.submit(job("unlucky", task("t", 2, shell("sleep 1; exit 7")), maxRetry=2, policies=RESTART))
    client.ends("unlucky", "Failed")
    assert "failed with exit code 7" in client.message("unlucky")
    assert client.message("unlucky").endswith("maxRetry reached (2/2)")


@pytest.mark.parametrize(
    ("code", "action", "phase"), [(42, "CompleteJob", "Completed"), (3, "TerminateJob", "Terminated")]
)
def test_a_policy_matches_the_exit_code(client: ClusterClient, code: int, action: str, phase: str) -> None:
    tasks = task("short", 1, shell(f"sleep 1; exit {code}")), task("long", 2, shell(SERVE))
    client.submit(job("search", *tasks, policies=[{"exitCode": code, "action": action}]))
    client.ends("search", phase)
    assert f"exit code {code}" in client.message("search")


def test_a_container_beyond_its_memory_limit_is_killed(client: ClusterClient) -> None:
    hungry = container("sh", "-c", "a=0123456789; while true; do a=$a$a; done")
    hungry["resources"] = {"requests": {"cpu": "20m", "memory": "16Mi"}, "limits": {"memory": "16Mi"}}
    client.submit(job("hungry", task("t", 1, hungry), policies=[{"exitCode": 137, "action": "TerminateJob"}]))
    client.ends("hungry", "Terminated")
    assert "exit code 137" in client.message("hungry")


@pytest.mark.slow("the policy waits for 10 seconds")
@pytest.mark.parametrize("place", ["containers", "initContainers"])
def test_the_error_of_a_pull_is_kept(client: ClusterClient, place: str) -> None:
    absent = {**container("true", image="localhost:1/absent:1"), "name": "absent"}
    pod: Json = {"initContainers": [absent]} if place == "initContainers" else {"containers": [absent]}
    policies = [{"event": "PodPending", "action": "TerminateJob", "timeout": "10s"}]
    client.submit(job("absent", task("t", 2, shell("true"), pod=pod), policies=policies))
    client.until(lambda: "ErrImagePull" in client.message("absent"))
    assert "0/2 required pods started" in client.message("absent")
    client.ends("absent", "Terminated")
    message = client.message("absent")
    assert re.search(r'pod absent-t-[01] cannot start: container "absent": ErrImagePull: ', message), message
    assert "localhost:1/absent:1" in message


def test_a_container_without_its_config_map_is_reported(client: ClusterClient) -> None:
    source: Json = {"name": "SETTING", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "k"}}}
    client.submit(job("config", task("t", 1, shell("true", env=[source]))))
    client.until(lambda: "CreateContainerConfigError" in client.message("config"))
    assert 'configmap "absent" not found' in client.message("config")


def test_init_containers_and_sidecars_run_around_the_program(client: ClusterClient) -> None:
    first = {**shell("sleep 1"), "name": "first"}
    sidecar = {**shell(SERVE), "name": "sidecar", "restartPolicy": "Always"}
    client.submit(job("around", task("t", 2, shell("sleep 2"), pod={"initContainers": [first, sidecar]})))
    client.ends("around", "Completed")


def test_a_container_is_restarted_on_the_spot(client: ClusterClient) -> None:
    script = "test -e /data/done && exit 0; touch /data/done; exit 1"
    mounts = [{"name": "data", "mountPath": "/data"}]
    pod: Json = {"restartPolicy": "OnFailure", "volumes": [{"name": "data", "emptyDir": {}}]}
    client.submit(job("flaky", task("t", 1, shell(script, volumeMounts=mounts), pod=pod)))
    client.ends("flaky", "Completed")
    (pod_status,) = (item["status"] for item in client.pods("flaky"))
    assert pod_status["containerStatuses"][0]["restartCount"] == 1


@pytest.mark.slow("pods are started and ended three times")
def test_a_job_is_suspended_and_resumed(client: ClusterClient) -> None:
    client.submit(job("paused", task("t", 2, shell(f"(sleep 8; kill 1) & {SERVE}")), suspend=True))
    client.until(lambda: client.phase("paused") == "Aborted")
    assert client.pods("paused") == []
    client.patch("paused", suspend=False)
    client.until(lambda: client.phase("paused") == "Running")
    client.patch("paused", suspend=True)
    client.until(lambda: client.phase("paused") == "Aborted" and not client.pods("paused"))
    client.patch("paused", suspend=False)
    client.ends("paused", "Completed")


def test_a_finished_job_is_deleted_after_its_time_to_live(client: ClusterClient) -> None:
    client.submit(job("brief", task("t", 1, shell("true")), ttlSecondsAfterFinished=1))
    client.until(
        lambda: not any(item["metadata"]["name"] == "brief" for item in client.items("batchjobs.batch.volcanopy.io"))
    )


def test_pods_get_the_events_of_the_scheduler(client: ClusterClient) -> None:
    client.submit(job("events", task("t", 1, shell("true"))))
    client.ends("events", "Completed")
    reasons: list[Any] = [event.split(":")[0] for event in client.events("events-t-0")]
    assert {"Scheduled", "Created", "Started"} <= set(reasons)
