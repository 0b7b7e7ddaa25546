"""``volcanopy local``: a run from start to end, a cluster to work with, and what is said when it cannot be."""

import asyncio
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.run_commands import run_program
from tests.e2e.world import EXAMPLES, batch_job
from volcanopy.client.errors import CommandError
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import NODES, PODS
from volcanopy_local.cli.commands import Persistence, Serving, run, up
from volcanopy_local.cli.options import NodeOptions
from volcanopy_local.process.measurements import descendants

CLAIMS: Kind[Json] = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, dict)
COMMAND = [sys.executable, "-m", "volcanopy", "local"]


def manifest(folder: Path, *bodies: Json, name: str = "jobs.yaml") -> str:
    path = folder / name
    path.write_text(yaml.safe_dump_all(bodies))
    return str(path)


def test_a_run_of_an_example_prints_its_jobs_at_the_end() -> None:
    done = run_program("local", "run", str(EXAMPLES / "01-hello"), "--simulate", "1")
    assert (done.returncode, done.stderr) == (0, "")
    heading, row = done.stdout.splitlines()
    assert heading.split() == ["JOB", "PHASE", "READY", "MIN", "TOTAL", "QUEUE", "TIME"]
    assert row.split()[:6] == ["hello", "Completed", "1", "1", "1", "default"]


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("limit", ["-S -n 64", "-n 64"], ids=["soft", "hard"])
def test_the_limit_of_open_files_is_raised_and_one_that_is_too_low_is_one_sentence(limit: str) -> None:
    script = f'ulimit {limit}; exec "$@"'
    command = ["sh", "-c", script, "sh", *COMMAND, "run", "--simulate", "2", str(EXAMPLES / "02-gang")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if limit == "-n 64":
        sentence = "volcanopy: at most 64 open files are allowed, a cluster needs 512: raise `ulimit -n`\n"
        assert (done.returncode, done.stderr) == (1, sentence)
    else:
        assert done.returncode == 0, done.stderr
        assert "Completed" in done.stdout


def test_a_run_fails_if_a_job_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = batch_job("good", 1, "1", duration="100ms")
    bad = batch_job("bad", 1, "1", duration="100ms", exit_code="3")
    with pytest.raises(CommandError, match=r"^not all jobs completed: default/bad is Failed \(.+\)$"):
        run(NodeOptions(simulate=1), [manifest(tmp_path, good, bad)], timeout=60)
    assert "good   Completed" in capsys.readouterr().out


@pytest.mark.usefixtures("own_logging")
def test_a_run_that_times_out_names_the_unfinished_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second job could start when the first has ended, so the run goes on."""
    jobs = batch_job("endless", 2, "5", duration="forever"), batch_job("second", 1, "5", duration="forever")
    with pytest.raises(CommandError, match=r"^timed out after 3 s: ") as stopped:
        run(NodeOptions(simulate=2), [manifest(tmp_path, *jobs)], timeout=3)
    assert "default/second is Pending" in str(stopped.value)
    assert "second    Pending" in capsys.readouterr().out


STARTED = batch_job("first", 2, "1", duration="1s")
LARGE = batch_job("large", 4, "5")
BLOCKED = [
    "job large never starts [nodes]: 4 pods must start together, 3 can be placed: 0/3 nodes are available: 3 Insufficient cpu",
    '  starts with: 1 more node like "node-1"',
    "  starts with: set minAvailable to 3 instead of 4",
    "  starts with: request at most 4 cpu per pod instead of 5",
]


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("jobs", [(LARGE,), (STARTED, LARGE)], ids=["alone", "after another job"])
def test_a_run_ends_when_only_a_change_lets_the_other_jobs_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], jobs: tuple[Json, ...]
) -> None:
    with pytest.raises(CommandError, match=r"^not all jobs started: default/large is Pending \(4 pods must"):
        run(NodeOptions(simulate=3), [manifest(tmp_path, *jobs)], timeout=300)
    *rows, last = capsys.readouterr().out.splitlines()
    assert rows[-4:] == BLOCKED
    assert last == "The scheduler has tried each change on a copy of the cluster."
    assert [row.split()[1] for row in rows if row.startswith("first")] == ["Completed"] * (len(jobs) - 1)


@pytest.mark.usefixtures("own_logging")
def test_a_run_ends_when_no_node_or_not_the_whole_cluster_is_large_enough(tmp_path: Path) -> None:
    """Such jobs are not admitted to their queue."""
    jobs = batch_job("wide", 1, "9"), batch_job("deep", 4, "8")
    with pytest.raises(CommandError, match=r"^not all jobs started: .*default/wide is Pending \("):
        run(NodeOptions(simulate=3), [manifest(tmp_path, *jobs)], timeout=300)


@pytest.mark.usefixtures("own_logging")
def test_a_run_with_waiting_jobs_succeeds_if_they_are_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [manifest(tmp_path, LARGE)]
    run(NodeOptions(simulate=3), files, timeout=300, allow_waiting=True)
    assert BLOCKED[0] in capsys.readouterr().out.splitlines()
    failed = manifest(tmp_path, batch_job("bad", 1, "1", duration="100ms", exit_code="3"), name="bad.yaml")
    with pytest.raises(CommandError, match=r"^not all jobs completed: default/bad is Failed"):
        run(NodeOptions(simulate=3), [*files, failed], timeout=300, allow_waiting=True)


@pytest.mark.usefixtures("own_logging")
def test_a_flow_whose_job_never_starts_ends_the_run_after_its_other_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The steps of one branch start one after the other, while that of the other branch waits."""
    small, large = (
        {**job, "apiVersion": "flow.volcanopy.io/v1alpha1", "kind": "JobTemplate"}
        for job in (batch_job("small", 1, "1", duration="50ms"), LARGE)
    )
    chain = [{"name": f"s{number}", "template": "small"} for number in range(3)]
    steps = [
        step | ({"dependsOn": {"targets": [f"s{number - 1}"]}} if number else {}) for number, step in enumerate(chain)
    ]
    after = {"name": "after", "template": "small", "dependsOn": {"targets": ["large"]}}
    flow = {
        "apiVersion": "flow.volcanopy.io/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "f"},
        "spec": {"jobRetainPolicy": "retain", "flows": [*steps, {"name": "large"}, after]},
    }
    run(NodeOptions(simulate=3), [manifest(tmp_path, small, large, flow)], timeout=300, allow_waiting=True)
    rows = dict(line.split()[:2] for line in capsys.readouterr().out.splitlines() if line.startswith("f-"))
    assert rows == {"f-large": "Pending", "f-s0": "Completed", "f-s1": "Completed", "f-s2": "Completed"}


@pytest.mark.usefixtures("own_logging")
def test_a_run_accepts_several_files_and_creates_missing_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The queue comes in a later file than the job, in a namespace that nobody has made, on nodes of a file.

    The second job is of Volcano's API, which is served for it.
    """
    job = batch_job("j", 1, "90", duration="50ms", queue="own")
    job["metadata"]["namespace"] = "lab"
    of_volcano = batch_job("v", 1, "1", duration="50ms") | {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    queue = {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "Queue", "metadata": {"name": "own"}, "spec": {}}
    files = [manifest(tmp_path, job, of_volcano, name="1.yaml"), manifest(tmp_path, queue, name="2.yaml")]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "big"}, "status": {"capacity": {"cpu": "99"}}}
    (tmp_path / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node]}))
    run(NodeOptions(simulate=3, cluster=tmp_path / "nodes.json"), files, timeout=60)
    rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines()[-2:]]
    assert rows == [["default", "v", "Completed"], ["lab", "j", "Completed"]]


@pytest.mark.parametrize(
    ("spoilt", "status", "said"),
    [
        (
            {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}},
            2,
            "nothing to run: no BatchJob, JobFlow, CronBatchJob, Job of batch.volcano.sh, JobFlow of flow.volcano.sh, "
            "CronJob of batch.volcano.sh",
        ),
        (batch_job("wrong", 1, "1", minAvailable=2), 2, "2: must not be greater than the sum of task replicas (1)"),
        (batch_job("wrong", 1, "1", queue="nowhere"), 1, "spec.queue"),
        ({**batch_job("wrong", 1, "1"), "apiVersion": "batch/v1"}, 1, "does not serve kind BatchJob of batch/v1"),
    ],
    ids=["no job", "broken rule", "no queue", "wrong group"],
)
@pytest.mark.usefixtures("own_logging")
def test_an_invalid_manifest_is_reported_in_one_sentence_with_its_path(
    tmp_path: Path, spoilt: Json, status: int, said: str
) -> None:
    path = manifest(tmp_path, spoilt)
    with pytest.raises(CommandError) as stopped:
        run(NodeOptions(simulate=1), [path], timeout=60)
    assert said in str(stopped.value)
    assert str(stopped.value).startswith(path)
    assert stopped.value.status == status


def test_on_a_terminal_the_jobs_are_a_table_in_colour(tmp_path: Path) -> None:
    path = manifest(tmp_path, batch_job("shown", 1, "1", duration="200ms"))
    ours, theirs = pty.openpty()
    command = [*COMMAND, "run", path, "--simulate", "3"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=environment) as process:
        os.close(theirs)
        shown = b"".join(_pieces(ours))
        assert process.wait(timeout=60) == 0
    assert b"\x1b[32mCompleted\x1b[0m" in shown
    assert b"Completed" in shown.splitlines()[-1]


def _pieces(terminal: int) -> Iterator[bytes]:
    """What is written to a terminal until nobody has it open any more."""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            return
        if not piece:
            return
        yield piece


@contextmanager
def cluster_up(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
    """A cluster as a user starts it, and what it has said by the time it is ready."""
    with subprocess.Popen([*COMMAND, "up", *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line.rstrip())
            if "kubectl apply" in line:
                break
        try:
            yield process, said
        finally:
            process.kill()


async def test_up_writes_a_kubeconfig_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "config"
    with cluster_up("--simulate", "2", "--kubeconfig", str(path)) as (process, said):
        assert f"  export KUBECONFIG='{path}'" in said
        assert path.stat().st_mode & 0o777 == 0o600
        async with Client(load_connection(path)) as client:
            assert len((await client.list(NODES)).items) == 2
        command = [*COMMAND, "up", "--simulate", "1", "--kubeconfig", str(path)]
        second = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
        assert second.returncode == 2
        assert "is in use by the cluster at http://127.0.0.1:" in second.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    with cluster_up("--simulate", "1", "--kubeconfig", str(path)) as (process, said):
        assert f"  export KUBECONFIG='{path}'" in said, "its own file may be written again"
        process.terminate()
        assert process.wait(timeout=60) == 0


async def test_a_killed_cluster_leaves_no_program_and_continues_with_its_pods(tmp_path: Path) -> None:
    path = tmp_path / "config"
    options = ("--nodes", "1", "--persist", str(tmp_path / "journal"), "--kubeconfig", str(path))
    script = "test -e /c/first && exit 0; sleep 1000 & echo begun > /c/first; wait"
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "c", "mountPath": "/c"}],
        "readinessProbe": {"exec": {"command": ["test", "-e", "/c/first"]}, "periodSeconds": 1},
    }
    volumes = [{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}]
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    with cluster_up(*options) as (process, _):
        async with Client(load_connection(path)) as client:
            await client.create(CLAIMS, "default", {"metadata": {"name": "c"}, "spec": claim})
            spec = {"restartPolicy": "OnFailure", "containers": [container], "volumes": volumes}
            await client.create(PODS, "default", {"metadata": {"name": "p"}, "spec": spec})
            await pod_until(client, lambda pod: bool(pod["status"].get("containerStatuses", [{}])[0].get("ready")))
        programs = [os.pidfd_open(pid) for pid in set(descendants(process.pid))]
        assert len(programs) >= 3, "the shell, its child, and the guardian"
        process.kill()
        for program in programs:
            assert await asyncio.to_thread(select.select, [program], [], [], 30) != ([], [], [])
            os.close(program)
    with cluster_up(*options) as (process, said):
        line = (
            "The programs of 1 pod ended with the cluster before; jobs create their pods again, "
            "other pods follow their restartPolicy: p"
        )
        assert line in said
        async with Client(load_connection(path)) as client:
            pod = await pod_until(client, lambda pod: pod["status"]["phase"] == "Succeeded")
        (status,) = pod["status"]["containerStatuses"]
        assert status["restartCount"] == 1
        assert status["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


async def pod_until(client: Client, reached: Callable[[Json], bool]) -> Json:
    """Wait until the only pod is as asked."""
    reflector = Reflector(client, PODS)
    async with asyncio.timeout(60):
        async for _ in reflector.batches():
            for pod in reflector.objects.values():
                if reached(pod):
                    return pod
    raise AssertionError("the watch has ended")


@pytest.mark.usefixtures("own_logging")
def test_up_reports_unusable_options_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    foreign, file = tmp_path / "foreign", tmp_path / "file"
    foreign.write_text("apiVersion: v1\nkind: Config\nclusters: [{name: production, cluster: {}}]\n")
    file.write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cases: list[tuple[dict[str, Any], int, str]] = [
            (
                {"serving": Serving(port)},
                1,
                f"--port {port}: port already in use: specify another, or 0 for a free one",
            ),
            (
                {"kubeconfig": file / "config"},
                1,
                f"--kubeconfig: cannot create {file}/config in {file}: not a directory",
            ),
            ({"kubeconfig": foreign}, 2, "exists and was not written by `local up`: specify another file"),
            ({"kubeconfig": Path("~/.kube/config")}, 2, "is the default of kubectl: specify another file"),
            ({"kubeconfig": tmp_path}, 2, "is a directory: specify a file"),
            ({"persist": Persistence(file / "journal")}, 1, f"--persist: cannot open {file}"),
            (
                {"persist": Persistence(foreign)},
                2,
                f"--persist: {foreign} was not written by `local up`: specify another file",
            ),
            ({"options": NodeOptions(cluster=tmp_path / "absent")}, 2, "No such file or directory"),
            ({"options": NodeOptions(cluster=file)}, 2, f"--cluster {file}: no object of kind Node"),
        ]
        for given, status, said in cases:
            usual: dict[str, Any] = {
                "options": NodeOptions(simulate=0),
                "serving": Serving(),
                "persist": Persistence(),
                "kubeconfig": tmp_path / "k",
            }
            with pytest.raises(CommandError) as stopped:
                up(**usual | given)
            assert said in str(stopped.value)
            assert stopped.value.status == status
    assert not (tmp_path / ".kube").exists()
