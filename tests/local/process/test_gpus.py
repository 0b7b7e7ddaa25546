"""GPUs are found by nvidia-smi, shared out among nodes and handed to containers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.local.process.conftest import ProcessCluster
from volcanopy_local.cluster import LocalCluster, Parts
from volcanopy_local.process import machine
from volcanopy_local.process.gpus import ANNOTATION, RESOURCE, Gpus, gpus_of_machine
from volcanopy_local.process.isolation import PlainProcesses
from volcanopy_local.process.kubelet import ProcessSettings
from volcanopy_local.process.runtime import MachineRuntime
from volcanopy_local.process.users import current_user


def pod(uid: str, *counts: int, init: int = 0) -> dict[str, Any]:
    def container(name: str, count: int) -> dict[str, Any]:
        return {"name": name, "resources": {"limits": {RESOURCE: str(count)} if count else {}}}

    containers = [container(f"c{number}", count) for number, count in enumerate(counts)]
    return {
        "metadata": {"uid": uid},
        "spec": {"nodeName": "n", "containers": containers, "initContainers": [container("init", init)]},
    }


def test_they_are_those_that_nvidia_smi_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '0\\n1\\n2\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert gpus_of_machine() == ["0", "1", "2"]
    program.write_text("#!/bin/sh\necho No devices were found\nexit 6\n")
    assert gpus_of_machine() == []


def test_nodes_share_them_and_none_is_counted_twice() -> None:
    nodes = machine.manifests(2, 4, 8 << 30, ["0", "1", "2"])
    assert [node["metadata"]["annotations"][ANNOTATION] for node in nodes] == ["0,2", "1"]
    assert [node["status"]["capacity"][RESOURCE] for node in nodes] == ["2", "1"]
    (node,) = machine.manifests(1, 4, 8 << 30)
    assert RESOURCE not in node["status"]["capacity"]


async def test_containers_share_out_those_of_their_pod_and_another_pod_waits() -> None:
    gpus, annotations = Gpus(), {ANNOTATION: "0,1,2"}
    assert await gpus.take(pod("a", 1, 1, init=2), annotations) == {"c0": "0", "c1": "1", "init": "0,1"}
    assert await gpus.take(pod("b", 1), annotations) == {"c0": "2", "init": ""}
    third = asyncio.create_task(gpus.take(pod("c", 2), annotations))
    gpus.release("b")
    await asyncio.sleep(0)
    assert not third.done()
    gpus.release("a")
    assert await third == {"c0": "0,1", "init": ""}
    assert await gpus.take(pod("d", 1), {}) == {}, "a node without GPUs sets no variable"


async def test_a_container_sees_its_gpus_only(tmp_path: Path) -> None:
    settings = ProcessSettings(tmp_path / "run", tmp_path / "claims", MachineRuntime(PlainProcesses(current_user())))
    parts = Parts(scheduler=None, controller=None, admission=None, process=settings)
    async with LocalCluster(0, objects=machine.manifests(1, 4, 8 << 30, ["0", "1"]), parts=parts) as cluster:
        process_cluster = ProcessCluster(cluster, tmp_path)
        for name, count, devices in (("with", "1", "0"), ("without", "0", "")):
            resources = {"limits": {RESOURCE: count}}
            await process_cluster.run(name, "sh", "-c", "echo devices: $CUDA_VISIBLE_DEVICES", resources=resources)
            assert (await process_cluster.log(name)).strip() == f"devices: {devices}".strip()
