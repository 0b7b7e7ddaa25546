"""Programs in pods of process nodes reach the API server as in a cluster: with the token of their service account."""

import asyncio
import os
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest

from tests.local.process.conftest import NAMESPACE, ProcessCluster
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy_local.process.accounts import ACCOUNTS, RENEWAL, AccountTokens, ApiAddress
from volcanopy_local.process.api_service import ApiService

ASK = """\
import json, os, ssl, sys, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
read = lambda name: open(f"{folder}/{name}").read()
port = os.environ["KUBERNETES_SERVICE_PORT"]
address = sys.argv[1] if sys.argv[1:] else f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{port}"
headers = {"Authorization": "Bearer " + read("token"), "Content-Type": "application/json"}
body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
url = f"{address}/apis/authentication.k8s.io/v1/selfsubjectreviews"
request = urllib.request.Request(url, body, headers)
answer = urllib.request.urlopen(request, context=ssl.create_default_context(cafile=f"{folder}/ca.crt"))
print(read("namespace"), json.load(answer)["status"]["userInfo"]["username"])
"""
LOOK = ["sh", "-c", "ls /var/run/secrets/kubernetes.io/serviceaccount 2>&1; echo $KUBERNETES_SERVICE_HOST"]
only_with_mounts = pytest.mark.parametrize("process_cluster", ["bubblewrap", "namespaces"], indirect=True)


def pod_of(command: list[str], **spec: Any) -> Json:
    return {"containers": [{"name": "main", "image": "none", "command": command}], **spec}


async def account(cluster: ProcessCluster, **fields: Any) -> None:
    await cluster.client.create(ACCOUNTS, NAMESPACE, {"metadata": {"name": "robot"}, **fields})


@only_with_mounts
async def test_a_program_speaks_with_the_api_server_as_its_service_account(process_cluster: ProcessCluster) -> None:
    await account(process_cluster)
    await process_cluster.create("p", pod_of(["python3", "-c", ASK], serviceAccountName="robot"))
    status = await process_cluster.ended("p")
    output = await process_cluster.log("p")
    assert status["phase"] == "Succeeded", output
    assert output == "default system:serviceaccount:default:robot\n"


@only_with_mounts
@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to listen on port 443")
async def test_a_program_finds_the_api_server_by_its_name_in_a_cluster(process_cluster: ProcessCluster) -> None:
    await process_cluster.create("p", pod_of(["python3", "-c", ASK, "https://kubernetes.default.svc"]))
    await process_cluster.ended("p")
    assert await process_cluster.log("p") == "default system:serviceaccount:default:default\n"


async def test_without_the_right_to_its_port_the_service_has_no_address() -> None:
    """The test listens on all addresses, which has the same effect."""
    taken = await asyncio.start_server(lambda *_: None, "0.0.0.0")
    service = ApiService(ApiAddress("127.0.0.1", 1, ""), taken.sockets[0].getsockname()[1])
    try:
        assert await service.start() == ""
    finally:
        await service.stop()
        taken.close()


@only_with_mounts
async def test_a_pod_gets_no_token_if_it_or_its_account_says_so(process_cluster: ProcessCluster) -> None:
    await account(process_cluster, automountServiceAccountToken=False)
    await process_cluster.create("of-account", pod_of(LOOK, serviceAccountName="robot"))
    await process_cluster.create("of-pod", pod_of(LOOK, automountServiceAccountToken=False))
    await process_cluster.create(
        "against-account", pod_of(LOOK, serviceAccountName="robot", automountServiceAccountToken=True)
    )
    for name in ("of-account", "of-pod", "against-account"):
        await process_cluster.ended(name)
    for name in ("of-account", "of-pod"):
        assert "No such file" in await process_cluster.log(name)
    assert await process_cluster.log("against-account") == "ca.crt\nnamespace\ntoken\n127.0.0.1\n"


