"""extender: a program outside filters and scores nodes, selects victims, and votes on jobs and queues."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from tests.scheduler.plugins.scene import argument_error, configured, seen
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.extender_port import Answer
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Plan, SetPodGroup

URL = "http://x:1"
VERBS = {
    "predicate": "predicateVerb",
    "prioritize": "prioritizeVerb",
    "preemptable": "preemptableVerb",
    "reclaimable": "reclaimableVerb",
    "overused": "queueOverusedVerb",
    "enqueueable": "jobEnqueueableVerb",
    "enqueued": "jobEnqueuedVerb",
    "ready": "jobReadyVerb",
    "allocate": "allocateFuncVerb",
    "deallocate": "deallocateFuncVerb",
    "open": "onSessionOpenVerb",
    "close": "onSessionCloseVerb",
}
Rules = dict[str, Callable[[dict[str, Any]], Any]]


@dataclass
class FakeExtender:
    """Answers each verb by a rule: a function of the request that returns the answer, or an Answer."""

    rules: Rules
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def ask(self, url: str, timeout: float, requests: Sequence[bytes]) -> Sequence[Answer]:
        return [self._one(url.removeprefix(f"{URL}/"), request) for request in requests]

    def _one(self, verb: str, request: bytes) -> Answer:
        body = json.loads(request)
        self.calls.append((verb, body))
        answer = self.rules[verb](body)
        return answer if isinstance(answer, Answer) else Answer(json.dumps(answer).encode())

    def asked(self, verb: str) -> list[str]:
        """Return what the requests of a verb are about."""
        return [_subject(body) for name, body in self.calls if name == verb]


def _subject(body: dict[str, Any]) -> str:
    parts = [f"{kind} {_key(body[kind])}" for kind in ("task", "node", "queue") if kind in body]
    return " ".join(parts)


def _key(item: dict[str, Any]) -> str:
    return f"{item['Namespace']}/{item['Name']}" if item.get("Namespace") else str(item["Name"])


def made(text: str, rules: Rules, actions: str = "allocate", **more: Any) -> tuple[Plan, FakeExtender]:
    """Return the plan with an extender, and the extender."""
    arguments = {"extender.urlPrefix": f"{URL}/"} | {f"extender.{VERBS[verb]}": verb for verb in rules}
    arguments |= {f"extender.{key}": value for key, value in more.items()}
    extender = FakeExtender(rules)
    plugins: dict[str, dict[str, Any]] = {"priority": {}, "gang": {}, "predicates": {}, "extender": arguments}
    return schedule(seen(text), configured(plugins, actions), extender=extender), extender


def binds(plan: Plan) -> dict[str, str]:
    return {bind.pod.removeprefix("default/"): bind.node for bind in plan.of(Bind)}


def reason(plan: Plan) -> str:
    (explain,) = plan.of(Explain)
    return str(explain.message)


def _status(status: int, _: dict[str, Any]) -> dict[str, Any]:
    return {"status": status}


def failing(_: dict[str, Any]) -> Answer:
    return Answer(error="extender http://x:1/v does not answer within 1 s", down=True)


NODES = """
    node n1 cpu=8
    node n2 cpu=8
