"""Runs the examples for process nodes and the tutorial, and checks that nothing is left: `python -m hack.examplerun [--times 2] [NAME ...]`.

After each run there must be no process below this one, no new mount, no file in the folder for temporary files or in shared memory, and no
control group of the cluster. A port belongs to a process: with no process, none is left. Orphans become children of this process.
Mounts and shared memory are those of the machine: nothing else should start containers meanwhile.

Packages that an example needs are searched by the `python3` on the PATH; an example without its package is skipped with a line. The exit
status is 1 if a run failed or left something.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from volcanopy_local.process.measurements import descendants

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES: Mapping[str, str] = {
    "16-processes": "",
    "17-array": "",
    "18-mpi-processes": "",
    "19-pipeline": "",
    "21-checkpoint": "",
    "22-ddp": "torch",
    "23-ray-processes": "ray",
    "24-spark": "pyspark",
}
"""The examples whose programs run on any machine, with the Python package that they need."""
TUTORIAL = "tutorial"
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl."""


def main() -> int:
    """Run what is named, by default everything; 1 if something failed or was left."""
    parser = argparse.ArgumentParser(prog="python -m hack.examplerun")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("names", nargs="*", metavar="NAME", default=[*EXAMPLES, TUTORIAL])
    given = parser.parse_args()
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    faults = 0
    for number in range(1, given.times + 1):
        for name in given.names:
            if (package := EXAMPLES.get(name)) and not _has(package):
                print(f"{name}: skipped: no package {package}", flush=True)
                continue
            problems = _run(name)
            faults += bool(problems)
            print(f"{name}, run {number}: {'; '.join(problems) or 'completed, nothing left'}", flush=True)
    return 1 if faults else 0


def _has(package: str) -> bool:
    program = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return subprocess.run(["python3", "-c", program], check=False).returncode == 0


def _command(name: str, folder: str) -> list[str]:
    """The command of an example, or of the test of the tutorial with its own folder."""
    if name == TUTORIAL:
        test = "tests/docs/test_pages.py::test_the_blocks_of_a_page_run[docs/tutorial.md]"
        return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder}", test]
    path = ROOT / "examples" / name
    command = [sys.executable, "-m", "volcanopy", "local", "run", "--tail", "1"]
    if (config := path / "scheduler.conf").exists():
        return [*command, "--scheduler-config", str(config), *map(str, path.glob("*.yaml"))]
    return [*command, str(path)]


def _run(name: str) -> list[str]:
    """Run an example; what went wrong and what it left, as sentences."""
    mounts, shared = _mounts(), set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory() as own, tempfile.TemporaryDirectory() as temporary:
        environment = {**os.environ, "TMPDIR": temporary}
        with subprocess.Popen(
            _command(name, own), cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            output, _ = process.communicate()
        files = os.listdir(temporary)
    problems = [] if process.returncode == 0 else [f"exit status {process.returncode}:\n{output}"]
    remains = {
        "process": sorted(_processes()),
        "mount": sorted(_mounts() - mounts),
        "file": files,
        "shared memory": sorted(set(os.listdir("/dev/shm")) - shared),
        "control group": [str(path) for path in Path("/sys/fs/cgroup").rglob(f"volcanopy-{process.pid}")],
    }
    return problems + [f"{kind} left: {', '.join(each)}" for kind, each in remains.items() if each]


def _processes() -> Iterator[str]:
    """The processes below this one that have not ended, after those that have are collected."""
    for pid in list(descendants(os.getpid())):
        try:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                continue
        except ChildProcessError:
            pass
        if (command := Path(f"/proc/{pid}/cmdline")).exists():
            yield f"{pid} {command.read_text().replace(chr(0), ' ')}"


def _mounts() -> set[str]:
    return set(Path("/proc/self/mounts").read_text().splitlines())


if __name__ == "__main__":
    sys.exit(main())