@only_with_mounts
async def test_a_projected_volume_has_the_token_and_the_authorities(process_cluster: ProcessCluster) -> None:
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"serviceAccountToken": {"path": "vault", "audience": "vault"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", "cd /own; ls; head -n1 ca.crt; cmp -s token vault || echo two tokens"],
        "volumeMounts": [{"name": "own", "mountPath": "/own"}],
    }
    volumes = [{"name": "own", "projected": {"sources": sources}}]
    await process_cluster.create("p", {"containers": [container], "volumes": volumes})
    await process_cluster.ended("p")
    expected = "ca.crt\ntoken\nvault\n-----BEGIN CERTIFICATE-----\ntwo tokens\n"
    assert await process_cluster.log("p") == expected


@only_with_mounts
async def test_a_program_without_a_token_is_nobody(process_cluster: ProcessCluster) -> None:
    """To clients of the machine the same server gives all rights without one."""
    program = ASK.replace('"Bearer " + read("token")', '"Bearer unknown"')
    await process_cluster.create("p", pod_of(["python3", "-c", program]))
    assert (await process_cluster.ended("p"))["phase"] == "Failed"
    assert "HTTP Error 401: Unauthorized" in await process_cluster.log("p")


@pytest.mark.parametrize("process_cluster", ["plain"], indirect=True)
async def test_without_mounts_programs_are_not_told_of_the_api_server(process_cluster: ProcessCluster) -> None:
    """The variables without the files would be an error to programs that otherwise read a kubeconfig."""
    status = await process_cluster.run("p", "sh", "-c", "test -z $KUBERNETES_SERVICE_HOST")
    assert status["phase"] == "Succeeded"


class Server:
    """Answers as an API server with one service account."""

    def __init__(self) -> None:
        self.uid, self.issued = "1", 0
        self.client = AsyncMock(spec=Client)
        self.client.get.side_effect = self._get
        self.client.post_raw.side_effect = self._issue

    async def _get(self, _kind: object, _namespace: str, name: str) -> Json:
        if name != "robot":
            raise NotFound(404)
        return {"metadata": {"namespace": "team", "name": name, "uid": self.uid}}

    async def _issue(self, _path: str, _body: object) -> bytes:
        self.issued += 1
        return msgspec.json.encode({"status": {"token": f"token {self.issued}"}})


def pod(name: str) -> Json:
    return {"metadata": {"namespace": "team", "name": "p"}, "spec": {"serviceAccountName": name}}


def accounts_of(server: Server, folder: Path, now: list[float]) -> AccountTokens:
    return AccountTokens(server.client, folder, ApiAddress("127.0.0.1", 1, "PEM"), clock=lambda: now[0])


async def test_pods_of_an_account_share_its_token_until_it_is_due(tmp_path: Path) -> None:
    server, now = Server(), [0.0]
    accounts = accounts_of(server, tmp_path, now)
    folder = (await accounts.of(pod("robot"))).folder
    assert folder is not None
    assert (await accounts.of(pod("robot"))).folder == folder
    assert (folder / "token").read_text() == "token 1"
    assert not await accounts.renew()
    now[0] = RENEWAL
    assert await accounts.renew()
    assert (folder / "token").read_text() == "token 2"


async def test_an_account_that_is_created_again_gets_a_new_token(tmp_path: Path) -> None:
    server = Server()
    accounts = accounts_of(server, tmp_path, [0.0])
    await accounts.of(pod("robot"))
    server.uid = "2"
    folder = (await accounts.of(pod("robot"))).folder
    assert folder is not None
    assert (folder / "token").read_text() == "token 2"


async def test_a_pod_whose_account_does_not_exist_or_gets_no_token_starts_without(tmp_path: Path) -> None:
    server = Server()
    accounts = accounts_of(server, tmp_path, [0.0])
    assert (await accounts.of(pod("stranger"))).folder is None
    server.client.post_raw.side_effect = Forbidden(403)
    assert (await accounts.of(pod("robot"))).folder is None


async def test_programs_of_all_users_read_the_credentials_in_a_folder_that_only_this_user_enters(
    tmp_path: Path,
) -> None:
    server = Server()
    (tmp_path / "accounts").mkdir(mode=0o755)
    accounts = accounts_of(server, tmp_path / "accounts", [0.0])
    folder = (await accounts.of(pod("robot"))).folder
    assert folder is not None
    assert {path.stat().st_mode & 0o007 for path in folder.iterdir()} == {0o004}
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent, tmp_path / "accounts")] == [
        0o755,
        0o755,
        0o700,
    ]
