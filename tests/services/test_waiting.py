"""What admission counts as waiting: PodGroups that are not admitted, and jobs that have no PodGroup yet."""

from collections import Counter
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.admission.request import User
from volcanopy.api import names
from volcanopy.api.core import PodGroup
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.services.admission.waiting_jobs import QueuedJob, WaitingJobs, slim_job, slim_meta

ANA, BO = User("ana", ("phd",)), User("bo")


def notes(user: User) -> dict[str, str]:
    return {names.SUBMITTED_BY: user.name, names.SUBMITTER_GROUPS: msgspec.json.encode(user.groups).decode()}


def group(name: str, phase: str, user: User = ANA, queue: str = "q", job: str = "") -> PodGroup:
    owner = {"apiVersion": names.BATCH_V1ALPHA1, "kind": "BatchJob", "name": job, "uid": f"uid-{job}"}
    meta = {"name": name, "namespace": "team", "annotations": notes(user), "ownerReferences": [owner] if job else []}
    return msgspec.convert({"metadata": meta, "spec": {"queue": queue}, "status": {"phase": phase}}, PodGroup)


def job(name: str, phase: str = "", user: User = ANA, queue: str = "q") -> QueuedJob:
    meta = {"name": name, "namespace": "team", "annotations": notes(user)}
    return msgspec.convert(
        {"metadata": meta, "spec": {"queue": queue}, "status": {"state": {"phase": phase}}}, QueuedJob
    )


def counts_after(waiting: WaitingJobs, *things: PodGroup | QueuedJob, gone: bool = False) -> Counter[tuple[str, User]]:
    kind = ChangeType.DELETED if gone else ChangeType.MODIFIED
    for obj in things:
        if isinstance(obj, QueuedJob):
            waiting.take_jobs([Change(kind, slim_job(obj))])
        else:
            waiting.take_groups([Change(kind, obj)])
    return waiting.count


def test_a_pod_group_waits_until_it_is_admitted() -> None:
    waiting = WaitingJobs()
    assert counts_after(waiting, group("a", "Pending"), group("b", "", BO)) == {("q", ANA): 1, ("q", BO): 1}
    assert counts_after(waiting, group("a", "Inqueue")) == {("q", BO): 1}
    assert counts_after(waiting, group("b", "", BO), gone=True) == {}


def test_a_job_waits_until_its_pod_group_does_and_is_counted_once() -> None:
    waiting = WaitingJobs()
    assert counts_after(waiting, job("a")) == {("q", ANA): 1}
    assert counts_after(waiting, group("a-1", "Pending", job="a")) == {("q", ANA): 1}
    assert counts_after(waiting, job("a", "Pending")) == {("q", ANA): 1}
    assert counts_after(waiting, group("a-1", "Running", job="a")) == {}
    assert counts_after(waiting, job("a", "Running"), group("a-1", "Completed", job="a")) == {}


def test_a_job_whose_pod_group_is_gone_waits_again_for_another() -> None:
    waiting = WaitingJobs()
    counts_after(waiting, group("a-1", "Running", job="a"), job("a", "Pending"))
    assert counts_after(waiting, group("a-1", "Running", job="a"), gone=True) == {("q", ANA): 1}
    assert counts_after(waiting, job("a", "Pending"), gone=True) == {}


def test_cached_objects_have_their_submitter() -> None:
    slim = slim_meta(group("a-1", "Pending", job="a").metadata)
    assert slim.annotations == notes(ANA)
    assert [owner_reference.name for owner_reference in slim.owner_references] == ["a"]


@given(st.integers(0, 10**9))
def test_the_count_equals_a_recount_after_any_events(seed: int) -> None:
    dice, waiting = Random(seed), WaitingJobs()
    groups: dict[str, PodGroup] = {}
    jobs: dict[str, QueuedJob] = {}
    for _ in range(40):
        name, user, queue = dice.choice("abc"), dice.choice([ANA, BO]), dice.choice("qr")
        if dice.randint(0, 1):
            one = group(
                f"g{name}", dice.choice(["", "Pending", "Inqueue", "Running"]), user, queue, dice.choice("abc ")
            )
            gone = not dice.randint(0, 3)
            counts_after(waiting, groups.pop(one.metadata.key, one) if gone else one, gone=gone)
            if not gone:
                groups[one.metadata.key] = one
        else:
            other = job(name, dice.choice(["", "Pending", "Running", "Completed"]), user, queue)
            gone = not dice.randint(0, 3)
            counts_after(waiting, jobs.pop(other.metadata.key, other) if gone else other, gone=gone)
            if not gone:
                jobs[other.metadata.key] = other
    owned = {f"team/{owner.name}" for group in groups.values() for owner in group.metadata.owner_references}
    wanted: Counter[tuple[str, User]] = Counter()
    for one in groups.values():
        user = ANA if one.metadata.annotations == notes(ANA) else BO
        wanted[one.spec.queue, user] += one.status.phase in {"", "Pending"}
    for other in jobs.values():
        user = ANA if other.metadata.annotations == notes(ANA) else BO
        wanted[other.spec.queue, user] += (
            other.status.state.phase in {"", "Pending"} and other.metadata.key not in owned
        )
    assert waiting.count == +wanted
