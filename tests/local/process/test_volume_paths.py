"""The paths of volumes stay inside them on every step of isolation, whatever programs plant there."""

import os
from pathlib import Path

import pytest

from tests.local.process.conftest import ProcessCluster
from volcanopy.kube.client.kinds import Json
from volcanopy_local.process.container_spec import ContainerConfigError, Sources
from volcanopy_local.process.volumes import Volumes

SOURCES = Sources()
SHARED = {"name": "shared", "emptyDir": {}}
PLANTED = "ln -s /etc /shared/absolute; ln -s ../../.. /shared/up; mkdir /shared/folder; ln -s folder /shared/inside"


def container(name: str, script: str, *mounts: Json, **fields: object) -> Json:
    return {"name": name, "image": "none", "command": ["sh", "-c", script], "volumeMounts": list(mounts), **fields}


def mounted(path: str, volume: str = "shared", **fields: str) -> Json:
    return {"name": volume, "mountPath": path, **fields}


def reason(pod: Json) -> str:
    statuses = pod["status"].get("containerStatuses") or [{"state": {}}]
    waiting = statuses[0]["state"].get("waiting") or {}
    return f"{waiting.get('reason')}: {waiting.get('message')}"


async def rejected(cluster: ProcessCluster, name: str, spec: Json) -> str:
    """Why the container of a pod is not created."""
    await cluster.create(name, spec)
    pod = await cluster.until(name, lambda pod: pod["status"].get("phase") and "Config" in reason(pod))
    return reason(pod)


@pytest.mark.parametrize("path", ["absolute", "up", "absolute/cron.d", "$(UP)/logs", "$(DEEP)"])
async def test_a_sub_path_that_leads_out_of_its_volume_is_rejected(process_cluster: ProcessCluster, path: str) -> None:
    init = container("init", PLANTED, mounted("/shared"))
    env = [{"name": "UP", "value": ".."}, {"name": "DEEP", "value": "inside/../../.."}]
    main = container("main", "true", mounted("/data", subPathExpr=path), env=env)
    text = await rejected(process_cluster, "p", {"initContainers": [init], "containers": [main], "volumes": [SHARED]})
    assert text.startswith("CreateContainerConfigError: volume shared: subPath cannot be mounted: path '")


async def test_a_sub_path_by_a_link_within_the_volume_and_a_new_one_are_mounted_writable(
    process_cluster: ProcessCluster,
) -> None:
    init = container("init", PLANTED, mounted("/shared"))
    script = "echo a > /linked/file; echo b > /new/file; cat /shared/folder/file /shared/x/y/file"
    mounts = (mounted("/linked", subPath="inside"), mounted("/new", subPath="x/y"), mounted("/shared"))
    main = container("main", script, *mounts)
    await process_cluster.create("p", {"initContainers": [init], "containers": [main], "volumes": [SHARED]})
    assert (await process_cluster.ended("p"))["phase"] == "Succeeded"
    assert await process_cluster.log("p") == "a\nb\n"


@pytest.mark.parametrize("target", ["/old{folder}/made", "{folder}/made", "../../../../../../old{folder}/made"])
async def test_a_mount_point_below_a_planted_link_is_made_in_the_container_only(
    process_cluster: ProcessCluster, target: str
) -> None:
    outside = process_cluster.folder / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    init = container("init", f"ln -s {target.format(folder=outside)} /shared/link", mounted("/shared"))
    main = container("main", "true", mounted("/shared"), mounted("/shared/link/below", "other"))
    volumes = [SHARED, {"name": "other", "emptyDir": {}}]
    await process_cluster.create("p", {"initContainers": [init], "containers": [main], "volumes": volumes})
    await process_cluster.ended("p")
    assert not list(outside.iterdir())


async def test_a_working_folder_does_not_lead_out(process_cluster: ProcessCluster) -> None:
    outside = process_cluster.folder / "outside"
    await process_cluster.run("p", "true", workingDir=f"/../old{outside}")
    assert not outside.exists()


async def test_mount_paths_are_absolute_and_not_the_root(process_cluster: ProcessCluster) -> None:
    relative = container("main", "echo a > data/file; cat /data/file", mounted("data"), workingDir="/")
    if process_cluster.runtime.has_mounts:
        await process_cluster.create("relative", {"containers": [relative], "volumes": [SHARED]})
        assert (await process_cluster.ended("relative"))["phase"] == "Succeeded"
    for number, path in enumerate(("/", "//", "/a/..")):
        spec = {"containers": [container("main", "true", mounted(path))], "volumes": [SHARED]}
        text = await rejected(process_cluster, f"root-{number}", spec)
        assert f"mountPath {path!r}: a volume cannot be mounted on the root of a container" in text


