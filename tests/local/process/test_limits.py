"""Limits of cpu and memory: by control groups of this machine, in a folder like theirs, and by measuring."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.local.process.conftest import ProcessCluster, plain_command
from volcanopy_local.process.cgroups import CgroupLimits, Cgroups, writable
from volcanopy_local.process.limits import EnforcedLimits, described, limits_of
from volcanopy_local.process.program_run import End, ProgramRun
from volcanopy_local.process.runtime import MachineRuntime

HOG = "parts = []\nwhile True: parts.append(bytearray(1 << 20))"


def container(**limits: str) -> dict[str, object]:
    return {"name": "main", "resources": {"limits": limits}}


@pytest.fixture
async def cgroups() -> AsyncIterator[Cgroups]:
    """The control groups that this machine lets tests make."""
    cgroups = writable(name=f"volcanopy-test-{os.getpid()}")
    yield cgroups
    folders = cgroups.folders
    await cgroups.remove()
    assert not [folder for folder in folders if folder.exists()]


async def run(cgroups: Cgroups, tmp_path: Path, script: str, **limits: str) -> tuple[End, str]:
    """Run a program with limits; its end and its output."""
    enforced = EnforcedLimits(cgroups, container(**limits), "run")
    command = plain_command(tmp_path, sys.executable, "-c", script, groups=enforced.groups)
    async with asyncio.timeout(60):
        end = await (await ProgramRun.start(command, tmp_path / "log", limits=enforced)).wait()
    return end, (tmp_path / "log").read_text()


def test_limits_are_those_of_the_container() -> None:
    assert limits_of(container(cpu="250m", memory="1Gi")) == CgroupLimits(0.25, 1 << 30)
    assert limits_of({"name": "main"}) == CgroupLimits()


async def test_the_kernel_kills_a_program_that_exceeds_its_memory(cgroups: Cgroups, tmp_path: Path) -> None:
    if "memory" not in cgroups.controllers:
        pytest.skip("control groups of memory cannot be written here")
    end, _ = await run(cgroups, tmp_path, HOG, memory="40Mi")
    assert (end.code, end.out_of_memory) == (137, True)
    end, output = await run(cgroups, tmp_path, "print(open('/proc/self/cgroup').read())", memory="40Mi")
    assert (end.code, end.out_of_memory) == (0, False)
    assert "volcanopy-test" in output


async def test_a_program_gets_its_limit_of_cpu(cgroups: Cgroups, tmp_path: Path) -> None:
    if "cpu" not in cgroups.controllers:
        pytest.skip("control groups of cpu cannot be written here")
    script = (
        "import time\nbegan = time.monotonic()\nwhile time.monotonic() < began + 0.6: pass\nprint(time.process_time())"
    )
    _, output = await run(cgroups, tmp_path, script, cpu="200m")
    assert float(output.split()[-1]) < 0.35


async def test_a_program_cannot_use_up_the_processes_of_the_machine(
    cgroups: Cgroups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "pids" not in cgroups.controllers:
        pytest.skip("control groups of processes cannot be written here")
    monkeypatch.setattr("volcanopy_local.process.cgroups.PROCESSES", 8)
    script = """
import os, time
count = 1
try:
    while count < 100:
        if os.fork() == 0:
            time.sleep(1000)
        count += 1
except BlockingIOError:
    print(count, "processes")
"""
    _, output = await run(cgroups, tmp_path, script)
    assert output.endswith(" 8 processes\n")


def test_version_2_of_control_groups_is_used_where_it_has_the_controllers(tmp_path: Path) -> None:
    """The first group above that holds groups with both controllers: the own one has none."""
    own, above = tmp_path / "user/terminal", tmp_path / "user"
    for folder in (own, above, tmp_path):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").touch()
    (tmp_path / "self").write_text("0::/user/terminal\n")
    for folder, controllers in ((own, "pids"), (above, "cpu memory pids")):
        (folder / "group").mkdir()
        (folder / "group/cgroup.controllers").write_text(controllers)
        (folder / "group/cgroup.subtree_control").touch()
    cgroups = writable(tmp_path, tmp_path / "self", "group")
    assert cgroups.folders == {above / "group"}
    assert cgroups.controllers == {"memory", "cpu", "pids"}

    made = above / "group/run"
    made.mkdir()
    for name in (
        "cgroup.controllers",
        "cgroup.procs",
        "memory.max",
        "memory.swap.max",
        "cpu.max",
        "pids.max",
        "memory.events",
    ):
        (made / name).touch()
    cgroup = cgroups.create("run", CgroupLimits(0.5, 1 << 20))
    limits = [(made / name).read_text() for name in ("memory.max", "cpu.max", "pids.max")]
    assert limits == ["1048576", "50000 100000", "4096"]
    assert cgroup.files[-1] == str(made / "cgroup.procs")
    assert cgroup.oom_kills() == 0
    (made / "memory.events").write_text("oom 3\noom_kill 2\n")
    assert cgroup.oom_kills() == 2


def test_what_is_not_enforced_is_named() -> None:
    assert described(Cgroups({})) == (
        "Limits of memory are enforced by measuring every 0.5 s: control groups cannot be written; "
        "limits of cpu are not enforced; any number of processes."
    )


async def test_without_control_groups_a_container_is_killed_when_it_is_measured_above_its_memory(
    process_cluster: ProcessCluster,
) -> None:
    hog = "part = bytearray(80 << 20)\nimport time; time.sleep(1000)"
    status = await process_cluster.run("p", "python3", "-c", hog, resources={"limits": {"memory": "40Mi"}})
    state = status["containerStatuses"][0]["state"]["terminated"]
    outcome = (status["phase"], state["reason"], state["exitCode"])
    assert outcome == ("Failed", "OOMKilled", 137), await process_cluster.log("p")


async def test_a_container_whose_limits_cannot_be_set_does_not_start(
    process_cluster: ProcessCluster, tmp_path: Path
) -> None:
    kubelet = process_cluster.cluster.process_kubelet
    assert kubelet is not None
    assert isinstance(kubelet.runtime, MachineRuntime)
    kubelet.runtime = replace(kubelet.runtime, cgroups=Cgroups({"memory": tmp_path / "gone"}))
    status = await process_cluster.run("p", "true", resources={"limits": {"memory": "40Mi"}})
    state = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], state["reason"], state["exitCode"]) == ("Failed", "StartError", 128)
    assert "its limits cannot be set: [Errno 2] No such file or directory" in state["message"]
