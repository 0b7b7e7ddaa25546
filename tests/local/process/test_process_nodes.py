"""Pods on process nodes: programs run, end, restart, stop and leave nothing behind."""

import asyncio
import math
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from tests.local.process.conftest import ProcessCluster, is_running
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError, NoAnswer
from volcanopy.kube.client.raw_kinds import PODS
from volcanopy_local.process.container_spec import Sources
from volcanopy_local.process.isolation import PlainProcesses
from volcanopy_local.process.pod_runner import PodRunner, Surroundings
from volcanopy_local.process.runtime import MachineRuntime
from volcanopy_local.process.users import current_user

SHELL = ("sh", "-c")


def terminated(status: dict[str, Any], name: str = "main") -> dict[str, Any]:
    states = (*status.get("initContainerStatuses", ()), *status["containerStatuses"])
    return next(dict(state["state"]["terminated"]) for state in states if state["name"] == name)


async def test_a_program_runs_and_its_output_is_the_log(process_cluster: ProcessCluster) -> None:
    status = await process_cluster.run(
        "p", *SHELL, "echo one; echo two >&2; printf three", env=[{"name": "A", "value": "b"}]
    )
    assert (status["phase"], terminated(status)["exitCode"], terminated(status)["reason"]) == (
        "Succeeded",
        0,
        "Completed",
    )
    assert await process_cluster.log("p") == "one\ntwo\nthree\n"
    assert await process_cluster.log("p", tailLines="1") == "three\n"
    first, *_ = (await process_cluster.log("p", timestamps="true")).splitlines()
    assert first.endswith("Z one")


async def test_an_image_that_is_not_used_is_an_event_once(process_cluster: ProcessCluster) -> None:
    """The last pod, whose image is new, has the only other event."""
    for name, image in (("first", "lab/a:1"), ("second", "lab/a:1"), ("last", "lab/b:1")):
        assert (await process_cluster.run(name, "true", image=image))["phase"] == "Succeeded"
    events = await process_cluster.events("last", 2)
    assert {event["message"] for event in events if event["type"] == "Warning"} == {
        'Image "lab/b:1" is not used: the container runs a program of this machine'
    }
    warnings = [event for event in await process_cluster.events("second", 1) if event["type"] == "Warning"]
    assert warnings == []


async def test_exit_codes_and_signals_are_those_of_the_program(process_cluster: ProcessCluster) -> None:
    assert terminated(await process_cluster.run("code", *SHELL, "exit 3"))["exitCode"] == 3
    assert terminated(await process_cluster.run("signal", *SHELL, "kill -KILL $$$$"))["exitCode"] == 137


async def test_a_program_that_does_not_exist_is_a_start_error(process_cluster: ProcessCluster) -> None:
    status = await process_cluster.run("p", "no-such-program", "--x")
    state = terminated(status)
    assert (status["phase"], state["reason"], state["exitCode"]) == ("Failed", "StartError", 127)
    assert state["message"] == 'failed to start container: exec: "no-such-program": executable file not found in $PATH'
    (event,) = await process_cluster.events("p", 1)
    assert (event["type"], event["reason"]) == ("Warning", "Failed")
    assert event["message"] == f"Error: {state['message']}"


async def test_a_container_without_a_command_says_that_images_are_not_run(process_cluster: ProcessCluster) -> None:
    state = terminated(await process_cluster.run("p"))
    assert state["reason"] == "StartError"
    assert "no command: images are not run on process nodes" in state["message"]


