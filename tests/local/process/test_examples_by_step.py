"""The examples for process nodes run on each step of isolation, as root and as an ordinary user."""

import contextlib
import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.process.invocation import USER, as_root, volcanopy
from tests.nightly import nightly
from volcanopy_local.process.steps import BUBBLEWRAP, NAMESPACES, PLAIN
from volcanopy_local.process.users import UNPRIVILEGED

LINES = {
    "16-processes": [
        r"ring-sum-worker-3 \| rank 3 of 4: sum of squares 30",
        r"sweep-collect-0 \| pi is about 3.141593",
    ],
    "17-array": [r"primes-index-7 \| index 7: 210 primes below 16000"],
    "18-mpi-processes": [r"mpi-pi-master-0 \| rank 3 of 4 on mpi-pi-worker-1: pi is about 3.141593"],
    "19-pipeline": [r"pipeline-report-main-0 \| sum of the squares up to 10: 385"],
    "22-ddp": [rf"ddp-{pod} \| rank \d of 3: y = 3.000 x -1.000" for pod in ("master-0", "worker-0", "worker-1")],
    "23-ray-processes": [r"ray-squares-head-0 \| squares on ray-squares-worker-0, ray-squares-worker-1: 285"],
    "24-spark": [r"spark-primes-driver-0 \| two executors: 2262 primes below 20000"],
}
"""What the jobs of an example print."""
FRAMEWORKS = {"22-ddp": "torch", "23-ray-processes": "ray", "24-spark": "pyspark"}
"""The examples that need a package for Python."""
NEED_MOUNTS = frozenset({"18-mpi-processes"})
"""Examples that plain processes cannot run: see the table of docs/embedded-cluster.md."""

CPUS_OF_ALTERNATIVE = 2
"""The cpus that example 26 uses where there are no GPUs."""
CPUS_OF_CHECKPOINT = 2
"""The cpus of the machine for which example 21 is written: on a larger one nothing is preempted."""
STEPS = [
    pytest.param(user, step, marks=() if user else as_root, id=f"{step} as {'a user' if user else 'root'}")
    for user, steps in ((False, (NAMESPACES, PLAIN)), (True, (BUBBLEWRAP, NAMESPACES, PLAIN)))
    for step in steps
]
"""Who runs the cluster, and the step of isolation."""
STRONGEST = ((False, NAMESPACES), (True, BUBBLEWRAP))
"""The strongest step of root and of a user; what they do with signals and volumes other tests check in each step."""


def run(home: Path, step: str, *, user: bool) -> None:
    """Run all examples of the default configuration that the step can run in one cluster, and find their results."""
    has_mpi = shutil.which("mpirun") and shutil.which("sshd", path="/usr/sbin")
    left_out = NEED_MOUNTS if step == PLAIN or not has_mpi else frozenset()
    names = sorted(LINES.keys() - FRAMEWORKS.keys() - left_out)
    check(names, run_files(home, [f"examples/{name}" for name in names], step, user=user))


def check(names: list[str], printed: str) -> None:
    """Find the results of examples in what is printed."""
    for line in (line for name in names for line in LINES[name]):
        assert re.search(f"^{line}$", printed, re.MULTILINE), f"{line} is not in:\n{printed}"


def run_files(home: Path, arguments: list[str], step: str, *, user: bool, path: str = "", seconds: int = 90) -> str:
    """Run manifests to the end of their jobs; what is printed."""
    options = ["--isolation", step, "--timeout", f"{seconds}s", "--tail", "200"]
    done = volcanopy(["local", "run", *arguments, *options], home, user=user, path=path, seconds=seconds + 30)
    if user and step == NAMESPACES and "rejected here" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def installed_bubblewrap(request: pytest.FixtureRequest) -> None:
    """Skip a test of bubblewrap where it is not installed."""
    if request.getfixturevalue("step") == BUBBLEWRAP and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed: run `make packages`")


def search_path_with(module: str, uid: int) -> str:
    """A search path that begins with a `python3` that this user can run and that has the module. Skips the test without one."""
    program = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    for python in (sys.executable, *(f"{folder}/python3" for folder in os.environ["PATH"].split(":"))):
        identity = {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}
        with contextlib.suppress(OSError):
            if subprocess.run([python, "-c", program], check=False, cwd="/", **identity).returncode == 0:  # type: ignore[call-overload]
                return f"{Path(python).parent}:{os.environ['PATH']}"
    pytest.skip(f"package {module} is not installed for programs of uid {uid}: pip install '.[examples]'")


def on_steps(*by_day: tuple[bool, str]) -> pytest.MarkDecorator:
    """On these steps by day, and on the others by night."""
    cases = [
        pytest.param(*case.values, id=case.id, marks=[*case.marks, *(() if case.values in by_day else [nightly])])
        for case in STEPS
    ]
    return pytest.mark.parametrize(("user", "step"), cases)


@pytest.mark.slow("runs four examples")
@on_steps(*STRONGEST)
def test_the_examples_compute_their_results(open_folder: Path, step: str, user: bool) -> None:
    run(open_folder, step, user=user)


@pytest.mark.skipif((os.cpu_count() or 1) < CPUS_OF_ALTERNATIVE, reason=f"needs {CPUS_OF_ALTERNATIVE} cpus")
@on_steps(STRONGEST[os.geteuid() != 0])
def test_a_job_takes_the_alternative_that_the_machine_can_run(open_folder: Path, step: str, user: bool) -> None:
    printed = run_files(open_folder, ["examples/26-alternatives"], step, user=user)
    assert re.search(r"^train +Completed", printed, re.MULTILINE), printed


@pytest.mark.slow("runs an example that is preempted and continues")
@pytest.mark.skipif(os.cpu_count() != CPUS_OF_CHECKPOINT, reason=f"is written for {CPUS_OF_CHECKPOINT} cpus")
@on_steps(STRONGEST[os.geteuid() != 0])
def test_a_preempted_job_continues_at_its_checkpoint(open_folder: Path, step: str, user: bool) -> None:
    config = ["--scheduler-config", "examples/21-checkpoint/scheduler.conf"]
    printed = run_files(open_folder, ["examples/21-checkpoint/flow.yaml", *config], step, user=user)
    assert printed.count("100 steps add up to 5050") == 2, printed
    assert len(re.findall(r"resumed at step [1-9]", printed)) == 1, printed


@pytest.mark.slow("starts several processes of a framework")
@pytest.mark.parametrize("name", FRAMEWORKS)
@on_steps(*STRONGEST)
def test_a_framework_computes_with_several_processes(open_folder: Path, step: str, user: bool, name: str) -> None:
    uid = USER if user else UNPRIVILEGED
    path = search_path_with(FRAMEWORKS[name], uid)
    if name == "24-spark" and shutil.which("java") is None:
        pytest.skip("no Java")
    if name == "24-spark" and user and step == PLAIN and not has_account(uid):
        pytest.skip("Java needs an account of its user, which plain processes do not get")
    check([name], run_files(open_folder, [f"examples/{name}"], step, user=user, path=path, seconds=300))


def has_account(uid: int) -> bool:
    """Whether programs that run as this user find it in /etc/passwd."""
    with contextlib.suppress(KeyError):
        return bool(pwd.getpwuid(uid if os.geteuid() == 0 else os.geteuid()))
    return False