"""


def test_nodes_that_the_extender_rejects_get_no_pods() -> None:
    def rejects_n1(body: dict[str, Any]) -> dict[str, Any]:
        return {"status": "licence missing" if body["node"]["Name"] == "n1" else "", "code": 3}

    plan, extender = made(f"{NODES}job a: 1 x cpu=1", {"predicate": rejects_n1})
    assert binds(plan) == {"a-0": "n2"}
    assert extender.asked("predicate") == ["task default/a-0 node n1", "task default/a-0 node n2"]
    plan, _ = made("node n1 cpu=8\njob a: 1 x cpu=1", {"predicate": rejects_n1})
    assert "1 extender: licence missing" in reason(plan)


def test_a_node_is_asked_about_once_for_equal_tasks_until_it_changes() -> None:
    plan, extender = made(f"{NODES}node n3 cpu=1\njob a: 3 x cpu=2", {"predicate": lambda _: {}})
    assert len(plan.of(Bind)) == 3
    asked = extender.asked("predicate")
    assert asked[:2] == ["task default/a-0 node n1", "task default/a-0 node n2"]
    assert len(asked) == 4  # the node that each placement but the last one changed, and never n3: it is too small


def test_the_extender_sees_tasks_and_nodes_as_volcanos_does() -> None:
    text = f"node n1 cpu=8 memory=4Gi gpu=2\n{NODES.splitlines()[2]}\njob old: 1 x cpu=1 on=n1\njob a: 1 x cpu=2 gpu=1"
    _, extender = made(text, {"predicate": lambda _: {}})
    body = extender.calls[0][1]
    task, node = body["task"], body["node"]
    assert (task["Name"], task["Namespace"], task["Job"], task["Status"], task["NodeName"]) == (
        "a-0",
        "default",
        "default/a",
        1,
        "",
    )
    assert task["Resreq"]["MilliCPU"] == 2000
    assert task["Resreq"]["ScalarResources"] == {"nvidia.com/gpu": 1000, "pods": 1}
    assert task["Pod"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
    assert (node["Node"]["metadata"]["name"], node["Idle"]["MilliCPU"], node["Used"]["MilliCPU"]) == ("n1", 7000, 1000)
    (running,) = node["Tasks"].values()
    assert (running["Name"], running["Status"], running["NodeName"]) == ("old-0", 32, "n1")


def test_scores_of_the_extender_select_among_the_nodes_that_fit() -> None:
    def prefers_n2(body: dict[str, Any]) -> dict[str, Any]:
        return {"nodeScore": {node["Name"]: 10 if node["Name"] == "n2" else 0 for node in body["nodes"]}}

    plan, extender = made(f"{NODES}node n3 cpu=1\njob a: 2 x cpu=5", {"prioritize": prefers_n2})
    assert binds(plan) == {"a-0": "n2", "a-1": "n1"}
    assert [node["Name"] for node in extender.calls[0][1]["nodes"]] == ["n1", "n2"]


def test_tasks_without_a_managed_resource_are_not_its_concern() -> None:
    text = f"node n1 cpu=8 gpu=2\n{NODES.splitlines()[2]}\njob a: 1 x cpu=1\njob b: 1 x cpu=1 gpu=1"
    for managed in (["nvidia.com/gpu"], "nvidia.com/gpu, x.io/y"):
        plan, extender = made(text, {"predicate": lambda _: {"status": "no"}}, managedResources=managed)
        assert list(binds(plan)) == ["a-0"]
        assert extender.asked("predicate") == ["task default/b-0 node n1"]


VICTIMS = """
    class high value=9
    node n1 cpu=4
    job low min=0: 2 x cpu=2 on=n1
    job high priority=high: 1 x cpu=2
