"""What `kubectl logs` shows of something that was never run: exactly that."""

import pytest

from volcanopy.kube.client.kinds import Json
from volcanopy_local.log_queries import NoLogError, selected
from volcanopy_local.simulated.container_logs import lines, text

AT, LATER = "2030-01-01T00:00:00Z", "2030-01-01T00:00:03Z"
RUNNING: Json = {"state": {"running": {"startedAt": AT}}}
ENDED: Json = {"state": {"terminated": {"startedAt": AT, "finishedAt": LATER, "exitCode": 0}}}
WAITING: Json = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ENDED["state"], "restartCount": 1}


def pod(status: Json) -> Json:
    container = {"name": "c", "image": "busybox", "command": ["sleep", "3"]}
    return {
        "metadata": {"name": "x", "namespace": "lab", "uid": "u"},
        "spec": {"nodeName": "n1", "restartPolicy": "Never", "containers": [container]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "c", **status}]},
    }


def log_lines(manifest: Json, *, previous: bool = False) -> list[str]:
    return [line.text for line in lines(manifest, "c", previous=previous)]


def test_the_log_of_a_running_container_states_the_simulation() -> None:
    assert log_lines(pod(RUNNING)) == [
        "simulated: container c of pod lab/x on node n1 started at 2030-01-01T00:00:00Z",
        'simulated: the command ["sleep", "3"] is not executed',
    ]


def test_a_long_command_is_cut_in_the_log() -> None:
    manifest = pod(RUNNING)
    manifest["spec"]["containers"][0]["command"] = ["python3", "-c", "print(1)\n" * 50]
    command = log_lines(manifest)[1].removeprefix("simulated: the command ").partition(" is not executed")[0]
    assert len(command) == 80
    assert command.endswith("...")


def test_the_log_of_an_ended_container_states_how_it_ended() -> None:
    assert log_lines(pod(ENDED))[-1] == "simulated: ended with exit code 0 at 2030-01-01T00:00:03Z"


def test_the_log_is_that_of_the_last_run_while_a_restart_is_waited_for() -> None:
    assert log_lines(pod(WAITING)) == log_lines(pod(WAITING), previous=True) == log_lines(pod(ENDED))


@pytest.mark.parametrize(
    ("status", "previous", "message"),
    [
        ({}, False, 'container "c" in pod "x" is waiting to start: ContainerCreating'),
        (RUNNING, True, 'previous terminated container "c" in pod "x" not found'),
    ],
)
def test_a_missing_log_has_the_message_of_the_kubelet(status: Json, previous: bool, message: str) -> None:
    with pytest.raises(NoLogError, match=message):
        lines(pod(status), "c", previous=previous)


@pytest.mark.parametrize(
    ("query", "count"),
    [({}, 3), ({"tailLines": "1"}, 1), ({"tailLines": "0"}, 0), ({"sinceTime": LATER}, 1), ({"sinceSeconds": "1"}, 1)],
)
def test_query_parameters_select_lines(query: dict[str, str], count: int) -> None:
    now = 1_893_456_004.0  # four seconds after the start
    assert text(lines(pod(ENDED), "c"), query, now).count(b"\n") == count


def test_lines_may_have_timestamps_and_a_byte_limit() -> None:
    result = lines(pod(ENDED), "c")
    assert text(result, {"timestamps": "true"}, 0.0).startswith(b"2030-01-01T00:00:00Z simulated: ")
    assert text(result, {"limitBytes": "9"}, 0.0) == b"simulated"


@pytest.mark.parametrize(("since", "count"), [("00:00:01Z", 2), ("00:00:01.4Z", 2), ("02:00:01.6+02:00", 1)])
def test_times_are_compared_with_fractions_and_offsets(since: str, count: int) -> None:
    lines = [f"2030-01-01T00:00:0{second}Z x\n".encode() for second in ("0.000000", "1.500000", "2")]
    assert selected(lines, {"sinceTime": f"2030-01-01T{since}"}, 0.0).count(b"x") == count


def test_an_invalid_time_has_a_message() -> None:
    with pytest.raises(NoLogError, match='invalid sinceTime "yesterday"'):
        selected([], {"sinceTime": "yesterday"}, 0.0)
