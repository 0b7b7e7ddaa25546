"""Reports of ``explain job``: objects in, a summary and gates out."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.cli.fake_api_server import FakeApiServer, forbidden
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.core import PodGroup
from volcanopy.api.gates import GATES
from volcanopy.cli.explain.text import job_lines, plain
from volcanopy.client.explain.cluster_reads import start_warnings
from volcanopy.client.explain.job import JobFacts, Lease, job_report
from volcanopy.client.explain.report import GateRow, GateState, JobReport
from volcanopy.client.jobs import status as job_status
from volcanopy.client.jobs.pods import Pod
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.whatif.answer import JobAnswer
from volcanopy.whatif.starts import Start
from volcanopy.whatif.target import Target

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
MESSAGE = "0/3 nodes are available: 3 Insufficient cpu"
NODES = {"gate": "nodes", "message": MESSAGE, "unblockedBy": "1 more cpu on node n1", "nodes": {"Insufficient cpu": 3}}


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def a_job(
    phase: str = "Pending",
    message: str = "",
    *,
    reason: str = "",
    age: float = 300,
    spec: Json | None = None,
    metadata: Json | None = None,
    **status: Any,
) -> Json:
    state = {"phase": phase, "reason": reason, "message": message, "lastTransitionTime": ago(60)}
    task = {"name": "main", "replicas": 2}
    return {
        "metadata": {
            "name": "train",
            "namespace": "lab",
            "uid": "u",
            "creationTimestamp": ago(age),
            **(metadata or {}),
        },
        "spec": {"queue": "research", "tasks": [task], **(spec or {})},
        "status": {"state": state, "minAvailable": 2, **status} if phase else {},
    }


def a_group(phase: str = "Inqueue", reason: Json | None = None, *, age: float = 300, **spec: Any) -> Json:
    status: Json = {"phase": phase} if phase else {}
    status |= {"explanation": reason} if reason else {}
    return {"metadata": {"name": "train-u", "creationTimestamp": ago(age)}, "spec": spec, "status": status}


def a_pod(name: str, phase: str = "Pending", node: str = "n1", **status: Any) -> Json:
    labels = {"volcanopy.io/task-spec": "main"}
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": phase, **status}}


def waiting(reason: str, message: str = "", **more: Any) -> list[Json]:
    return [{"name": "c", "image": "trainer:1", "state": {"waiting": {"reason": reason, "message": message}}, **more}]


def report(job: Json, group: Json | None = None, pods: list[Json] | None = None, **facts: Any) -> JobReport:
    return job_report(
        JobFacts(
            job=msgspec.convert(job, BatchJob),
            now=NOW,
            group=msgspec.convert(group, PodGroup) if group is not None else None,
            pods=msgspec.convert(pods, list[Pod]) if pods is not None else None,
            **facts,
        )
    )


LEASE = msgspec.convert({"spec": {"renewTime": ago(900), "leaseDurationSeconds": 10}}, Lease)
PULLING = a_pod("train-0", containerStatuses=waiting("ImagePullBackOff", "Back-off pulling image"))
CRASHED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
CRASHING = a_pod("train-1", "Running", containerStatuses=waiting("CrashLoopBackOff", lastState=CRASHED))
TASKS = {
    "tasks": [
        {"name": "ps", "replicas": 1},
        {"name": "worker", "replicas": 3, "dependsOn": {"name": ["ps"]}},
    ]
}

DELETED = a_job(
    "Running",
    "2/2 pods running",
    running=2,
    metadata={"deletionTimestamp": ago(60), "finalizers": ["example.com/backup", "foregroundDeletion"]},
)

SUMMARIES: dict[str, tuple[JobReport, str, str]] = {
    "rejected by nodes": (report(a_job(), a_group(reason=NODES)), "pending", f"is pending: {MESSAGE}"),
    "just created": (report(a_job("", age=2)), "pending", "is pending: not processed by the controller yet"),
    "no controller": (
        report(a_job("", age=400)),
        "pending",
        "is pending: not processed by the controller for 6m40s; check that it is running",
    ),
    "no queue": (report(a_job(), queue_missing=True), "pending", 'is pending: queue "research" not found'),
    "no group yet": (report(a_job()), "pending", "is pending: the controller has not created its pod group yet"),
    "no scheduler": (
        report(a_job(), a_group("")),
        "pending",
        "is pending: not processed by the scheduler for 5m; check that it is running",
    ),
    "stopped scheduler": (
        report(a_job(), a_group(""), lease=LEASE),
        "pending",
        "is pending: not processed by the scheduler for 5m; check that it is running "
        "(its lease was last renewed 15m ago)",
    ),
    "group just created": (
        report(a_job(), a_group("", age=3)),
        "pending",
        "is pending: not processed by the scheduler yet",
    ),
    "another scheduler": (
        report(a_job(spec={"schedulerName": "other"}), a_group("")),
        "pending",
        'is pending: not processed by its scheduler "other" for 5m; volcanopy\'s scheduler is named "volcanopy"',
    ),
    "no explanation": (
        report(a_job(message="not admitted yet"), a_group("Pending")),
        "pending",
        "is pending: not admitted yet",
    ),
    "image missing": (
        report(a_job(), a_group(), pods=[PULLING]),
        "starting",
        'cannot start: pod "train-0" cannot start: cannot pull image "trainer:1": '
        "ImagePullBackOff: Back-off pulling image",
    ),
    "pods created": (report(a_job(pending=2), a_group()), "starting", "is starting: 0/2 pods started"),
    "pods without a node": (
        report(a_job(pending=2), a_group(), pods=[a_pod("train-0", node=""), a_pod("train-1", node="")]),
        "pending",
        "is pending: 2 pods not processed by the scheduler yet",
    ),
    "task after another": (
        report(a_job(spec=TASKS, taskStatusCount={"ps": {"phase": {"Pending": 1}}}), a_group()),
        "pending",
        'is pending: task "worker" waits for task "ps" (0/1 ready)',
    ),
    "running, with pods that do not exist": (
        report(
            a_job(
                "Running",
                "24/1000 pods running",
                spec={"tasks": [{"name": "sweep", "replicas": 1000}]},
                taskStatusCount={"sweep": {"phase": {"Running": 24, "Pending": 258}}},
            ),
            a_group("Running"),
        ),
        "running",
        'is running: 24/1000 pods running; 718 pods of task "sweep" are created when others have nodes',
    ),
    "deleted, with finalizers of others": (
        report(DELETED, a_group("Running")),
        "deleting",
        "is being deleted: waits for finalizer example.com/backup, foregroundDeletion",
    ),
    "running": (
        report(a_job("Running", "2/2 pods running", running=2), a_group("Running")),
        "running",
        "is running: 2/2 pods running",
    ),
    "running with a crash": (
        report(a_job("Running", "1/2 pods running"), a_group("Running"), pods=[CRASHING]),
        "running",
        'is running: 1/2 pods running; pod "train-1" crashing: container "c" exited with code 137 (OOMKilled)',
    ),
    "running with a pod that cannot start": (
        report(
            a_job("Running", "1/2 pods running, pod train-0 cannot start: ...", reason="PodStartFailed"),
            a_group("Running"),
            pods=[PULLING],
        ),
        "running",
        "is running: 1/2 pods running, pod train-0 cannot start: ...",
    ),
    "running in part": (
        report(a_job("Running", "2/3 pods running"), a_group("Running"), pods=[a_pod("train-2", node="")]),
        "running",
        "is running: 2/3 pods running; 1 pod unscheduled",
    ),
    "completed": (report(a_job("Completed", "2 pods succeeded")), "completed", "completed 60s ago: 2 pods succeeded"),
    "failed": (report(a_job("Failed", "pod train-0 failed")), "failed", "failed 60s ago: pod train-0 failed"),
    "suspended": (
        report(a_job("Aborted", "by user request")),
        "suspended",
        "is suspended since 60s: by user request; resume it with `volcanopy job resume train`",
    ),
    "terminating": (
        report(a_job("Terminating", "by user request", terminating=1)),
        "terminating",
        "is being terminated: by user request; 1 pod terminating",
    ),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_summary_is_one_sentence(name: str) -> None:
    result, state, sentence = SUMMARIES[name]
    assert (result.state, result.summary) == (state, f'job "train" {sentence}')
    assert plain(job_lines(result)).splitlines()[0] == result.summary


def marks(result: JobReport) -> str:
    letters = {
        GateState.PASSED: "+",
        GateState.BLOCKED: "x",
        GateState.UNCHECKED: ".",
        GateState.NOT_REQUIRED: "-",
    }
    return "".join(letters[row.state] for row in result.gates)


@pytest.mark.parametrize(
    ("phase", "gate", "topology", "expected"),
    [
        # queue quota overcommit limits gang share capability topology nodes actions
        ("Pending", "queue", False, "x......-.."),
        ("Pending", "overcommit", False, "+.x....-.."),
        ("Pending", "quota", True, "+x........"),
        ("Pending", "capability", False, "+.....x-.."),
        ("Pending", "limits", False, "+..x...-.."),
        ("Pending", "actions", False, ".......-.x"),
        ("Inqueue", "queue", False, "x++....-.."),
        ("Inqueue", "share", False, "+++.+x.-.+"),
        ("Inqueue", "capability", True, "+++.+.x..+"),
        ("Inqueue", "limits", False, "+++x+..-.+"),
        ("Inqueue", "gang", True, "+++.x....+"),
        ("Inqueue", "topology", True, "+++++++x.+"),
        ("Inqueue", "nodes", True, "++++++++x+"),
        ("Inqueue", "nodes", False, "+++++++-x+"),
        ("Inqueue", "actions", False, ".++....-.x"),
        ("Unknown", "nodes", False, "+++++++-x+"),
    ],
)
def test_only_passed_gates_are_ticked(phase: str, gate: str, topology: bool, expected: str) -> None:
    spec: Json = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}} if topology else {}
    result = report(a_job(pending=2), a_group(phase, {"gate": gate, "message": "m", "unblockedBy": "u"}, **spec))
    assert marks(result) == expected
    assert [row.name for row in result.gates] == [gate.value for gate in GATES]


def test_the_blocked_gate_has_the_missing_amounts() -> None:
    amounts = {
        "requested": {"cpu": "2", "memory": "1Gi"},
        "allocated": {"cpu": "3500m", "memory": "1Gi"},
        "available": {"cpu": "500m", "memory": "8Gi"},
        "limit": {"cpu": "4"},
    }
    reason = {"gate": "share", "message": "m", "numbers": {"needed": "3", "fit": "1"}, "amounts": amounts}
    rows = {row.name: row for row in report(a_job(), a_group(reason=reason)).gates}
    assert rows["share"].message == "1/3 pods can be placed; cpu requested 2, allocated 3.5, limit 4"
    assert rows["nodes"].message == "1/3 pods can be placed"


def test_gate_rows_are_aligned_to_the_longest_name() -> None:
    gates = (
        GateRow("a", GateState.PASSED, "first"),
        GateRow("much-longer-than-overcommit", GateState.BLOCKED, "second"),
        GateRow("capability", GateState.UNCHECKED, ""),
    )
    lines = plain(job_lines(replace(report(a_job(), a_group()), gates=gates))).splitlines()
    texts = ("first", "second", "not checked")
    rows = lines[lines.index("Gates") + 1 :][: len(texts)]
    assert {row.index(text) for row, text in zip(rows, texts, strict=True)} == {4 + len(gates[1].name) + 1}


def test_pods_with_the_same_problem_share_a_line() -> None:
    pods = [a_pod(f"train-{number}", node="") for number in range(5)]
    result = report(a_job(), a_group(reason=NODES), pods=[*pods, PULLING, a_pod("done", "Succeeded")])
    assert [(problem.state, len(problem.names)) for problem in result.pods] == [("cannot start", 1), ("unscheduled", 5)]
    text = plain(job_lines(result))
    assert '5 pods of task "main" unscheduled: train-0, train-1, train-2 and 2 more' in text


MOUNT = 'MountVolume.SetUp failed for volume "data"'


def an_event(number: int, kind: str, reason: str, message: str = "", pod: str = "train-0") -> Json:
    metadata = {"name": f"e{number}", "namespace": "lab"}
    about = {"kind": "Pod", "name": pod}
    when = ago(60 - number)
    return {
        "metadata": metadata,
        "involvedObject": about,
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": when,
    }


@pytest.mark.parametrize(
    ("events", "warnings"),
    [
        ([an_event(1, "Normal", "Scheduled"), an_event(2, "Warning", "FailedMount", MOUNT)], {"train-0"}),
        ([an_event(1, "Warning", "FailedMount", MOUNT), an_event(2, "Normal", "Pulling")], set()),
        ([an_event(1, "Warning", "FailedScheduling", "0/3 nodes are available")], set()),
        ([], set()),
    ],
)
async def test_a_pod_whose_latest_event_is_a_warning_of_its_kubelet_cannot_start(
    server: FakeApiServer, tmp_path: Path, events: list[Json], warnings: set[str]
) -> None:
    server.has("/api/v1/namespaces/lab/events", *events)
    unstarted = a_pod("train-0", containerStatuses=waiting("ContainerCreating"))
    unstarted["metadata"] |= {"namespace": "lab", "uid": "p"}
    pods = msgspec.convert([unstarted, a_pod("train-1", "Running")], list[Pod])
    async with Client(load_connection(server.kubeconfig(tmp_path))) as client:
        found = await start_warnings(client, pods)
    assert found.keys() == warnings
    assert [query["fieldSelector"] for _, _, query, _ in server.asked] == [["involvedObject.uid=p"]]
    result = report(a_job(), a_group(), pods=[unstarted], warnings=found)
    text = f'job "train" cannot start: pod "train-0" cannot start: FailedMount: {MOUNT}'
    assert (result.summary == text) == bool(warnings)


async def test_events_that_may_not_be_read_are_left_out(server: FakeApiServer, tmp_path: Path) -> None:
    server.answers["GET", "/api/v1/namespaces/default/events"] = forbidden("list", "events")
    async with Client(load_connection(server.kubeconfig(tmp_path))) as client:
        assert await start_warnings(client, msgspec.convert([a_pod("train-0")], list[Pod])) == {}


@pytest.mark.parametrize(
    ("end", "text"),
    [
        ({"exitCode": 127, "reason": "StartError", "message": "no\ncommand"}, "127 (StartError): no command"),
        ({"exitCode": 1, "reason": "Error"}, "1"),
    ],
)
def test_the_problem_of_a_failed_or_crashing_pod_has_the_text_of_its_container(end: Json, text: str) -> None:
    ended = [{"name": "c", "state": {"terminated": end}}]
    pods = [
        a_pod("train-0", "Failed", containerStatuses=ended),
        a_pod("train-1", "Running", containerStatuses=waiting("CrashLoopBackOff", lastState={"terminated": end})),
    ]
    lines = plain(job_lines(report(a_job("Failed", "..."), pods=pods))).splitlines()
    assert lines.count(f'    container "c" exited with code {text}') == 2


def test_the_end_of_a_sidecar_is_not_the_problem_of_a_failed_pod() -> None:
    ended = {"state": {"terminated": {"exitCode": 143}}}, {"state": {"terminated": {"exitCode": 3}}}
    failed = a_pod(
        "train-0",
        "Failed",
        initContainerStatuses=[{"name": "proxy", **ended[0]}],
        containerStatuses=[{"name": "c", **ended[1]}],
    )
    failed["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    lines = plain(job_lines(report(a_job("Failed", "..."), pods=[failed]))).splitlines()
    assert '    container "c" exited with code 3' in lines


@pytest.mark.parametrize(
    ("phase", "reason", "shown"),
    [
        ("Running", "Started", ""),
        ("Completed", "Succeeded", ""),
        ("Running", "PodStartFailed", "why"),
        ("Running", "ScaledToZero", "why"),
        ("Pending", "PodStartFailed", "why"),
        ("Failed", "TaskFailed", "why"),
    ],
)
def test_a_list_shows_the_message_of_jobs_that_do_not_run_as_usual(phase: str, reason: str, shown: str) -> None:
    assert job_status.reason(msgspec.convert(a_job(phase, "why", reason=reason), BatchJob)) == shown


def test_objects_that_may_not_be_read_are_noted() -> None:
    result = report(a_job(), a_group(reason=NODES), unread=('you may not read queue "research": not included',))
    assert result.summary == f'job "train" is pending: {MESSAGE}'
    assert plain(job_lines(result)).endswith('Notes\n  you may not read queue "research": not included')


def _answered(start: Start, gate: str = "", message: str = "") -> JobAnswer:
    return JobAnswer(Target("lab/train-u"), "research", start, gate=gate, message=message, searched=True)


def test_what_the_engine_knows_is_the_headline_where_the_scheduler_explains_nothing() -> None:
    """The templates name another scheduler: its pods have no explanation."""
    message = 'the pods have schedulerName "other": volcanopy does not schedule them'
    pods = [a_pod("train-0", node=""), a_pod("train-1", node="")]
    foreign = report(a_job(pending=2), a_group(), pods=pods, answer=_answered(Start.NEVER, "gang", message))
    assert (foreign.summary, foreign.gate) == (f'job "train" is pending: {message}', "gang")
    assert {row.name: row.state for row in foreign.gates}["gang"] is GateState.BLOCKED


def test_a_job_that_no_controller_has_seen_is_the_headline_whatever_the_engine_knows() -> None:
    unseen = report(a_job("", age=400), answer=_answered(Start.NEVER, "nodes", MESSAGE))
    assert unseen.summary.endswith("not processed by the controller for 6m40s; check that it is running")


@pytest.mark.parametrize(("start", "is_added"), [(Start.NEVER, True), (Start.AFTER, False)])
def test_what_keeps_a_job_from_starting_in_an_empty_cluster_is_in_the_summary(start: Start, is_added: bool) -> None:
    """The cluster is full, and no node is large enough: more free resources would not help."""
    full = {"gate": "nodes", "message": "too little is free in the cluster: cpu requested 6, allocated 8, capacity 8"}
    summary = report(a_job(), a_group(reason=full), answer=_answered(start, "nodes", MESSAGE)).summary
    expected = f'job "train" is pending: {full["message"]}'
    added = f"; it does not start when all other jobs have ended: {MESSAGE}"
    assert summary == expected + added * is_added


@pytest.mark.parametrize("start", [Start.NOW, Start.NEVER])
def test_rejected_pods_are_the_headline_whatever_the_engine_knows(start: Start) -> None:
    """Another webhook rejects them, which no snapshot contains: the job does not start now."""
    job = a_job(message='pods "train-0" is forbidden: no bad pods')
    job["status"]["state"]["reason"] = "FailedSync"
    rejected = report(job, a_group(), answer=_answered(start, "gang", 'pods "train-0" is forbidden: no bad pods'))
    assert rejected.summary == 'job "train" is pending: pods "train-0" is forbidden: no bad pods'
    assert rejected.result != Start.NOW.value
    assert {row.name: row.state for row in rejected.gates}["gang"] is GateState.BLOCKED


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting"])
def test_pods_that_cannot_terminate_are_in_the_summary_once(phase: str) -> None:
    stuck = '1 pod cannot terminate: node "n" NotReady'
    condition = {"type": "NodeNotReady", "status": "True", "message": stuck}
    summary = report(a_job(phase, f"pods wait; {stuck}", conditions=[condition]), a_group()).summary
    assert summary.count(stuck) == 1


def test_a_stopped_scheduler_is_noted() -> None:
    result = report(a_job(), a_group(reason=NODES), lease=LEASE)
    assert result.notes == (
        "the scheduler seems to be down: its lease was last renewed 15m ago; this report may be outdated",
    )


def test_the_document_has_the_content_of_the_text() -> None:
    reason = {**NODES, "blockedBy": ["job lab/other"], "numbers": {"position": "2"}}
    document = report(a_job(), a_group(reason=reason), pods=[PULLING]).document()
    assert (document["kind"], document["state"], document["gate"], document["blockedBy"]) == (
        "JobExplanation",
        "pending",
        "nodes",
        ["job lab/other"],
    )
    assert [row["state"] for row in document["gates"]][-3:] == ["not required", "blocked", "passed"]
    assert document["pods"][0]["names"] == ["train-0"]
    assert "notes" not in document


SPEC = {"alternatives": [{"name": "gpu"}, {"name": "cpu"}]}


def test_a_waiting_job_with_alternatives_shows_what_is_expected_of_each() -> None:
    numbers = {"alternative": "gpu", "alternative.cpu": "starts now, finishes late", "alternative.gpu": "starts soon"}
    reason = {"gate": "overcommit", "message": 'alternative "gpu": overcommit limit', "numbers": numbers}
    made = report(a_job(spec=SPEC), a_group("Pending", reason))
    assert made.alternatives == ('waits with "gpu"', "gpu starts soon", "cpu starts now, finishes late")
    assert 'Alternatives\n  waits with "gpu"\n  gpu starts soon\n' in plain(job_lines(made))


def test_an_admitted_job_shows_the_selected_alternative() -> None:
    chosen = {"name": "cpu", "message": "gpu starts late; cpu starts now"}
    made = report(a_job("Running", spec=SPEC, alternative=chosen), a_group("Running"))
    assert made.alternatives == ('"cpu" was selected', "gpu starts late", "cpu starts now")
    assert made.document()["alternatives"] == list(made.alternatives)


def test_lists_and_waits_show_that_a_job_is_being_deleted() -> None:
    job = msgspec.convert(DELETED, BatchJob)
    assert job_status.reason(job) == "being deleted: waits for finalizer example.com/backup, foregroundDeletion"
    assert job_status.summary(job) == f"Running: {job_status.reason(job)}"


def test_a_pod_that_a_finalizer_keeps_is_terminating_with_the_name_of_the_finalizer() -> None:
    pod = a_pod("train-0", "Failed")
    pod["metadata"] |= {"deletionTimestamp": ago(60), "finalizers": ["example.com/hold"]}
    (problem,) = report(a_job("Running", "0/2 pods running"), a_group("Running"), pods=[pod]).pods
    assert (problem.state, problem.message) == ("terminating", "waits for finalizer example.com/hold")
