"""Copies of a job with its pods, and statuses of running pods."""

from collections import Counter
from typing import Any

from bench.pod_writes import fresh, places_left, renamed, running

POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {
        "name": "job-0-task-0",
        "uid": "b",
        "resourceVersion": "7",
        "managedFields": [],
        "labels": {"job": "job-0"},
        "ownerReferences": [{"name": "job-0", "uid": "4c5d"}],
    },
    "spec": {"nodeName": "node-00000"},
    "status": {"phase": "Running"},
}


def test_a_copy_has_what_a_client_may_set() -> None:
    assert fresh(POD) == {
        "kind": "Pod",
        "metadata": {
            "name": "job-0-task-0",
            "labels": {"job": "job-0"},
            "ownerReferences": [{"name": "job-0", "uid": "4c5d"}],
        },
        "spec": {"nodeName": "node-00000"},
    }
    assert fresh(POD, "other")["metadata"]["name"] == "other"


def test_a_copy_belongs_to_its_own_job() -> None:
    copied = renamed(POD, {"4c5d": "9e9e", "job-0": "job-12"})
    assert copied["metadata"]["name"] == "job-12-task-0"
    assert copied["metadata"]["ownerReferences"] == [{"name": "job-12", "uid": "9e9e"}]
    assert POD["metadata"]["name"] == "job-0-task-0"


def test_a_node_gets_no_more_pods_than_fit_beside_those_of_the_first_job() -> None:
    places = Counter(places_left(3, Counter({"node-00000": 32, "node-00001": 1})))
    assert places == {"node-00001": 29, "node-00002": 30}


def test_running_pods_have_addresses_and_containers_of_their_own() -> None:
    statuses = [running(number, number // 300) for number in (0, 255, 256, 65_536, 149_999)]
    assert len({status["podIP"] for status in statuses}) == len(statuses)
    assert len({status["containerStatuses"][0]["containerID"] for status in statuses}) == len(statuses)
    assert statuses[3]["podIP"] == "10.1.0.0"
    assert statuses[1]["startTime"] == "2026-01-01T00:00:00Z"
    assert statuses[4]["startTime"] == "2026-01-01T00:08:19Z"
