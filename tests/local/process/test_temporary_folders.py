"""The private folder for /tmp of a container: its path is short enough for Unix sockets, and it is deleted with the container."""

from pathlib import Path

import pytest

from tests.local.process.conftest import ProcessCluster, runtime_named
from volcanopy_local.cli.options import Isolation
from volcanopy_local.cli.process_nodes import Size, process_settings
from volcanopy_local.cluster import LocalCluster, Parts
from volcanopy_local.process import machine
from volcanopy_local.process.kubelet import ProcessSettings

LONGEST_SOCKET = 107
"""Bytes of the path of a Unix socket."""
BELOW = 60
"""Bytes that a program may add to its folder for temporary files."""
BIND = f"""
import os, socket
folder = os.environ.get("TMPDIR", "/tmp")
path = f"{{folder}}/".ljust(len(folder) + {BELOW}, "x")
socket.socket(socket.AF_UNIX).bind(path)
print(oct(os.stat(folder).st_mode & 0o777), os.stat(folder).st_uid == os.geteuid(), len(path) - len(folder))
"""


async def test_a_socket_can_be_bound_sixty_characters_below_a_private_folder(process_cluster: ProcessCluster) -> None:
    name = "container-with-a-name-of-many-characters"
    init = {"name": "init", "image": "none", "command": ["python3", "-c", BIND]}
    await process_cluster.create("p", {"initContainers": [init], "containers": [{**init, "name": name}]})
    status = await process_cluster.ended("p")
    logs = [await process_cluster.log("p", container) for container in ("init", name)]
    assert logs == [f"0o700 True {BELOW}\n"] * 2
    assert status["phase"] == "Succeeded"


async def test_the_folder_is_deleted_when_the_pod_has_ended(open_folder: Path) -> None:
    settings = ProcessSettings(open_folder / "run", open_folder / "claims", runtime_named("plain"))
    parts = Parts(scheduler=None, controller=None, admission=None, process=settings)
    async with LocalCluster(0, objects=machine.manifests(1, 4, 8 << 30), parts=parts) as cluster:
        status = await ProcessCluster(cluster, open_folder).run("p", "sh", "-c", "echo > $TMPDIR/file")
        assert status["phase"] == "Succeeded"
    assert list((open_folder / "run/tmp").iterdir()) == []
    assert len(list((open_folder / "run/pods").iterdir())) == 1


@pytest.mark.parametrize("persistent", [False, True])
async def test_the_folder_of_a_cluster_is_short_wherever_its_file_is(open_folder: Path, persistent: bool) -> None:
    file = open_folder / ("deep/" * 20) / "cluster.db"
    file.parent.mkdir(parents=True)
    async with process_settings(
        file if persistent else None, Size(0, 1, Isolation.plain, run_as_root=False)
    ) as settings:
        assert settings is not None
        assert settings.temporary is not None
        parent = settings.temporary
        assert len(str(parent / "abcdefgh" / "12")) + BELOW <= LONGEST_SOCKET
    assert not parent.parent.exists()
