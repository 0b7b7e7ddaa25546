"""What starts when in a flow: its later jobs are part of the answer, and of the estimates of other jobs."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.whatif.asking import Json, ask, batch_job, bodies, find
from volcanopy.whatif.answer import Answer, JobAnswer
from volcanopy.whatif.starts import Start
from volcanopy_testing.notation import NOW

NODE = "node n1 cpu=4 pods=20"


def template(name: str, replicas: int = 1, minutes: int | None = 10, cpu: str = "1") -> Json:
    estimate = {} if minutes is None else {"runningEstimate": f"{minutes}m"}
    job = batch_job(name, replicas, cpu, **estimate)
    return job | {"apiVersion": "flow.volcanopy.io/v1alpha1", "kind": "JobTemplate"}


def flow(**targets: str) -> Json:
    """A flow `f` with a job of the template of its name for each key, after those named in its value."""
    steps: list[dict[str, Any]] = [
        {"name": name, **({"dependsOn": {"targets": text.split()}} if text else {})} for name, text in targets.items()
    ]
    return {
        "apiVersion": "flow.volcanopy.io/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "f"},
        "spec": {"flows": steps},
    }


def of(answer: Answer, name: str) -> JobAnswer:
    job = find(answer, name)
    assert job is not None, name
    return job


def minutes(job: JobAnswer) -> float | None:
    """The estimated start in minutes from now; 0 for a job that starts now."""
    if job.start is Start.NOW:
        return 0.0
    assert job.estimate is not None
    return None if job.estimate.time is None else (job.estimate.time - NOW) / timedelta(minutes=1)


def test_a_later_job_starts_when_those_before_it_are_expected_to_end() -> None:
    answer = ask([*bodies(NODE), template("a"), template("b", 2), template("c"), flow(a="", b="a", c="a b")])
    assert of(answer, "f-a").start is Start.NOW
    second, third = of(answer, "f-b"), of(answer, "f-c")
    assert (second.start, second.after, minutes(second)) == (Start.AFTER, ("f-a",), 10)
    assert (third.start, third.after, minutes(third)) == (Start.AFTER, ("f-a", "f-b"), 20)
    assert second.message == 'waiting for job "a" to complete (Pending)'


def test_a_later_job_that_can_never_start_is_named_before_the_flow_is_submitted() -> None:
    answer = ask([*bodies(NODE), template("a"), template("b", cpu="9"), flow(a="", b="a")])
    job = of(answer, "f-b")
    assert (job.start, job.gate) == (Start.NEVER, "capability")
    assert job.message == "request exceeds the capacity of the cluster: cpu requested 9, capacity 4"


def test_a_later_job_whose_template_does_not_exist_never_starts() -> None:
    stored = flow(a="", b="a")
    stored["metadata"]["uid"] = "f"
    job = of(ask([*bodies(NODE), template("a"), stored]), "f-b")
    assert (job.start, job.message) == (Start.NEVER, 'JobTemplate "b" not found in namespace "default": create it')


@pytest.mark.parametrize(
    ("policy", "message"),
    [("stop", None), ("continue", "dependencies failed: b")],
)
def test_after_a_failure_no_job_starts_that_the_flow_does_not_create(policy: str, message: str | None) -> None:
    stored = flow(a="", b="", c="b", d="a")
    stored["metadata"]["uid"] = "f"
    stored["spec"]["failurePolicy"] = policy
    entries = [{"name": "a", "state": "Running"}, {"name": "b", "state": "Failed"}]
    stored["status"] = {"state": {"phase": "Running"}, "jobStatusList": entries}
    running = batch_job("f-a", runningEstimate="10m")
    answer = ask([*bodies(NODE), *map(template, "abcd"), running, stored])
    job = find(answer, "f-c")
    assert (job and job.message) == message
    assert (find(answer, "f-d") is not None) == (policy == "continue")


def test_the_start_after_a_job_without_a_run_time_is_unknown_and_the_job_named() -> None:
    job = of(ask([*bodies(NODE), template("a", minutes=None), template("b"), flow(a="", b="a")]), "f-b")
    assert job.estimate is not None
    assert (job.estimate.time, job.estimate.message) == (None, "job f-a declares no run time")


def test_a_later_job_waits_for_nodes_as_any_other() -> None:
    waiting = batch_job("other", 4, runningEstimate="60m")
    answer = ask([*bodies(NODE), template("a", 4), template("b", 4), flow(a="", b="a"), waiting])
    assert minutes(of(answer, "other")) == 10
    assert minutes(of(answer, "f-b")) == 70, "it is created when the other job has waited for longer"


@examples(20)
@given(st.lists(st.sets(st.integers(0, 4), max_size=3), min_size=1, max_size=5), st.data())
def test_in_an_empty_cluster_each_job_starts_at_the_end_of_its_longest_path(
    dependencies: list[set[int]], data: st.DataObject
) -> None:
    targets = [sorted(number for number in before if number < own) for own, before in enumerate(dependencies)]
    lengths = data.draw(st.lists(st.integers(1, 30), min_size=len(targets), max_size=len(targets)))
    starts: list[int] = []
    for before in targets:
        starts.append(max((starts[number] + lengths[number] for number in before), default=0))
    names = "abcde"
    templates = [template(names[number], minutes=length) for number, length in enumerate(lengths)]
    steps = {names[number]: " ".join(names[target] for target in before) for number, before in enumerate(targets)}
    answer = ask([*bodies("node n1 cpu=9 pods=20"), *templates, flow(**steps)])
    for number, start in enumerate(starts):
        estimated = minutes(of(answer, f"f-{names[number]}"))
        assert estimated is not None
        # ends in one interval are taken together: a sixteenth of the time for each end before
        assert start <= estimated <= start * (1 + 1 / 16) ** 4 + 0.1
