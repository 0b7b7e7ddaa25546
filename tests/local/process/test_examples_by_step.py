"""The examples for process nodes run on each step of isolation, as root and as an ordinary user."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.local.process.invocation import as_root, volcanopy
from volcanopy.local.process.steps import BUBBLEWRAP, NAMESPACES, PLAIN

LINES = {
    "16-processes": [
        r"ring-sum-worker-3 \| rank 3 of 4: sum of squares 30",
        r"sweep-collect-0 \| pi is about 3.141593",
    ],
    "17-array": [r"primes-index-7 \| index 7: 210 primes below 16000"],
    "18-mpi-processes": [r"mpi-pi-master-0 \| rank 3 of 4 on mpi-pi-worker-1: pi is about 3.141593"],
    "19-pipeline": [r"pipeline-report-main-0 \| sum of the squares up to 10: 385"],
}
"""What the jobs of an example print."""
NEED_MOUNTS = frozenset({"18-mpi-processes"})
"""Examples that plain processes cannot run: see the table of docs/embedded-cluster.md."""

CPUS_OF_CHECKPOINT = 2
"""The cpus of the machine for which example 21 is written: on a larger one nothing is preempted."""


def run(home: Path, step: str, *, user: bool) -> None:
    """Run all examples that the step can run in one cluster, and find their results."""
    has_mpi = shutil.which("mpirun") and shutil.which("sshd", path="/usr/sbin")
    left_out = NEED_MOUNTS if step == PLAIN or not has_mpi else frozenset()
    names = sorted(LINES.keys() - left_out)
    paths = [f"examples/{name}" for name in names]
    printed = run_files(home, paths, step, user=user)
    for line in (line for name in names for line in LINES[name]):
        assert re.search(f"^{line}$", printed, re.MULTILINE), f"{line} is not in:\n{printed}"
    if os.cpu_count() == CPUS_OF_CHECKPOINT:
        config = ["--scheduler-config", "examples/21-checkpoint/scheduler.conf"]
        printed = run_files(home, ["examples/21-checkpoint/flow.yaml", *config], step, user=user)
        assert printed.count("100 steps add up to 5050") == 2, printed
        assert len(re.findall(r"resumed at step [1-9]", printed)) == 1, printed


def run_files(home: Path, arguments: list[str], step: str, *, user: bool) -> str:
    """Run manifests to the end of their jobs; what is printed."""
    done = volcanopy(
        ["local", "run", *arguments, "--isolation", step, "--timeout", "90s", "--tail", "200"], home, user=user
    )
    if user and step == NAMESPACES and "rejected here" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SLOW = "runs five examples, one of which is preempted and continues"


@as_root
@pytest.mark.slow(SLOW)
@pytest.mark.parametrize("step", [NAMESPACES, PLAIN])
def test_the_examples_compute_their_results_as_root(open_folder: Path, step: str) -> None:
    run(open_folder, step, user=False)


@pytest.mark.slow(SLOW)
@pytest.mark.parametrize("step", [BUBBLEWRAP, NAMESPACES, PLAIN])
def test_the_examples_compute_their_results_as_a_user(open_folder: Path, step: str) -> None:
    if step == BUBBLEWRAP and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed: run `make packages`")
    run(open_folder, step, user=True)