async def test_volumes_are_at_their_paths(process_cluster: ProcessCluster) -> None:
    await process_cluster.add("ConfigMap", {"metadata": {"name": "c"}, "data": {"a.txt": "from-map"}})
    await process_cluster.add("Secret", {"metadata": {"name": "s"}, "data": {"key": "aGlkZGVu"}})
    script = (
        "cat /conf/a.txt /secret/key /info/name; echo; echo kept > /data/result; echo x > /scratch/y && cat /scratch/y"
    )
    volumes = [
        {"name": "conf", "configMap": {"name": "c"}},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "info", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "results"}},
        {"name": "scratch", "emptyDir": {}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    container = {"name": "main", "image": "none", "command": [*SHELL, script], "volumeMounts": mounts}
    await process_cluster.create("p", {"containers": [container], "volumes": volumes})
    assert (await process_cluster.ended("p"))["phase"] == "Succeeded", await process_cluster.log("p")
    assert await process_cluster.log("p") == "from-maphiddenp\nx\n"
    assert (process_cluster.folder / "claims/default/results/result").read_text() == "kept\n"


async def test_a_pod_waits_for_a_missing_config_map(process_cluster: ProcessCluster) -> None:
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "a"}}}]
    container = {"name": "main", "image": "none", "command": [*SHELL, "echo $A"], "env": env}
    await process_cluster.create("p", {"containers": [container]})

    def is_waiting(pod: dict[str, Any]) -> bool:
        statuses = pod["status"].get("containerStatuses", ())
        return bool(statuses) and statuses[0]["state"].get("waiting", {}).get("reason") == "CreateContainerConfigError"

    waiting = (await process_cluster.until("p", is_waiting))["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == 'configmap "late" not found'
    await process_cluster.add("ConfigMap", {"metadata": {"name": "late"}, "data": {"a": "here"}})
    assert (await process_cluster.ended("p"))["phase"] == "Succeeded"
    assert await process_cluster.log("p") == "here\n"


async def test_a_failing_container_is_restarted_by_its_policy(process_cluster: ProcessCluster) -> None:
    own = "test $HOME = ${TMPDIR:-/tmp} || exit 8; test -e ${TMPDIR:-/tmp}/old && exit 7; touch ${TMPDIR:-/tmp}/old"
    script = f"{own}; echo run; test -e /state/done || {{ touch /state/done; exit 1; }}"
    container = {
        "name": "main",
        "image": "none",
        "command": [*SHELL, script],
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
    }
    spec = {"restartPolicy": "OnFailure", "containers": [container], "volumes": [{"name": "state", "emptyDir": {}}]}
    await process_cluster.create("p", spec)
    status = await process_cluster.ended("p")
    assert (status["phase"], status["containerStatuses"][0]["restartCount"]) == ("Succeeded", 1)
    assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


async def test_init_containers_run_in_order_and_sidecars_beside(process_cluster: ProcessCluster) -> None:
    volume = {"volumeMounts": [{"name": "w", "mountPath": "/w"}], "image": "none"}
    init = [
        {"name": "first", "command": [*SHELL, "echo first >> /w/order"], **volume},
        {
            "name": "beside",
            "command": [*SHELL, "echo side >> /w/order; exec sleep 1000"],
            "restartPolicy": "Always",
            **volume,
        },
        {
            "name": "second",
            "command": [*SHELL, "until grep -q side /w/order; do sleep 0.01; done; echo second >> /w/order"],
            **volume,
        },
    ]
    main = [{"name": "main", "command": [*SHELL, "cat /w/order"], **volume}]
    await process_cluster.create(
        "p", {"initContainers": init, "containers": main, "volumes": [{"name": "w", "emptyDir": {}}]}
    )
    status = await process_cluster.ended("p")
    assert status["phase"] == "Succeeded"
    assert await process_cluster.log("p") == "first\nside\nsecond\n"
    assert terminated(status, "beside")["exitCode"] == 143


async def test_a_failed_init_container_fails_the_pod(process_cluster: ProcessCluster) -> None:
    containers = [{"name": "main", "image": "none", "command": ["true"]}]
    init = [{"name": "check", "image": "none", "command": ["false"]}]
    await process_cluster.create("p", {"initContainers": init, "containers": containers})
    status = await process_cluster.ended("p")
    assert (status["phase"], terminated(status, "check")["exitCode"]) == ("Failed", 1)


async def test_a_deleted_pod_gets_sigterm_and_leaves_no_process(process_cluster: ProcessCluster) -> None:
    script = "trap 'echo saved > /state/saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    container = {
        "name": "main",
        "image": "none",
        "command": [*SHELL, script],
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
        "env": [{"name": "MARK", "value": f"mark-{os.getpid()}-term"}],
    }
    claim = {"name": "state", "persistentVolumeClaim": {"claimName": "state"}}
    await process_cluster.create("p", {"containers": [container], "volumes": [claim]})
    await process_cluster.until("p", is_running)
    await _line(process_cluster, "p", "ready")
    await process_cluster.deleted("p", grace=20)
    assert (process_cluster.folder / "claims/default/state/saved").read_text() == "saved\n"
    assert _with_environment(f"MARK=mark-{os.getpid()}-term") == []
    assert list((process_cluster.folder / "run/pods").iterdir()) == []


