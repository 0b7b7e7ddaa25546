"""Flows: jobs after one another, what they wait for, what happens when one fails."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.jobcontroller.flow_world import FlowWorld, job_spec
from tests.nightly import examples
from volcanopy.api import names
from volcanopy.api.alternatives import merged
from volcanopy.api.core import Pod
from volcanopy.jobcontroller.flow_jobs import PodProbe
from volcanopy.jobcontroller.flows import MOST_DEPENDENTS, dependents
from volcanopy.jobcontroller.plan import CreateJob


def after(name: str, *targets: str, **fields: Any) -> dict[str, Any]:
    """A job of a flow that waits for others."""
    return {"name": name, "dependsOn": {"targets": list(targets)}, **fields}


def test_a_job_starts_when_those_before_it_are_completed() -> None:
    world = FlowWorld({"name": "a"}, {"name": "b"}, after("c", "a", "b")).settle()
    assert world.born == ["f-a", "f-b"]
    assert world.phase == "Pending"
    world.set("f-a", "Completed")
    assert world.settle().born == ["f-a", "f-b"]
    assert world.phase == "Running"
    assert world.job_message("c") == 'waiting for job "b" to complete (Pending)'
    world.set("f-b", "Completed")
    assert world.settle().born == ["f-a", "f-b", "f-c"]
    world.set("f-c", "Completed")
    assert world.settle().phase == "Succeed"
    assert world.message == "3/3 jobs completed"
    assert world.flow.status.completed_jobs == ["f-a", "f-b", "f-c"]


def test_a_job_knows_its_flow_and_its_template() -> None:
    world = FlowWorld({"name": "a"})
    world.template("a", job_spec(), annotations={"volcanopy.io/sla-waiting-time": "1h"}, labels={"team": "x"})
    job = world.settle().jobs["f-a"]
    assert job.metadata.labels == {"team": "x", names.CREATED_BY_FLOW: "ns.f", names.CREATED_BY_TEMPLATE: "ns.a"}
    assert (job.metadata.annotations or {})["volcanopy.io/sla-waiting-time"] == "1h"
    assert job.metadata.owner_references[0].uid == "flow-uid"
    assert job.metadata.owner_references[0].controller


def test_a_flow_waits_for_a_template_with_a_message() -> None:
    world = FlowWorld({"name": "a"}, templates={"other": job_spec()}).settle()
    assert world.born == []
    assert 'JobTemplate "a" not found in namespace "ns": create it' in world.message
    world.template("a", job_spec())
    assert world.settle().born == ["f-a"]


def test_two_jobs_can_be_made_from_one_template() -> None:
    world = FlowWorld({"name": "a", "template": "t"}, {"name": "b", "template": "t"}, templates={"t": job_spec()})
    assert world.settle().born == ["f-a", "f-b"]
    assert dependents(world.templates["t"], ("f-b", "f-a")) == ["f-a", "f-b"]


def test_the_status_of_a_template_has_the_first_jobs_only() -> None:
    world = FlowWorld({"name": "a", "template": "t"}, templates={"t": job_spec()})
    jobs = [f"job-{number:04}" for number in range(MOST_DEPENDENTS)]
    assert dependents(world.templates["t"], [*jobs, "a-later-one"]) == jobs


def test_a_patch_changes_the_template_for_one_job_only() -> None:
    patch = {"queue": "night", "tasks": [{"name": "main", "replicas": 3}]}
    world = FlowWorld(
        {"name": "a", "template": "t", "patch": {"jobSpec": patch}},
        {"name": "b", "template": "t"},
        templates={"t": job_spec("main", "other")},
    ).settle()
    one, other = world.jobs["f-a"].spec, world.jobs["f-b"].spec
    assert (one.queue, [task.replicas for task in one.tasks]) == ("night", [3, 1])
    assert (other.queue, [task.replicas for task in other.tasks]) == ("default", [1, 1])
    assert one.tasks[0].template == other.tasks[0].template


def test_a_patch_with_an_invalid_result_is_named() -> None:
    patch = {"jobSpec": {"tasks": [{"name": "main", "replica": 3}]}}
    world = FlowWorld({"name": "a", "patch": patch}).settle()
    assert world.born == []
    assert world.message.endswith("tasks[0].replica: Unknown field: correct its name or remove it")


def test_lists_merge_by_name_and_null_removes() -> None:
    base = {"a": 1, "b": {"c": 2, "d": 3}, "l": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "p": [1, 2]}
    patch = {"a": None, "b": {"c": 4}, "l": [{"name": "y", "v": 5}, {"name": "z"}], "p": [3]}
    assert merged(base, patch) == {
        "b": {"c": 4, "d": 3},
        "l": [{"name": "x", "v": 1}, {"name": "y", "v": 5}, {"name": "z"}],
        "p": [3],
    }


def test_a_failed_job_stops_the_flow() -> None:
    world = FlowWorld({"name": "a"}, {"name": "b"}, after("c", "b")).settle()
    world.set("f-a", "Failed", "out of luck")
    assert world.settle().phase == "Failed"
    assert world.message == "a is Failed: out of luck"
    world.set("f-b", "Completed")
    assert world.settle().born == ["f-a", "f-b"]
    assert world.flow.status.completed_jobs == ["f-b"]


def test_the_jobs_that_a_failed_flow_does_not_create_state_it() -> None:
    world = FlowWorld({"name": "a"}, {"name": "b"}, after("c", "b"), after("d", "a"), after("e", "d")).settle()
    world.set("f-a", "Running")
    world.set("f-b", "Running")
    world.settle()
    world.set("f-a", "Failed", "out of luck")
    world.settle()
    messages = {entry.name: entry.message for entry in world.flow.status.job_status_list}
    assert {name: messages[name] for name in "cde"} == {
        "c": "not created: the flow has failed",
        "d": "dependencies failed: a",
        "e": "dependencies failed: d",
    }


def test_continue_runs_jobs_that_do_not_depend_on_the_failed_one() -> None:
    world = FlowWorld({"name": "a"}, {"name": "b"}, after("c", "b"), after("d", "a"), failurePolicy="continue").settle()
    world.set("f-a", "Failed", "out of luck")
    world.set("f-b", "Completed")
    assert world.settle().born == ["f-a", "f-b", "f-c"]
    assert world.phase == "Running"
    assert "d: dependencies failed: a" in world.message
    world.set("f-c", "Completed")
    assert world.settle().phase == "Failed"
    assert world.born == ["f-a", "f-b", "f-c"]


def test_terminate_ends_running_jobs() -> None:
    world = FlowWorld({"name": "a"}, {"name": "b"}, failurePolicy="terminate").settle()
    world.set("f-b", "Running")
    world.set("f-a", "Failed")
    assert world.settle().commands == ["TerminateJob f-b: another job of its flow has failed"]


def test_a_failed_job_is_recreated_up_to_its_retry_limit() -> None:
    world = FlowWorld({"name": "a", "maxRetry": 2}).settle()
    for attempt in (1, 2):
        world.set("f-a", "Failed", "bad node")
        world.settle()
        assert world.born == ["f-a"] * (attempt + 1)
        assert (world.jobs["f-a"].metadata.annotations or {})[names.FLOW_ATTEMPT] == str(attempt)
    world.set("f-a", "Failed", "bad node")
    assert world.settle().phase == "Failed"
    assert len(world.born) == 3


def test_a_completed_job_stays_completed_when_it_is_deleted() -> None:
    world = FlowWorld({"name": "a"}, {"name": "b"}, after("c", "a", "b")).settle()
    world.set("f-a", "Completed")
    world.settle()
    del world.jobs["f-a"]
    world.set("f-b", "Completed")
    assert world.settle().born == ["f-a", "f-b", "f-c"]


def test_a_job_deleted_before_its_end_is_recreated() -> None:
    world = FlowWorld({"name": "a"}).settle()
    world.set("f-a", "Running")
    world.settle()
    del world.jobs["f-a"]
    assert world.settle().born == ["f-a", "f-a"]


def test_the_delete_policy_deletes_jobs_of_a_completed_flow() -> None:
    world = FlowWorld({"name": "a"}, after("b", "a"), jobRetainPolicy="delete").settle()
    world.set("f-a", "Completed")
    assert "f-a" in world.settle().jobs
    world.set("f-b", "Completed")
    assert world.settle().jobs == {}
    assert world.phase == "Succeed"
    assert world.flow.status.completed_jobs == ["f-a", "f-b"]


def test_dependency_cycles_are_named() -> None:
    world = FlowWorld(after("a", "b"), after("b", "a")).settle()
    assert world.message == "dependsOn has a cycle: a -> b -> a: create a new flow"


def probing(probe: dict[str, Any]) -> FlowWorld:
    """A flow whose second job waits for a sign of the first, which has two servers."""
    world = FlowWorld(
        {"name": "a"},
        {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}},
        templates={"a": job_spec("server", replicas=2), "b": job_spec()},
    )
    return world.settle()


def test_a_job_can_wait_for_the_phase_of_a_task() -> None:
    world = probing({"taskStatusList": [{"taskName": "server", "phase": "Running"}]})
    world.set("f-a", "Running", taskStatusCount={"server": {"phase": {"Running": 1, "Pending": 1}}})
    assert world.settle().born == ["f-a"]
    assert world.job_message("b") == 'waiting for job "a": 1/2 pods of task "server" Running'
    world.set("f-a", "Running", taskStatusCount={"server": {"phase": {"Running": 1, "Succeeded": 1}}})
    assert world.settle().born == ["f-a", "f-b"]


def pod(name: str, ip: str) -> Pod:
    """A running pod of the task ``server``."""
    manifest = {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {names.TASK_SPEC: "server"}},
        "status": {"phase": "Running", "podIP": ip},
    }
    return msgspec.convert(manifest, Pod)


def test_a_job_can_wait_for_an_answer_over_http() -> None:
    world = probing(
        {
            "httpGetList": [
                {"taskName": "server", "port": 80, "path": "ready", "httpHeader": {"name": "X", "value": "1"}}
            ]
        }
    )
    world.pods["f-a"] = (pod("f-a-server-0", "10.0.0.1"), pod("f-a-server-1", "10.0.0.2"))
    world.set("f-a", "Running")
    plan = world.settle().look()
    first = PodProbe("f-a-server-0", "10.0.0.1", 80, "/ready", ("X", "1"))
    second = PodProbe("f-a-server-1", "10.0.0.2", 80, "/ready", ("X", "1"))
    assert plan.pod_probes == (first, second)
    assert plan.again is not None
    assert plan.again > world.now
    assert world.job_message("b") == 'waiting for job "a": 0/2 pods of task "server" ready (GET /ready on port 80)'
    world.answers = {first: True, second: False}
    assert world.settle().born == ["f-a"]
    world.answers = {first: True, second: True}
    assert world.settle().born == ["f-a", "f-b"]


def test_a_job_can_wait_for_a_port() -> None:
    world = probing({"tcpSocketList": [{"taskName": "server", "port": 5432}]})
    world.pods["f-a"] = (pod("f-a-server-0", "10.0.0.1"), pod("f-a-server-1", ""))
    assert world.look().pod_probes == (PodProbe("f-a-server-0", "10.0.0.1", 5432),)


def test_a_completed_job_satisfies_all_probes() -> None:
    world = probing({"tcpSocketList": [{"taskName": "server", "port": 5432}]})
    world.set("f-a", "Completed")
    assert world.settle().born == ["f-a", "f-b"]


def test_a_probe_of_an_unknown_task_is_named() -> None:
    world = probing({"tcpSocketList": [{"taskName": "server", "port": 1}, {"taskName": "sever", "port": 1}]})
    assert "probe task not found in any target: sever: correct the flow" in world.message


def test_the_history_of_a_job_is_kept_with_its_times() -> None:
    world = FlowWorld({"name": "a"}).settle()
    world.pass_time(minutes=1)
    world.set("f-a", "Running")
    world.settle().pass_time(minutes=2)
    world.set("f-a", "Completed")
    entry = world.settle().flow.status.job_status_list[0]
    assert [
        (running_history.state, running_history.end_timestamp is not None)
        for running_history in entry.running_histories
    ] == [
        ("Pending", True),
        ("Running", True),
        ("Completed", True),
    ]
    assert entry.end_timestamp == world.now


STEPS = st.sampled_from(["Running", "Completed", "Failed", "gone", "Aborted", "Terminated"])


@examples(150)
@given(
    edges=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda pair: pair[0] > pair[1]), max_size=6),
    policy=st.sampled_from(["stop", "continue", "terminate"]),
    retries=st.integers(0, 2),
    happens=st.lists(st.tuples(st.integers(0, 4), STEPS), max_size=25),
)
def test_any_history_keeps_the_order_and_counts_retries(
    edges: set[tuple[int, int]], policy: str, retries: int, happens: list[tuple[int, str]]
) -> None:
    flows = [
        after(f"j{number}", *(f"j{to}" for of, to in sorted(edges) if of == number), maxRetry=retries)
        for number in range(5)
    ]
    world = FlowWorld(*flows, failurePolicy=policy).settle()
    completed: set[str] = set()
    failures: dict[str, int] = {}
    for number, what in happens:
        name = f"f-j{number}"
        if name not in world.jobs or str(world.jobs[name].status.state.phase) in {"Completed", "Failed", "Terminated"}:
            continue
        if what == "gone":
            del world.jobs[name]
        else:
            world.set(name, what)
        if what == "Completed":
            completed.add(name)
        if what == "Failed":
            failures[name] = failures.get(name, 0) + 1
        born = len(world.born)
        over = world.phase in {"Failed", "Succeed"}
        world.settle()
        for made in world.born[born:]:
            waits = {f"f-j{to}" for of, to in edges if f"f-j{of}" == made}
            assert waits <= completed
            assert not over
            assert failures.get(made, 0) <= retries
    if completed == {f"f-j{number}" for number in range(5)} and world.phase != "Failed":
        assert world.phase == "Succeed"


def test_a_job_that_can_be_created_states_no_reason_for_waiting_any_more() -> None:
    world = FlowWorld(
        {"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}, templates={"a": job_spec()}
    ).settle()
    world.set("f-a", "Completed")
    assert "not found" in world.settle().job_message("b")
    world.template("b", job_spec())
    for effect in world.look().effects:  # the API server rejects the job
        if not isinstance(effect, CreateJob):
            world.carry_out(effect)
    assert world.job_message("b") == ""
