"""What ``explain job`` says, from what is known: data in, a sentence and gates out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from volcanopy.cli.explaining.account import JobAccount, Mark
from volcanopy.cli.explaining.job import JobFacts, account_of
from volcanopy.cli.explaining.text import job_lines, plain
from volcanopy.kube.client.kinds import Json

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
WHY = "0/3 nodes are available: 3 Insufficient cpu"
NODES = {
    "gate": "nodes",
    "message": WHY,
    "unblockedBy": 'release of 1 cpu on node "n1"',
    "nodes": {"Insufficient cpu": 3},
}


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def a_job(
    phase: str = "Pending", message: str = "", *, age: float = 300, spec: Json | None = None, **status: Any
) -> Json:
    state = {"phase": phase, "message": message, "lastTransitionTime": ago(60)}
    task = {"name": "main", "replicas": 2}
    return {
        "metadata": {"name": "train", "namespace": "lab", "uid": "u", "creationTimestamp": ago(age)},
        "spec": {"queue": "research", "tasks": [task], **(spec or {})},
        "status": {"state": state, "minAvailable": 2, **status} if phase else {},
    }


def a_group(phase: str = "Inqueue", why: Json | None = None, *, age: float = 300, **spec: Any) -> Json:
    status: Json = {"phase": phase} if phase else {}
    status |= {"explanation": why} if why else {}
    return {"metadata": {"name": "train-u", "creationTimestamp": ago(age)}, "spec": spec, "status": status}


def a_pod(name: str, phase: str = "Pending", node: str = "n1", **status: Any) -> Json:
    labels = {"volcanopy.io/task-spec": "main"}
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": phase, **status}}


def waiting(reason: str, message: str = "", **more: Any) -> list[Json]:
    return [{"name": "c", "image": "trainer:1", "state": {"waiting": {"reason": reason, "message": message}}, **more}]


def said(job: Json, group: Json | None = None, **facts: Any) -> JobAccount:
    return account_of(JobFacts(job=job, now=NOW, group=group, **facts))


LEASE = {"spec": {"renewTime": ago(900), "leaseDurationSeconds": 10}}
PULLING = a_pod("train-0", containerStatuses=waiting("ImagePullBackOff", "Back-off pulling image"))
CRASHED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
CRASHING = a_pod("train-1", "Running", containerStatuses=waiting("CrashLoopBackOff", lastState=CRASHED))
TASKS = {
    "tasks": [
        {"name": "ps", "replicas": 1},
        {"name": "worker", "replicas": 3, "dependsOn": {"name": ["ps"]}},
    ]
}

VERDICTS: dict[str, tuple[JobAccount, str, str]] = {
    "refused by nodes": (said(a_job(), a_group(why=NODES)), "waits", f"waits: {WHY}"),
    "just made": (
        said(a_job("", age=2)),
        "waits",
        "waits: it was made a moment ago, and the job controller has yet to look at it",
    ),
    "no controller": (
        said(a_job("", age=400)),
        "waits",
        "waits: the job controller has not looked at it for 6m40s: is it running?",
    ),
    "no queue": (said(a_job(), queue_missing=True), "waits", "waits: queue research does not exist"),
    "no group yet": (said(a_job()), "waits", "waits: the job controller has yet to make its pod group"),
    "no scheduler": (
        said(a_job(), a_group("")),
        "waits",
        "waits: no scheduler has looked at it for 5m: is it running?",
    ),
    "scheduler that has stopped": (
        said(a_job(), a_group(""), lease=LEASE),
        "waits",
        "waits: no scheduler has looked at it for 5m: is it running? (its lease was last renewed 15m ago)",
    ),
    "scheduler yet to look": (said(a_job(), a_group("", age=3)), "waits", "waits: the scheduler has yet to look at it"),
    "another scheduler": (
        said(a_job(spec={"schedulerName": "other"}), a_group("")),
        "waits",
        "waits: its pods are for scheduler other, which has not looked at it for 5m; volcanopy's own is called volcanopy",
    ),
    "not looked at": (
        said(a_job(message="waits in queue research"), a_group("Pending")),
        "waits",
        "waits in queue research",
    ),
    "image missing": (
        said(a_job(), a_group(), pods=[PULLING]),
        "starts",
        "cannot start: pod train-0: image trainer:1 cannot be had (ImagePullBackOff: Back-off pulling image)",
    ),
    "pods being made": (
        said(a_job(pending=2), a_group()),
        "starts",
        "starts: 0 of 2 pods that it needs run or have run",
    ),
    "pods without a node": (
        said(a_job(pending=2), a_group(), pods=[a_pod("train-0", node=""), a_pod("train-1", node="")]),
        "waits",
        "waits: the scheduler has yet to find nodes for 2 pods",
    ),
    "a task after another": (
        said(a_job(spec=TASKS, taskStatusCount={"ps": {"phase": {"Pending": 1}}}), a_group()),
        "waits",
        "waits: task worker waits for task ps (0 of 1 ready)",
    ),
    "running": (
        said(a_job("Running", "2 of 2 pods running", running=2), a_group("Running")),
        "runs",
        "runs: 2 of 2 pods running",
    ),
    "running with a crash": (
        said(a_job("Running", "1 of 2 pods running"), a_group("Running"), pods=[CRASHING]),
        "runs",
        "runs: 1 of 2 pods running; pod train-1 crashes again and again: container c ended with exit code 137 (OOMKilled)",
    ),
    "running in part": (
        said(a_job("Running", "2 of 3 pods running"), a_group("Running"), pods=[a_pod("train-2", node="")]),
        "runs",
        "runs: 2 of 3 pods running; 1 pod waits for a node",
    ),
    "completed": (said(a_job("Completed", "2 pods succeeded")), "completed", "completed 60s ago: 2 pods succeeded"),
    "failed": (said(a_job("Failed", "pod train-0 failed")), "failed", "failed 60s ago: pod train-0 failed"),
    "suspended": (
        said(a_job("Aborted", "a person asked for it")),
        "suspended",
        "is suspended, since 60s: a person asked for it; `volcanopy job resume train` lets it go on",
    ),
    "on its way out": (
        said(a_job("Terminating", "enough", terminating=1)),
        "terminating",
        "is being terminated, 1 pod still leaving: enough",
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdict_is_one_sentence(name: str) -> None:
    account, stands, sentence = VERDICTS[name]
    assert (account.stands, account.verdict) == (stands, f"job train {sentence}")
    assert plain(job_lines(account)).splitlines()[0] == account.verdict


def marks(account: JobAccount) -> str:
    letters = {Mark.PASSED: "+", Mark.HELD: "x", Mark.UNASKED: ".", Mark.NEEDLESS: "-"}
    return "".join(letters[one.mark] for one in account.gates)


@pytest.mark.parametrize(
    ("phase", "gate", "close", "expected"),
    [
        ("Pending", "queue", False, "x...-."),
        ("Pending", "overcommit", False, "+x..-."),
        ("Pending", "quota", True, "+x...."),
        ("Pending", "capability", False, "+x..-."),
        ("Pending", "limits", False, "+x..-."),
        ("Inqueue", "queue", False, "x+..-."),
        ("Inqueue", "share", False, "++x+-."),
        ("Inqueue", "capability", True, "++x+.."),
        ("Inqueue", "limits", False, "++x+-."),
        ("Inqueue", "gang", True, "++.x.."),
        ("Inqueue", "topology", True, "++++x."),
        ("Inqueue", "nodes", True, "+++++x"),
        ("Inqueue", "nodes", False, "++++-x"),
        ("Inqueue", "actions", False, "++++-x"),
        ("Unknown", "nodes", False, "++++-x"),
    ],
)
def test_what_was_passed_has_a_tick_and_what_comes_later_was_not_asked(
    phase: str, gate: str, close: bool, expected: str
) -> None:
    topology: Json = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}} if close else {}
    account = said(a_job(pending=2), a_group(phase, {"gate": gate, "message": "m", "unblockedBy": "u"}, **topology))
    assert marks(account) == expected


def test_the_gate_says_the_number_that_is_missing() -> None:
    amounts = {
        "requested": {"cpu": "2", "memory": "1Gi"},
        "available": {"cpu": "500m", "memory": "8Gi"},
        "limit": {"cpu": "4"},
    }
    why = {"gate": "share", "message": "m", "numbers": {"needed": "3", "fit": "1"}, "amounts": amounts}
    account = said(a_job(), a_group(why=why))
    held = next(one for one in account.gates if one.mark is Mark.HELD)
    assert held.text == "1 of 3 pods fit; cpu: 2 wanted, 500m free of 4"
    nodes = next(one for one in account.gates if one.name == "nodes")
    assert nodes.text == "1 of 3 pods had found a place"


def test_pods_of_which_the_same_is_to_be_said_are_told_once() -> None:
    pods = [a_pod(f"train-{number}", node="") for number in range(5)]
    account = said(a_job(), a_group(why=NODES), pods=[*pods, PULLING, a_pod("done", "Succeeded")])
    assert [(one.state, len(one.names)) for one in account.pods] == [("cannot start", 1), ("waits for a node", 5)]
    assert "5 pods of task main, wait for a node: train-0, train-1, train-2 and 2 more" in plain(job_lines(account))


def test_what_may_not_be_read_is_said_and_the_verdict_stands() -> None:
    account = said(a_job(), a_group(why=NODES), unread=("queue research may not be read by you",))
    assert account.verdict == f"job train waits: {WHY}"
    assert plain(job_lines(account)).endswith("Note\n  queue research may not be read by you")


def test_a_scheduler_that_is_down_is_told_beside_what_it_said() -> None:
    account = said(a_job(), a_group(why=NODES), lease=LEASE)
    assert account.notes == (
        "the scheduler seems to be down: its lease was last renewed 15m ago; this is what it said before",
    )


def test_the_document_holds_what_the_text_tells() -> None:
    why = {**NODES, "blockedBy": ["job lab/other"], "numbers": {"position": "2"}}
    told = said(a_job(), a_group(why=why), pods=[PULLING]).document()
    assert (told["kind"], told["stands"], told["gate"], told["waitsFor"]) == (
        "JobExplanation",
        "waits",
        "nodes",
        ["job lab/other"],
    )
    assert [one["state"] for one in told["gates"]] == [
        "passed",
        "passed",
        "passed",
        "passed",
        "not asked for",
        "held",
    ]
    assert told["pods"][0]["names"] == ["train-0"]
    assert "notes" not in told
