"""Texts of other programs are shortened in statuses, which could not be written otherwise."""

import pytest

from tests.jobcontroller.world import World, job, task
from volcanopy.api.messages import MESSAGE_LENGTH, shortened
from volcanopy.api.model import Condition

LONG = "x" * 100_000


@pytest.mark.parametrize("length", [0, 1, MESSAGE_LENGTH - 1, MESSAGE_LENGTH, MESSAGE_LENGTH + 1, 10 * MESSAGE_LENGTH])
def test_a_longer_text_ends_with_a_mark(length: int) -> None:
    text = "é" * length
    short = shortened(text)
    assert len(short) == min(length, MESSAGE_LENGTH)
    assert (short == text) is (length <= MESSAGE_LENGTH)
    assert short == text or short.endswith("é ... (shortened)")
    assert shortened(short) == short
    assert Condition(type="A", status="True", message=text).message == short


def test_a_long_error_of_the_server_is_in_the_status() -> None:
    world = World(job(task()))
    world.step()
    world.trouble = LONG
    world.step()
    state = world.status["state"]
    assert state["reason"] == "FailedSync"
    assert len(state["message"]) <= MESSAGE_LENGTH
    assert [each["message"] for each in world.status["conditions"] if each["status"] == "True"] == [state["message"]]


def test_a_pod_that_fails_with_a_long_message_ends_its_job() -> None:
    world = World(job(task(), policies=[{"event": "PodFailed", "action": "AbortJob"}]))
    world.step()
    world.admit().settle().run()
    world.settle().set_phase("Failed", exit_code=1)
    for pod in world.pods.values():
        pod["status"]["message"] = LONG
    world.step()
    assert world.status["state"]["phase"] == "Aborted"
    assert len(world.status["state"]["message"]) <= MESSAGE_LENGTH


def test_a_long_message_of_the_podgroup_is_in_the_status() -> None:
    world = World(job(task()))
    world.step()
    assert world.pod_group is not None
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": LONG}
    world.pod_group["status"] |= {"conditions": [condition]}
    world.step()
    assert len(world.status["state"]["message"]) <= MESSAGE_LENGTH
