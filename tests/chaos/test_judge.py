"""The judge notices every broken rule, and only those."""

from typing import Any

import pytest

from chaos.judge import Judge, units
from volcanopy.api import quantity

Json = dict[str, Any]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def node(name: str, cpu: str) -> Json:
    return {"metadata": {"name": name, "uid": name}, "status": {"allocatable": {"cpu": cpu, "pods": "10"}}}


def job(name: str, replicas: int, least: int, phase: str = "Running") -> Json:
    spec = {"minAvailable": least, "tasks": [{"name": "t", "replicas": replicas}]}
    return {"metadata": {"name": name, "uid": f"u-{name}"}, "spec": spec, "status": {"state": {"phase": phase}}}


def pod(name: str, on: str = "", phase: str = "Running", of: str = "a", cpu: str = "1") -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    owners = [{"uid": f"u-{of}"}]
    return {
        "metadata": {"namespace": "x", "name": name, "uid": f"u-{name}", "ownerReferences": owners},
        "spec": {"nodeName": on, "containers": [container]} if on else {"containers": [container]},
        "status": {"phase": phase},
    }


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def judge(clock: Clock) -> Judge:
    judge = Judge("x", window=30, clock=clock)
    judge.node(node("n1", "2"), False)
    judge.node(node("n2", "2"), False)
    return judge


def see(judge: Judge, *pods: Json) -> None:
    for each in pods:
        judge.pod(each, False)


def test_a_job_that_runs_and_completes_breaks_no_rule(judge: Judge) -> None:
    judge.expected["a"] = 2
    judge.job(job("a", 2, 2, "Pending"), False)
    see(judge, pod("p1"), pod("p2"), pod("p1", "n1"), pod("p2", "n2"))
    see(judge, pod("p1", "n1", "Succeeded"), pod("p2", "n2", "Succeeded"))
    judge.job(job("a", 2, 2, "Completed"), False)
    judge.finish()
    assert judge.faults == []
    assert judge.ends == {"Completed": 1}


def test_a_pod_that_changes_its_node(judge: Judge) -> None:
    see(judge, pod("p", "n1"), pod("p", "n2"))
    assert judge.faults == ["pod x/p is bound to n2 after n1"]


def test_a_node_with_more_than_it_has(judge: Judge) -> None:
    see(judge, pod("p1", "n1"), pod("p2", "n1"))
    assert judge.faults == []
    see(judge, pod("p3", "n1"))
    assert judge.faults == ["node n1 has cpu 2000, and its pods request 3000 with x/p3"]


def test_a_node_that_says_what_it_has_after_its_pods_were_seen(judge: Judge) -> None:
    late = node("n3", "2")
    judge.node({**late, "status": {}}, False)
    see(judge, pod("a-0", "n3"), pod("a-1", "n3"), pod("a-2", "n3"))
    assert judge.faults == []
    judge.node(late, False)
    assert judge.faults == ["node n3 has cpu 2000, and its pods request 3000 with x/a-2"]


def test_a_finished_pod_leaves_its_place(judge: Judge) -> None:
    see(judge, pod("p1", "n1", cpu="2"), pod("p1", "n1", "Succeeded", cpu="2"), pod("p2", "n1", cpu="2"))
    assert judge.faults == []


def test_more_pods_than_replicas(judge: Judge) -> None:
    judge.job(job("a", 1, 1), False)
    see(judge, pod("p1"), pod("p2"))
    assert judge.faults == ["job a has 1 replicas and 2 active pods"]


def test_a_part_of_a_gang_that_runs_alone_for_too_long(judge: Judge, clock: Clock) -> None:
    judge.job(job("a", 2, 2), False)
    see(judge, pod("p1", "n1"), pod("p2"))
    clock.now = 20
    see(judge, pod("p2", "n2"))
    assert (judge.longest_part, judge.faults) == (20, [])
    judge.pod(pod("p2", "n2"), True)
    clock.now = 60
    judge.finish()
    assert "part of the gang of job a ran alone for 40 s" in judge.faults


def test_an_end_that_is_none(judge: Judge) -> None:
    judge.job(job("a", 1, 1, "Completed"), False)
    judge.job(job("a", 1, 1, "Running"), False)
    assert judge.faults == ["job a is Running after Completed"]


def test_a_job_that_is_lost_and_one_without_an_end(judge: Judge) -> None:
    judge.expected |= {"a": 1, "b": 1}
    judge.job(job("b", 1, 1, "Pending"), False)
    judge.finish()
    assert judge.faults == ["job a is lost", "job b Pending: no end"]


def test_what_is_left_is_named(judge: Judge) -> None:
    see(judge, pod("p1"))
    judge.group({"metadata": {"namespace": "x", "name": "g", "uid": "g"}}, False)
    assert judge.left() == ["PodGroup x/g", "pod x/p1"]


@pytest.mark.parametrize("name", ["cpu", "memory"])
@pytest.mark.parametrize("text", ["1", "500m", "1.5", ".5", "2Gi", "3k", "1e3", "1E-2", "1P", "100n", "7u", "0", "12M"])
def test_the_judge_reads_amounts_as_the_services_do(name: str, text: str) -> None:
    assert units(name, text) == quantity.amount(name, text)


def test_an_amount_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ValueError, match="cpu is 'two', which is no amount"):
        units("cpu", "two")
