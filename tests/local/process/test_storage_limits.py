"""Limits of local storage on process nodes: a pod that exceeds one is evicted with the message of a kubelet."""

import os
from pathlib import Path

import pytest

from tests.local.process.conftest import ProcessCluster
from volcanopy.kube.client.kinds import Json
from volcanopy_local.process import machine, storage_limits

LIMITED = {"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}
WRITE = "head -c 3000000 /dev/zero > {}/file; exec sleep 1000"


def container(path: str, name: str = "main", **limits: str) -> Json:
    mounts = [{"name": "data", "mountPath": "/data"}] if path == "/data" else []
    resources = {"limits": {key.replace("_", "-"): amount for key, amount in limits.items()}}
    command = ["sh", "-c", WRITE.format(path)]
    return {"name": name, "image": "none", "command": command, "volumeMounts": mounts, "resources": resources}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"containers": [container("/data")], "volumes": [LIMITED]},
            'Usage of EmptyDir volume "data" exceeds the limit "1Mi". ',
        ),
        (
            {
                "containers": [
                    container("${TMPDIR:-/tmp}", ephemeral_storage="1Mi"),
                    container("${TMPDIR:-/tmp}", "other"),
                ]
            },
            'Container main exceeded its local ephemeral storage limit "1Mi". ',
        ),
        (
            {
                "containers": [container("/data", ephemeral_storage="2Mi")],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
            "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ",
        ),
    ],
    ids=["emptyDir", "container", "pod"],
)
async def test_a_pod_that_exceeds_a_limit_is_evicted(
    process_cluster: ProcessCluster, monkeypatch: pytest.MonkeyPatch, spec: Json, message: str
) -> None:
    monkeypatch.setattr(storage_limits, "MEASURED", 0.02)
    await process_cluster.create("p", spec)
    status = await process_cluster.ended("p")
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", message)


async def test_a_pod_within_its_limits_runs_to_its_end(process_cluster: ProcessCluster) -> None:
    volume = {"name": "data", "emptyDir": {"sizeLimit": "8Mi"}}
    main = {
        **container("/data", ephemeral_storage="9Mi"),
        "command": ["sh", "-c", "head -c 3000000 /dev/zero > /data/file"],
    }
    await process_cluster.create("p", {"containers": [main], "volumes": [volume]})
    assert (await process_cluster.ended("p"))["phase"] == "Succeeded"


def test_links_are_not_followed_and_files_with_two_names_count_once(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 1_000_000)
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / "large")
    (folder / "around").symlink_to(folder)
    (folder / "file").write_bytes(b"x" * 100_000)
    os.link(folder / "file", folder / "sub/again")
    assert 100_000 <= storage_limits.used_bytes([folder]) < 150_000


def test_the_nodes_of_a_machine_share_its_disk() -> None:
    amounts = [node["status"]["capacity"]["ephemeral-storage"] for node in machine.manifests(2, 2, 1 << 30)]
    assert amounts == [f"{machine.storage_size() // 2**20 // 2}Mi"] * 2