async def test_a_program_that_ignores_sigterm_is_killed_after_its_grace_period(process_cluster: ProcessCluster) -> None:
    mark = f"mark-{os.getpid()}-kill"
    container = {
        "name": "main",
        "image": "none",
        "command": [*SHELL, "trap '' TERM; sleep 1000 & echo ready; while :; do sleep 0.01; done"],
        "env": [{"name": "MARK", "value": mark}],
    }
    await process_cluster.create("p", {"containers": [container]})
    await process_cluster.until("p", is_running)
    await _line(process_cluster, "p", "ready")
    assert _with_environment(f"MARK={mark}")
    await process_cluster.deleted("p", grace=1)
    assert _with_environment(f"MARK={mark}") == []


async def test_the_deadline_of_a_pod_stops_it(process_cluster: ProcessCluster) -> None:
    spec = {"activeDeadlineSeconds": 1, "containers": [{"name": "main", "image": "none", "command": ["sleep", "1000"]}]}
    await process_cluster.create("p", spec)
    status = await process_cluster.ended("p")
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


async def test_the_deadline_counts_from_the_start_of_the_pod_also_after_a_restart(tmp_path: Path) -> None:
    """The cluster was killed 100 seconds after the start of a pod that has 50."""
    start = (datetime.now(UTC) - timedelta(seconds=100)).isoformat()
    status = await _last_status(tmp_path, {"activeDeadlineSeconds": 50}, {"startTime": start})
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert datetime.fromisoformat(status["startTime"]) == datetime.fromisoformat(start).replace(microsecond=0)


async def test_a_program_of_a_killed_cluster_ended_when_its_node_was_served_last(tmp_path: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    running = {"name": "main", "state": {"running": {"startedAt": start.isoformat()}}}
    served = start + timedelta(minutes=5)
    status = await _last_status(tmp_path, {"restartPolicy": "Never"}, {"containerStatuses": [running]}, served)
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    terminated = status["containerStatuses"][0]["state"]["terminated"]
    assert [datetime.fromisoformat(terminated[key]) for key in ("startedAt", "finishedAt")] == [start, served]


async def _last_status(
    folder: Path, spec: dict[str, Any], status: dict[str, Any], served_until: datetime | None = None
) -> dict[str, Any]:
    """Run a pod of a cluster that ended before to its end; its status."""
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": "main", "command": ["sleep", "1000"]}], **spec},
        "status": status,
    }
    statuses = AsyncMock()
    around = Surroundings(
        folder,
        folder / "tmp",
        folder / "claims",
        folder / "hosts",
        {"pod": "127.1.0.1", "host": "127.0.0.1"},
        MachineRuntime(PlainProcesses(current_user())),
        AsyncMock(return_value=Sources()),
        Mock(),
        served_until=served_until.timestamp() if served_until is not None else math.inf,
    )
    async with asyncio.timeout(120):
        await PodRunner(pod, around, statuses).run()
    ((last,), _) = statuses.await_args_list[-1]
    assert isinstance(last, dict)
    return last


async def test_a_time_that_cannot_be_read_is_an_error_also_when_the_log_is_followed(
    process_cluster: ProcessCluster,
) -> None:
    await process_cluster.create("p", {"containers": [{"name": "main", "image": "none", "command": ["sleep", "1000"]}]})
    await process_cluster.until("p", is_running)
    with pytest.raises(KubeError, match='invalid sinceTime "noon"'):
        await process_cluster.log("p", follow="true", sinceTime="noon")
    assert await process_cluster.log("p", sinceTime="2020-01-01T00:00:00Z") == ""


async def test_a_log_is_followed_to_its_end(process_cluster: ProcessCluster) -> None:
    container = {
        "name": "main",
        "image": "none",
        "command": [*SHELL, "echo first; until test -e /w/go; do sleep 0.01; done; echo last"],
        "volumeMounts": [{"name": "w", "mountPath": "/w"}],
    }
    claim = {"name": "w", "persistentVolumeClaim": {"claimName": "w"}}
    await process_cluster.create("p", {"containers": [container], "volumes": [claim]})
    await process_cluster.until("p", is_running)
    await _line(process_cluster, "p", "first")
    (process_cluster.folder / "claims/default/w/go").touch()
    assert await process_cluster.log("p", follow="true") == "first\nlast\n"


async def test_a_readiness_probe_makes_a_container_ready(process_cluster: ProcessCluster) -> None:
    probe = {"exec": {"command": ["test", "-e", "/w/ready"]}, "periodSeconds": 1, "timeoutSeconds": 10}
    container = {
        "name": "main",
        "image": "none",
        "command": ["sleep", "1000"],
        "readinessProbe": probe,
        "volumeMounts": [{"name": "w", "mountPath": "/w"}],
    }
    claim = {"name": "w", "persistentVolumeClaim": {"claimName": "w"}}
    await process_cluster.create("p", {"containers": [container], "volumes": [claim]})
    running = await process_cluster.until("p", is_running)
    assert running["status"]["containerStatuses"][0]["ready"] is False
    (process_cluster.folder / "claims/default/w/ready").touch()
    await process_cluster.until("p", lambda pod: pod["status"]["containerStatuses"][0]["ready"])


