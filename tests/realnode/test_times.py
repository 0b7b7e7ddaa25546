"""The times of a gang, as they are observed."""

import time

from tests.realnode.beside_volcano import SYSTEMS, Times
from tests.realnode.cluster_client import Json


def pod(name: str, node: str = "", phase: str = "Pending") -> Json:
    return {"metadata": {"name": name}, "spec": {"nodeName": node}, "status": {"phase": phase}}


def test_a_step_is_reached_when_all_pods_have_reached_it() -> None:
    times = Times(2, time.monotonic())
    times.observe_pods([pod("a", "n", "Running")])
    assert set(times.reached) == set()
    times.observe_pods([pod("a", "n", "Running"), pod("b")])
    assert set(times.reached) == {"created"}
    times.observe_pods([pod("a", "n", "Running"), pod("b", "n")])
    assert set(times.reached) == {"created", "bound"}


def test_a_pod_that_has_ended_had_started() -> None:
    times = Times(2, time.monotonic())
    times.observe_pods([pod("a", "n", "Succeeded"), pod("b", "n", "Running")])
    assert set(times.reached) == {"created", "bound", "started"}
    times.observe_job([{"status": {"state": {"phase": "Running"}}}])
    assert "completed" not in times.reached
    times.observe_job([{"status": {"state": {"phase": "Completed"}}}])
    assert times.reached["completed"] >= times.reached["started"]


def test_both_systems_get_the_same_gang() -> None:
    ours, theirs = (system.job("gang", 3)["spec"] for system in SYSTEMS)
    assert ours["tasks"] == theirs["tasks"]
    assert ours["minAvailable"] == theirs["minAvailable"] == 3
