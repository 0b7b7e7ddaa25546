"""``volcanopy job run`` on a process node: in this directory, as an array from a script, with the user's terminal."""

import asyncio
import contextlib
import os
import pty
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.local.process.conftest import runtime_named
from volcanopy_local.cluster import LocalCluster, Parts
from volcanopy_local.process import machine
from volcanopy_local.process.kubelet import ProcessSettings


@pytest.fixture
async def folder(open_folder: Path) -> AsyncIterator[Path]:
    """A folder with the kubeconfig of a cluster that has one process node."""
    settings = ProcessSettings(open_folder / "run", open_folder / "claims", runtime_named("bubblewrap"), back_off=0.05)
    async with LocalCluster(0, objects=machine.manifests(1, 2, 4 << 30), parts=Parts(process=settings)) as cluster:
        (open_folder / "work").mkdir()
        (open_folder / "work/kubeconfig").write_text(cluster.kubeconfig())
        yield open_folder / "work"


async def start(folder: Path, *words: str, terminal: int | None = None) -> asyncio.subprocess.Process:
    stream = asyncio.subprocess.PIPE if terminal is None else terminal
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "volcanopy", "job", "run", *words),
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "MARK": "a $(b) c"},
        stdin=stream,
        stdout=stream,
        stderr=terminal if terminal is not None else asyncio.subprocess.STDOUT,
    )


async def run(folder: Path, *words: str) -> list[str]:
    process = await start(folder, "--follow", *words)
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode().splitlines()[1:]


async def test_a_command_here_an_array_and_a_terminal(folder: Path) -> None:
    assert await run(folder, "--here", "--cpu=100m", "--", "sh", "-c", 'pwd; echo "$MARK"; touch made') == [
        str(folder),
        "a $(b) c",
    ]
    assert (folder / "made").exists()

    (folder / "script").write_text('test -e "$1" && echo "index $VC_ARRAY_INDEX $(echo of) $2"')
    lines = await run(folder, "--array=3-5%2", "--script=script", "--cpu=100m", "--name=a", "--", "/etc", "three")
    assert sorted(lines) == [f"[pod/a-main-{index - 3}/main] index {index} of three" for index in (3, 4, 5)]

    for name, status in (("shell", 0), ("failing", 1)):
        side, device = pty.openpty()
        os.set_blocking(side, False)
        process = await start(folder, "--interactive", "--cpu=100m", f"--name={name}", "--", "sh", terminal=device)
        os.close(device)
        output = await _until(side, b"press Enter")
        os.write(side, f"echo ter''minal $((6 * 7)); exit {3 * status}\n".encode())
        output = await _until(side, b"failed with exit code 3" if status else b"terminal 42")
        assert b"terminal 42" in output
        async with asyncio.timeout(120):
            assert await process.wait() == status
        os.close(side)


async def _until(side: int, text: bytes) -> bytes:
    """What a terminal shows up to a text."""
    output = b""
    ready = asyncio.Event()
    asyncio.get_running_loop().add_reader(side, ready.set)
    try:
        async with asyncio.timeout(120):
            while text not in output:
                ready.clear()
                await ready.wait()
                with contextlib.suppress(BlockingIOError):
                    output += os.read(side, 65536)
    except OSError as error:
        raise AssertionError((output, error)) from error
    finally:
        asyncio.get_running_loop().remove_reader(side)
    return output