async def test_a_failed_liveness_probe_restarts_a_container(process_cluster: ProcessCluster) -> None:
    """The probe succeeds until the program runs: before, no signal reaches it."""
    command = [*SHELL, "test -e /w/runs || exit 0; echo stuck >&2; exit 1"]
    probe = {"exec": {"command": command}, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 10}
    container = {
        "name": "main",
        "image": "none",
        "command": [*SHELL, "touch /w/runs; exec sleep 1000"],
        "livenessProbe": probe,
        "volumeMounts": [{"name": "w", "mountPath": "/w"}],
    }
    spec = {"containers": [container], "volumes": [{"name": "w", "emptyDir": {}}]}
    await process_cluster.create("p", {"restartPolicy": "Always", "terminationGracePeriodSeconds": 60} | spec)
    pod = await process_cluster.until(
        "p", lambda pod: pod["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) > 0
    )
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 143
    events = {event["reason"]: event for event in await process_cluster.events("p", 3)}
    assert events["Unhealthy"]["message"] == "Liveness probe failed: stuck"
    assert events["Killing"]["message"] == "Container main failed liveness probe, will be restarted"
    assert events["Killing"]["involvedObject"]["fieldPath"] == "spec.containers{main}"


async def test_the_log_of_a_container_that_waits_says_why(process_cluster: ProcessCluster) -> None:
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "a"}}}]
    container = {"name": "main", "image": "none", "command": ["true"], "env": env}
    await process_cluster.create("p", {"containers": [container]})
    await process_cluster.until("p", lambda pod: pod["status"].get("containerStatuses"))
    with pytest.raises(KubeError, match="is waiting to start: CreateContainerConfigError"):
        await process_cluster.log("p")


async def _line(cluster: ProcessCluster, name: str, text: str) -> None:
    """Wait until the log of a pod has a line."""
    path = f"/api/v1/namespaces/default/pods/{name}/log?container=main&follow=true"
    async with asyncio.timeout(60), cluster.client.stream(path, stall=20) as lines:
        while (await lines.readline()).decode().rstrip() != text:
            continue


def _with_environment(variable: str) -> list[int]:
    """The pids of processes of this machine with a variable."""
    result = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    result.append(int(folder.name))
            except OSError:
                continue
    return result


async def test_a_pod_outlives_statuses_that_the_server_did_not_answer(
    process_cluster: ProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_status = Client.patch_status
    unanswered = [NoAnswer("http://server", "timed out", maybe_applied=True) for _ in range(3)]

    async def slow(client: Client, *arguments: Any, **options: Any) -> Any:
        if unanswered and arguments[2] == "p":
            raise unanswered.pop()
        return await patch_status(client, *arguments, **options)

    monkeypatch.setattr(Client, "patch_status", slow)
    status = await process_cluster.run("p", *SHELL, "echo done")
    assert (status["phase"], terminated(status)["exitCode"], unanswered) == ("Succeeded", 0, [])


async def test_the_end_of_a_pod_outlives_events_and_writes_of_before(process_cluster: ProcessCluster) -> None:
    """Events of a running pod that arrive after its end, and a status that the server takes after the one of the end."""
    await process_cluster.create("p", {"containers": [{"name": "main", "image": "none", "command": ["sleep", "0.2"]}]})
    running = await process_cluster.until("p", is_running)
    await process_cluster.ended("p")
    kubelet = process_cluster.cluster.process_kubelet
    assert kubelet is not None
    kubelet.on_changes([Change(ChangeType.MODIFIED, running)])

    await process_cluster.client.patch_status(PODS, "default", "p", {"status": running["status"]})
    pod = await process_cluster.until("p", lambda pod: pod["status"]["phase"] == "Succeeded")
    assert (terminated(pod["status"])["exitCode"], pod["status"]["containerStatuses"][0]["restartCount"]) == (0, 0)
    assert int(pod["metadata"]["resourceVersion"]) > int(running["metadata"]["resourceVersion"]) + 2
    await process_cluster.deleted("p", grace=0)
    await process_cluster.run("later", "true")  # what the node runs after the deletion is seen
    assert pod["metadata"]["uid"] not in {folder.name for folder in (process_cluster.folder / "run/pods").iterdir()}
