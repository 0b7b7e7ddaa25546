"""What commands show of a fixed world, in a pipe and in a real terminal: the cases of the golden texts in ``golden/``.

``python -m tests.cli.golden_cases`` writes the texts anew: review the difference like code. In the texts, the escape
character of a terminal is written as ``␛``. Commands run at a fixed time, so that ages and dates are always the same.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from tests.cli.fake_api_server import JOBS, NOW, FakeApiServer, a_job, ago, fake_api_server
from tests.cli.run_commands import run_in_process, run_in_terminal
from volcanopy.client.durations import CLOCK
from volcanopy.kube.client.kinds import Json

GOLDEN = Path(__file__).parent / "golden"
WHY = "4 pods must start together, 3 can be placed: 0/3 nodes are available: 3 Insufficient cpu"
_ESCAPE = "\x1b"


@dataclass(frozen=True)
class Case:
    """A command line, and how wide the terminal is; 0 for a pipe."""

    name: str
    words: tuple[str, ...]
    columns: int = 0
    no_color: bool = False


CASES = (
    Case("list-piped", ("job", "list")),
    Case("list-piped-wide", ("job", "list", "-A", "-o", "wide")),
    Case("list-piped-name", ("job", "list", "-o", "name")),
    Case("list-terminal", ("job", "list"), 100),
    Case("list-terminal-narrow", ("job", "list"), 40),
    Case("list-terminal-no-color", ("job", "list"), 100, no_color=True),
    Case("get-piped-yaml", ("job", "get", "done", "-o", "yaml")),
    Case("get-piped-json", ("job", "get", "done", "-o", "json")),
    Case("get-terminal-missing", ("job", "get", "dome"), 100),
    Case("describe-piped", ("job", "describe", "waits")),
    Case("job-list-help", ("job", "list", "--help")),
    Case("pod-piped", ("pod", "list", "-o", "wide")),
    Case("help-terminal", ("--help",), 100),
    Case("help-piped", ("--help",)),
    Case(
        "job-help-piped",
        (
            "job",
            "--help",
        ),
    ),
    Case("job-wait-help-piped", ("job", "wait", "--help")),
    Case("bad-flag-terminal", ("job", "list", "--al"), 100),
    Case("bad-choice-terminal", ("job", "list", "-o", "html"), 100),
    Case("forbidden-terminal", ("jobflow", "list"), 100),
    Case("not-served-terminal", ("jobtemplate", "list"), 100),
)


@contextmanager
def world() -> Iterator[tuple[FakeApiServer, Path]]:
    """A server with a few jobs, one forbidden kind and one that it does not serve; and the way to it."""
    with fake_api_server() as server, TemporaryDirectory() as folder:
        _create_objects(server)
        yield server, server.kubeconfig(Path(folder))


def _create_objects(server: FakeApiServer) -> None:
    made = ago(days=3, hours=4, minutes=2)
    jobs = [
        a_job("done", "Completed", "4 pods succeeded", created=made, succeeded=4),
        a_job("runs", "Running", "4/4 pods running", created=ago(days=20, hours=1), running=4, retryCount=1),
        a_job("waits", "Pending", WHY, created=ago(hours=9, minutes=2), pending=4),
    ]
    server.has(JOBS.format("default"), *jobs)
    server.has("/apis/batch.volcanopy.io/v1alpha1/batchjobs", *jobs)
    group = {
        "metadata": {
            "name": "waits-uid-of-waits",
            "namespace": "default",
            "uid": "g",
            "creationTimestamp": ago(hours=9, minutes=2),
            "ownerReferences": [{"kind": "BatchJob", "name": "waits", "uid": "uid-of-waits", "controller": True}],
        },
        "spec": {"minMember": 4, "queue": "research"},
        "status": {
            "phase": "Inqueue",
            "conditions": [{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": WHY}],
            "explanation": {"gate": "nodes", "unblockedBy": "2 more cpu on one node", "numbers": {"position": "3"}},
        },
    }
    server.has("/apis/scheduling.volcanopy.io/v1beta1/namespaces/default/podgroups", group)
    server.has("/apis/scheduling.volcanopy.io/v1beta1/podgroups", group)
    server.has("/api/v1/namespaces/default/pods", *(_pod(number) for number in range(2)))
    server.has("/api/v1/namespaces/default/events", _event())
    code, said = _forbidden_flows()
    server.answers["GET", "/apis/flow.volcanopy.io/v1alpha1/namespaces/default/jobflows"] = (code, said)


def _forbidden_flows() -> tuple[int, Json]:
    message = (
        'jobflows.flow.volcanopy.io is forbidden: User "ada" cannot list resource "jobflows" '
        'in API group "flow.volcanopy.io" in the namespace "default"'
    )
    return 403, {"kind": "Status", "message": message, "reason": "Forbidden", "code": 403}


def _pod(number: int) -> Json:
    placed = number == 0
    labels = {
        "volcanopy.io/job-name": "waits",
        "volcanopy.io/task-spec": "worker",
        "volcanopy.io/task-index": str(number),
        "volcanopy.io/queue-name": "research",
    }
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": WHY}
    container = {"name": "c", "ready": placed, "restartCount": 0, "state": {"running": {}} if placed else {}}
    return {
        "metadata": {
            "name": f"waits-worker-{number}",
            "namespace": "default",
            "labels": labels,
            "creationTimestamp": ago(hours=9, minutes=2),
            "ownerReferences": [{"kind": "BatchJob", "name": "waits", "uid": "uid-of-waits", "controller": True}],
        },
        "spec": {"containers": [{"name": "c"}], **({"nodeName": "node-1"} if placed else {})},
        "status": {
            "phase": "Running" if placed else "Pending",
            "containerStatuses": [container],
            **({"podIP": "10.0.0.1"} if placed else {"conditions": [waiting]}),
        },
    }


def _event() -> Json:
    return {
        "metadata": {"name": "e", "namespace": "default", "creationTimestamp": ago(hours=9, minutes=2)},
        "involvedObject": {"kind": "BatchJob", "name": "waits"},
        "type": "Warning",
        "reason": "Pending",
        "message": WHY,
        "count": 3,
    }


def output_of(case: Case, config: Path, now: datetime = NOW) -> str:
    """Return the output of the command at a time, with its exit status."""
    if case.columns:
        more = {"NO_COLOR": "1"} if case.no_color else {}
        clock = {CLOCK: now.isoformat()}
        status, output = run_in_terminal(*case.words, kubeconfig=config, columns=case.columns, **clock, **more)
        text = output.replace(_ESCAPE, "␛")
    else:
        with mock.patch.dict(os.environ, {CLOCK: now.isoformat()}):
            outcome = run_in_process(*case.words, kubeconfig=config)
        status, text = outcome.status, outcome.out + outcome.err
    return f"$ volcanopy {' '.join(case.words)}\n{text}(exit status {status})\n"


def write() -> None:
    """Write all texts anew."""
    GOLDEN.mkdir(exist_ok=True)
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    with world() as (_, config):
        for case in CASES:
            (GOLDEN / f"{case.name}.txt").write_text(output_of(case, config), encoding="utf-8")


if __name__ == "__main__":
    write()
