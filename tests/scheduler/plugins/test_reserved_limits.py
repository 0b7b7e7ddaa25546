"""What is reserved of a limit for the first waiting job is kept from those jobs alone whose pods it needs to wait for."""

import pytest

from volcanopy.scheduler.policy.config import DEFAULT, parse
from volcanopy_testing import notation

CONFIG = parse(DEFAULT, notation.all_policies())


def started(world: str) -> list[str]:
    return [line for line in notation.plan(world, CONFIG).lines if line.startswith("bind")]


GPUS = """
node n1 cpu=32 gpu=16
queue q capability.gpu=8 capability.cpu=8
job running queue=q: 1 x cpu=1 gpu=8 on=n1
job first queue=q: 1 x cpu=4 gpu=6
"""


def test_a_job_that_waits_for_gpus_of_its_queue_does_not_keep_jobs_without_gpus_waiting() -> None:
    assert started(f"{GPUS}job small queue=q: 1 x cpu=1") == ["bind small-0 -> n1"]


def test_jobs_behind_leave_the_first_one_what_else_it_needs_of_the_limit() -> None:
    """Of the 8 cpus 1 is used and 4 are needed by the first job."""
    world = f"{GPUS}job a queue=q: 1 x cpu=2\njob b queue=q: 1 x cpu=2\njob c queue=q: 1 x cpu=1"
    assert started(world) == ["bind a-0 -> n1", "bind c-0 -> n1"]


def test_a_gpu_that_the_limit_has_left_is_reserved() -> None:
    assert started(f"{GPUS.replace('gpu=8 on', 'gpu=7 on')}job small queue=q: 1 x gpu=1") == []


@pytest.mark.parametrize(
    ("submitter", "starts"), [("ana", []), ("bo", ["bind small-0 -> n1"])], ids=["the same user", "another user"]
)
def test_a_job_that_waits_for_the_limit_of_its_user_keeps_no_job_of_another_user_waiting(
    submitter: str, starts: list[str]
) -> None:
    world = f"""
    node n1 cpu=8
    queue q limit.user.ana.cpu=3
    job running queue=q user=ana: 1 x cpu=2 on=n1
    job first queue=q user=ana: 1 x cpu=2
    job small queue=q user={submitter}: 1 x cpu=1
    """
    assert started(world) == starts


def test_the_limit_that_is_reserved_is_named() -> None:
    world = """
    node n1 cpu=8
    queue q limit.user.ana.cpu=3
    job running queue=q user=ana: 1 x cpu=2 on=n1
    job first queue=q user=ana: 1 x cpu=2
    job small queue=q user=ana: 1 x cpu=1
    """
    reason = 'the rest of the limit of user "ana" in queue "q" is reserved for job "first"'
    assert f"podgroup small Inqueue Unschedulable: {reason}" in notation.plan(world, CONFIG).lines


def test_pending_jobs_that_need_nothing_of_what_is_reserved_are_admitted() -> None:
    world = f"{GPUS}job small queue=q phase=Pending minres.cpu=1: 1 x cpu=1"
    assert started(world) == ["bind small-0 -> n1"]
