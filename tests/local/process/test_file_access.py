"""The programs of a pod can read and write the files of their pod, whoever they run as."""

import os
from collections.abc import Iterator

import pytest

from tests.local.process.conftest import ProcessCluster
from volcanopy.kube.client.kinds import Json
from volcanopy_local.process.accounts import MOUNT_PATH

SECRET = {"name": "secret", "secret": {"secretName": "s"}}
SHARED = {"name": "shared", "emptyDir": {}}


@pytest.fixture(params=[0o022, 0o077], ids=["umask 022", "umask 077"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def container(name: str, script: str, uid: int | None) -> Json:
    mounts = [{"name": volume, "mountPath": f"/{volume}"} for volume in ("secret", "shared")]
    body = {"name": name, "image": "none", "command": ["sh", "-ec", script], "volumeMounts": mounts}
    return body if uid is None else {**body, "securityContext": {"runAsUser": uid, "runAsGroup": uid}}


@pytest.mark.parametrize("uids", [(None, None), (1234, 1234), (1234, 5678)], ids=["default", "one user", "two users"])
async def test_all_containers_read_secrets_and_tokens_and_share_folders(
    umask: None,
    process_cluster: ProcessCluster,
    uids: tuple[int | None, int | None],
) -> None:
    has_mounts = process_cluster.runtime.has_mounts
    if uids[0] is not None and not has_mounts and os.geteuid() != 0:
        pytest.skip("plain processes of a user have its number only")
    await process_cluster.add("Secret", {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
    token = f"test -s {MOUNT_PATH}/token && test -s {MOUNT_PATH}/ca.crt" if has_mounts else "true"
    script = f"cat /secret/key > /dev/null; {token}; touch ${{TMPDIR:-/tmp}}/own; echo $(id -u) $(id -g) > /shared/%s"
    first, last = (container(name, script % name, uid) for name, uid in zip(("first", "last"), uids, strict=True))
    await process_cluster.create("p", {"initContainers": [first], "containers": [last], "volumes": [SECRET, SHARED]})
    status = await process_cluster.ended("p")
    assert status["phase"] == "Succeeded", await process_cluster.log("p", "first") + await process_cluster.log(
        "p", "last"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("process_cluster", ["plain"], indirect=True)
async def test_plain_processes_of_another_user_do_not_reach_the_files_of_a_pod(process_cluster: ProcessCluster) -> None:
    await process_cluster.add("Secret", {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
    own = container("main", "sleep 1000", 1234)
    pod = await process_cluster.create("own", {"containers": [own], "volumes": [SECRET, SHARED]})
    await process_cluster.until("own", lambda pod: pod["status"].get("phase") == "Running")
    path = process_cluster.folder / "run/pods" / pod["metadata"]["uid"] / "volumes/secret/key"
    for uid, phase in ((1234, "Succeeded"), (5678, "Failed")):
        context = {"runAsUser": uid, "runAsGroup": uid}
        status = await process_cluster.run(f"as-{uid}", "cat", str(path), securityContext=context)
        assert status["phase"] == phase