"""


@pytest.mark.parametrize(("status", "evictions"), [(1, ["low-0"]), (0, ["low-1"]), (-1, [])])
def test_the_extender_selects_victims_or_leaves_that_to_others(status: int, evictions: list[str]) -> None:
    def second(body: dict[str, Any]) -> dict[str, Any]:
        return {"status": status, "victims": [task for task in body["evictees"] if task["Name"] == "low-0"]}

    plan, extender = made(VICTIMS, {"preemptable": second}, "allocate, preempt")
    assert [effect.pod.removeprefix("default/") for effect in plan.of(Evict)] == evictions
    assert extender.calls[0][1]["evictor"]["Name"] == "high-0"


def test_a_job_is_enqueued_if_the_extender_agrees() -> None:
    text = f"{NODES}job a phase=Pending minres.cpu=1: 2 x cpu=1"
    for status, phase in ((1, "Inqueue"), (0, "Inqueue"), (-1, "Pending")):
        rules: Rules = {"enqueueable": partial(_status, status), "enqueued": lambda _: {}}
        plan, extender = made(text, rules, "enqueue")
        phases = [effect.phase for effect in plan.of(SetPodGroup)]
        assert (phases or ["Pending"]) == [phase]
        assert bool(extender.asked("enqueued")) == (phase == "Inqueue")


def test_a_queue_that_the_extender_calls_overused_gets_nothing() -> None:
    plan, extender = made(
        f"{NODES}job a: 1 x cpu=1", {"overused": lambda body: {"overused": body["queue"]["Weight"] > 0}}
    )
    assert not plan.of(Bind)
    assert 'queue "default" is overused' in reason(plan)
    assert extender.asked("overused") == ["queue default"]


def test_a_job_starts_when_the_extender_calls_it_ready() -> None:
    def ready(body: dict[str, Any]) -> dict[str, Any]:
        placed = [task for task in body["job"]["Tasks"].values() if task["NodeName"]]
        return {"status": len(placed) == 2}

    plan, _ = made(f"{NODES}job a: 2 x cpu=1", {"ready": ready})
    assert sorted(binds(plan)) == ["a-0", "a-1"]
    plan, _ = made(f"{NODES}job a: 3 x cpu=1", {"ready": ready})
    assert not plan.of(Bind)


def test_the_extender_is_told_of_placements_and_of_the_session() -> None:
    rules: Rules = {name: lambda _: {} for name in ("open", "allocate", "deallocate", "close")}
    _, extender = made(f"{NODES}job a: 1 x cpu=1\njob b min=2: 1 x cpu=1, 1 x cpu=9", rules)
    assert [verb for verb, _ in extender.calls if verb in ("open", "close")] == ["open", "close"]
    assert extender.calls[-1][0] == "close"
    opening = extender.calls[0][1]
    assert (sorted(opening["Nodes"]), sorted(opening["Jobs"])) == (["n1", "n2"], ["default/a", "default/b"])
    assert extender.asked("allocate")[0] == "task default/a-0"
    placed = extender.asked("allocate").count("task default/b-0")
    assert extender.asked("deallocate").count("task default/b-0") == placed


def test_a_placement_that_the_extender_refuses_is_not_bound() -> None:
    plan, _ = made(f"{NODES}job a: 1 x cpu=1", {"allocate": lambda _: {"errorMessage": "no seat"}})
    assert not plan.of(Bind)


@pytest.mark.parametrize("verb", ["predicate", "overused", "ready", "allocate", "open"])
def test_a_failure_rejects_unless_it_is_ignorable(verb: str) -> None:
    rules: Rules = {verb: failing} | ({"predicate": lambda _: {}} if verb == "open" else {})
    plan, _ = made(f"{NODES}job a: 1 x cpu=1", rules)
    assert not plan.of(Bind)
    plan, _ = made(f"{NODES}job a: 1 x cpu=1", rules, ignorable=True)
    assert list(binds(plan)) == ["a-0"]


def test_an_extender_that_is_down_is_not_asked_again_in_the_cycle() -> None:
    plan, extender = made(f"{NODES}job a: 1 x cpu=1\njob b: 1 x cpu=2", {"predicate": failing})
    assert {subject.partition(" node")[0] for subject in extender.asked("predicate")} == {"task default/a-0"}
    assert all("does not answer within 1 s" in str(explain.message) for explain in plan.of(Explain))


def test_an_invalid_answer_is_named() -> None:
    plan, _ = made("node n1 cpu=8\njob a: 1 x cpu=1", {"predicate": lambda _: Answer(b'{"status": 7}')})
    assert "extender http://x:1/ returned an invalid answer to predicate" in reason(plan)


def test_without_a_port_and_for_answers_that_were_not_recorded_it_has_no_opinion() -> None:
    arguments = {"extender.urlPrefix": URL, "extender.predicateVerb": "p", "extender.jobReadyVerb": "r"}
    config = configured({"gang": {}, "predicates": {}, "extender": arguments})
    text = f"{NODES}job a: 1 x cpu=1"
    assert list(binds(schedule(seen(text), config))) == ["a-0"]
    plan, _ = made(text, {"predicate": lambda _: Answer(), "ready": lambda _: Answer()})
    assert list(binds(plan)) == ["a-0"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"extender.predicateVerb": "p"}, "extender.urlPrefix must be set: extender.predicateVerb names a verb"),
        ({"extender.urlPrefix": "127.0.0.1:80"}, "must be a URL such as http://127.0.0.1:8713, not '127.0.0.1:80'"),
        ({"extender.httpTimeout": "0s"}, "must be a duration above zero such as 100ms or 1s"),
        ({"extender.prioritiseVerb": "p"}, "did you mean 'extender.prioritizeVerb'?"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    assert message in argument_error("extender", arguments)
