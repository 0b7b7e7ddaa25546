"""What protects pods from eviction is reserved in queues with administrators, whichever field gives it and wherever it stands."""

import copy
from typing import Any

import msgspec
import pytest

from tests.admission.test_entry import group, job, pod, review_of
from volcanopy.admission import powers
from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import validate
from volcanopy.api import names
from volcanopy.api.core import MAX_GRACE_SECONDS, Queue

Json = dict[str, Any]
RESERVED = {power.name: power for power in powers.POWERS}
QUEUES = {
    name: msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue)
    for name, spec in {
        "root": {},
        "origin": {},
        "target": {"administrators": {"users": ["head"]}},
        "free": {},
    }.items()
}


def protected(manifest: Json, power: powers.Power) -> Json:
    """The object or template with a power."""
    made = copy.deepcopy(manifest)
    for key in power.keys:
        metadata = made.setdefault("metadata", {})
        metadata["annotations"] = metadata.get("annotations", {}) | {key: power.example}
    if power.field:
        made["spec"][power.field] = power.example
    return made


def in_template(power: powers.Power, queue: str) -> Json:
    made = job(queue)
    made["spec"]["tasks"][0]["template"] = protected(made["spec"]["tasks"][0]["template"], power)
    return made


def in_alternative(power: powers.Power, queue: str) -> Json:
    made, template = job(queue), protected({"spec": {}}, power)
    made["spec"]["alternatives"] = [
        {"name": "other", "tasks": [{"name": made["spec"]["tasks"][0]["name"], "template": template}]}
    ]
    return made


def answer(before: Json | None, after: Json, user: str = "eve", pods: tuple[Json, ...] = (), **policy: Any) -> str:
    """The sentences of a rejection; empty if the object is admitted."""
    settings = AdmissionPolicy.read({"controllers": ["volcanopy"], **policy}, unknown="forbid")
    context = Context(queues=QUEUES, policy=settings, pod_groups={}, moved_pods=pods)
    return str(
        validate({"request": review_of(before, after, user)}, context)["response"].get("status", {}).get("message", "")
    )


DENIED = 'user "eve" may not protect pods from eviction in queue "target"'


@pytest.mark.parametrize("name", RESERVED)
def test_a_reserved_power_is_rejected_wherever_it_stands(name: str) -> None:
    power = RESERVED[name]
    everywhere: list[tuple[Json | None, Json]] = [
        (None, protected(pod("target"), power)),
        (None, in_template(power, "target")),
        (None, in_alternative(power, "target")),
    ]
    if power.keys or power.field == "priorityClassName":  # fields that jobs and PodGroups have themselves
        everywhere += [(None, protected(each("target"), power)) for each in (job, group)]
    if power.keys:
        everywhere += [(each("target"), protected(each("target"), power)) for each in (pod, job, group)]
    for before, after in everywhere:
        assert DENIED in answer(before, after)
        assert DENIED not in answer(after, after), "an unchanged value is not checked again"
        assert "may not protect" not in answer(before, after, user="head")
        assert "may not protect" not in answer(before, after, unpreemptable={"users": ["eve"]})
    free = in_template(power, "free")
    assert "may not protect" not in answer(None, free)
    assert "may not protect" in answer(None, free, unpreemptable={"users": ["bob"]})


@pytest.mark.parametrize("name", RESERVED)
def test_a_group_whose_pods_are_protected_does_not_enter_a_queue_where_that_is_reserved(name: str) -> None:
    """The pods themselves do not change."""
    member = protected(pod("origin"), RESERVED[name])
    message = answer(group("origin"), group("target"), pods=(pod("origin"), member))
    assert 'spec.queue: Forbidden: pod "x": ' in message
    assert DENIED in message
    assert "may not protect" not in answer(group("origin"), group("free"), pods=(member,))
    assert "may not protect" not in answer(group("origin"), group("target"), pods=(pod("origin"),))


def test_a_protected_group_does_not_enter_such_a_queue_though_its_annotation_is_unchanged() -> None:
    power = RESERVED['`volcanopy.io/preemptable: "false"`']
    assert DENIED in answer(protected(group("origin"), power), protected(group("target"), power))


@pytest.mark.parametrize("seconds", [30, MAX_GRACE_SECONDS])
def test_usual_grace_periods_and_other_priorities_are_for_everybody(seconds: int) -> None:
    made = pod("target")
    made["spec"] |= {"terminationGracePeriodSeconds": seconds, "priorityClassName": "high"}
    assert "may not protect" not in answer(None, made)


@pytest.mark.parametrize("key", [*sorted(names.ASSIGNMENT_KEYS), "hami.io/Ascend910B3-devices-allocated"])
def test_no_user_takes_devices_of_others_or_hides_the_use_of_own_ones(key: str) -> None:
    """The scheduler believes these annotations: what they name is given to no other pod."""
    assigned = powers.Power("", keys=(key,), example="GPU-1,NVIDIA,8192,100:")
    assigned_otherwise = assigned._replace(example="GPU-2,NVIDIA,8192,100:")
    with_own, with_others = (protected(pod("free"), each) for each in (assigned, assigned_otherwise))
    for before, after in (
        (None, with_own),
        (None, in_template(assigned, "free")),
        (None, in_alternative(assigned, "free")),
        (pod("free"), with_own),
        (with_own, with_others),
        (with_own, pod("free")),
    ):
        assert f"metadata.annotations[{key}]: Forbidden: the scheduler assigns devices and CPUs" in answer(
            before, after
        )
        # What controllers create counts for its submitter.
        for other in ("volcanopy", "system:serviceaccount:kube-system:device-plugin") if before else ():
            assert "the scheduler assigns" not in answer(before, after, user=other)
    assert answer(with_own, with_own) == answer(pod("free"), pod("free"))
    assert "the scheduler assigns" not in answer(group("origin"), group("free"), pods=(with_own,))