async def test_the_folders_of_the_cluster_are_not_seen_by_a_path_of_the_machine(
    process_cluster: ProcessCluster,
) -> None:
    if not process_cluster.runtime.has_mounts:
        pytest.skip("plain processes see what their user can read")
    await process_cluster.add("Secret", {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
    owner = {"name": "secret", "secret": {"secretName": "s"}}
    other = container("main", "sleep 1000", mounted("/secret", "secret"))
    pod = await process_cluster.create("other", {"containers": [other], "volumes": [owner]})
    await process_cluster.until("other", lambda pod: pod["status"].get("phase") == "Running")
    below = f"pods/{pod['metadata']['uid']}/volumes/secret/key"
    above = {"name": "host", "hostPath": {"path": str(process_cluster.folder)}}
    reader = container("main", f"ls /host/run; cat /host/run/{below}", mounted("/host", "host"))
    await process_cluster.create("above", {"containers": [reader], "volumes": [above]})
    assert (await process_cluster.ended("above"))["phase"] == "Failed"
    assert "hidden" not in await process_cluster.log("above")
    own = {"name": "host", "hostPath": {"path": f"{process_cluster.folder}/run/pods"}}
    await process_cluster.create(
        "own", {"containers": [container("main", "true", mounted("/host", "host"))], "volumes": [own]}
    )
    status = await process_cluster.ended("own")
    message = status["containerStatuses"][0]["state"]["terminated"]["message"]
    assert "it belongs to the cluster itself" in message


async def test_volumes_of_objects_are_read_only_where_they_are_mounted(process_cluster: ProcessCluster) -> None:
    if not process_cluster.runtime.has_mounts:
        pytest.skip("plain processes have no mounts")
    await process_cluster.add("ConfigMap", {"metadata": {"name": "c"}, "data": {"key": "a"}})
    volume = {"name": "map", "configMap": {"name": "c"}}
    spec = {"containers": [container("main", "ln -s /etc /map/link", mounted("/map", "map"))], "volumes": [volume]}
    await process_cluster.create("p", spec)
    assert (await process_cluster.ended("p"))["phase"] == "Failed"


def volumes_of(folder: Path, *volumes: Json) -> Volumes:
    return Volumes(
        {"metadata": {"name": "p", "namespace": "n"}, "spec": {"volumes": list(volumes)}}, folder / "p", folder / "c"
    )


def downward(path: str) -> Json:
    item = {"path": path, "fieldRef": {"fieldPath": "metadata.name"}}
    return {"name": "v", "downwardAPI": {"items": [item]}}


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/x", "..", "a/..", "a/", "link/x", "folder/out/x"])
def test_files_of_a_volume_are_written_inside_it(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "p/volumes/v"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for link in (folder / "link", folder / "folder/out"):
        link.symlink_to(tmp_path / "outside")
    with pytest.raises(ContainerConfigError):
        volumes_of(tmp_path, downward(path)).create(SOURCES)
    assert not list((tmp_path / "outside").iterdir())
    assert not (tmp_path / "p/volumes/x").exists()


def test_a_file_of_a_volume_replaces_links_and_pipes_that_a_program_has_put_there(tmp_path: Path) -> None:
    folder = tmp_path / "p/volumes/v"
    folder.mkdir(parents=True)
    (tmp_path / "outside").write_text("before")
    (folder / ".x.new").symlink_to(tmp_path / "outside")
    (folder / "planted").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "x")
    volumes_of(tmp_path, downward("x")).create(SOURCES)
    assert (folder / "x").read_text() == "p"
    assert sorted(path.name for path in folder.iterdir()) == ["x"]
    assert (tmp_path / "outside").read_text() == "before"


def test_a_file_of_a_volume_replaces_one_of_any_size_that_a_program_has_put_there(tmp_path: Path) -> None:
    folder = tmp_path / "p/volumes/v"
    folder.mkdir(parents=True)
    (folder / "x").touch()
    os.truncate(folder / "x", 2**40)
    volumes_of(tmp_path, downward("x")).create(SOURCES)
    assert (folder / "x").read_text() == "p"


@pytest.mark.parametrize("name", ["../other/claim", "..", ".", "", "/etc"])
def test_the_name_of_a_claim_is_that_of_a_claim_in_the_namespace(tmp_path: Path, name: str) -> None:
    with pytest.raises(ContainerConfigError, match="persistentvolumeclaim"):
        volumes_of(tmp_path, {"name": "v", "persistentVolumeClaim": {"claimName": name}}).create(SOURCES)
