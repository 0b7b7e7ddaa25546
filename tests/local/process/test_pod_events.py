"""The Events of a pod are those of a kubelet, once for each change."""

from volcanopy.kube.client.kinds import Json
from volcanopy_local.process.pod_events import events_of

POD = {"metadata": {"name": "p", "namespace": "lab", "uid": "u"}}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def status(state: Json, **fields: str) -> Json:
    return {"containerStatuses": [{"name": "main", "state": state}], **fields}


def texts(before: Json, after: Json) -> list[str]:
    return [f"{event.type} {event.reason}: {event.message}" for event in events_of(POD, before, after)]


def test_a_container_that_starts_and_ends() -> None:
    assert texts({}, status({"waiting": {"reason": "ContainerCreating"}})) == []
    assert texts({}, status(RUNNING)) == ["Normal Started: Started container main"]
    assert texts(status(RUNNING), status(RUNNING)) == []
    assert texts(status(RUNNING), status({"terminated": {"reason": "Completed", "exitCode": 0}})) == []


def test_what_goes_wrong_with_a_container_is_a_warning() -> None:
    start = {"terminated": {"reason": "StartError", "message": "failed to start container: no"}}
    assert texts({}, status(start)) == ["Warning Failed: Error: failed to start container: no"]
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    assert texts(status(RUNNING), status(killed)) == ["Warning OOMKilling: Container main exceeded its limit of memory"]
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert texts(status(RUNNING), status(waiting)) == [
        "Warning BackOff: Back-off restarting failed container main in pod p_lab(u)"
    ]
    missing = {"waiting": {"reason": "CreateContainerConfigError", "message": 'configmap "c" not found'}}
    assert texts({}, status(missing)) == ['Warning Failed: Error: configmap "c" not found']


def test_an_event_names_its_container() -> None:
    state = {"name": "setup", "state": RUNNING}
    (event,) = events_of(POD, {}, {"initContainerStatuses": [state]})
    assert event.place == "spec.initContainers{setup}"


def test_the_deadline_of_a_pod_is_a_warning() -> None:
    after = status(RUNNING, reason="DeadlineExceeded", message="too long")
    assert texts(status(RUNNING), after) == ["Warning DeadlineExceeded: too long"]
    assert texts(after, after) == []
