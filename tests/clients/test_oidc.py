"""Users of an OpenID Connect provider on the web page: `make workflow-clients` installs the provider in an environment of its own."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlparse

import aiohttp

from hack.certificates import Authority
from tests.clients.interpreters import interpreter, marks
from tests.controlplane.fixtures import chart_crds, need_programs
from tests.controlplane.plane import ControlPlane
from volcanopy.cli.ui.server import UiSettings, page_served
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kubeconfig import load_connection

PYTHON = interpreter("CLIENTS_PYTHON", "oidc_provider_mock")
pytestmark = marks(PYTHON, "oidc-provider-mock", "starts an API server that trusts a provider")
PROVIDER = """
import sys
from oidc_provider_mock import app
from werkzeug.serving import make_server

server = make_server("127.0.0.1", 0, app(), threaded=True, ssl_context=(sys.argv[1], sys.argv[2]))
print(server.server_port, flush=True)
server.serve_forever()
"""
CLIENT = "volcanopy"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
JOB = {
    "apiVersion": "batch.volcanopy.io/v1alpha1",
    "kind": "BatchJob",
    "spec": {"tasks": [{"name": "main", "template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}}]},
}


@contextmanager
def provider(folder: Path) -> Iterator[str]:
    """Run a provider with a certificate of its own authority, which is `ca.pem`; yield its issuer."""
    authority = Authority()
    pair = authority.server()
    for name, content in {"ca": authority.certificate, "certificate": pair.certificate, "key": pair.key}.items():
        (folder / f"{name}.pem").write_bytes(content)
    command = (PYTHON, "-c", PROVIDER, folder / "certificate.pem", folder / "key.pem")
    with (
        (folder / "provider.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            yield f"https://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


async def id_token(issuer: str, user: str, client: str = CLIENT) -> str:
    """Sign a user in, as a proxy before the page does for a browser: the form of the provider, then the code for a token."""
    redirect = "https://batch.example.com/oauth2/callback"
    query = {"response_type": "code", "client_id": client, "redirect_uri": redirect, "scope": "openid"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        address = f"{issuer}/oauth2/authorize?{urlencode(query)}"
        async with session.post(address, data={"sub": user}, allow_redirects=False) as response:
            code = parse_qs(urlparse(response.headers["Location"]).query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect}
        address = f"{issuer}/oauth2/token"
        async with session.post(address, data=form | {"client_id": client, "client_secret": "secret"}) as response:
            assert response.status == 200, await response.text()
            return str((await response.json())["id_token"])


def grant(plane: ControlPlane, namespace: str, user: str) -> None:
    """Create a namespace with a job, whose jobs a user may list."""
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    jobs = f"/apis/batch.volcanopy.io/v1alpha1/namespaces/{namespace}/batchjobs"
    plane.request("POST", jobs, JOB | {"metadata": {"name": f"job-of-{namespace}"}})
    rule = {"apiGroups": ["batch.volcanopy.io"], "resources": ["batchjobs"], "verbs": ["get", "list", "watch"]}
    roles = f"{RBAC}/namespaces/{namespace}"
    plane.request("POST", f"{roles}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = {"metadata": {"name": "reader"}, "roleRef": reference, "subjects": [subject]}
    plane.request("POST", f"{roles}/rolebindings", binding)


async def test_users_of_a_provider_see_what_rbac_lets_them_read(tmp_path: Path) -> None:
    need_programs()
    with provider(tmp_path) as issuer:
        flags = {"issuer-url": issuer, "client-id": CLIENT, "ca-file": tmp_path / "ca.pem", "username-prefix": "oidc:"}
        options = [f"--oidc-{name}={value}" for name, value in flags.items()]
        plane = await asyncio.to_thread(lambda: ControlPlane.start(crds=chart_crds(), apiserver_flags=options))
        with plane:
            for namespace, user in (("robotics", "ada"), ("language", "eve")):
                grant(plane, namespace, f"oidc:{user}")
            settings = UiSettings(port=0, require_token=True)
            async with (
                Client(load_connection(plane.kubeconfig)) as client,
                page_served(client, settings) as url,
                aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            ):

                async def answer(path: str, token: str) -> tuple[int, str]:
                    headers = {"Authorization": f"Bearer {token}"}
                    async with session.get(f"{url}api/{path}", headers=headers) as response:
                        return response.status, await response.text()

                for namespace, user, other in (("robotics", "ada", "language"), ("language", "eve", "robotics")):
                    token = await id_token(issuer, user)
                    _, text = await answer("session", token)
                    document = json.loads(text)
                    assert [document[key] for key in ("user", "namespace", "namespaces")] == [
                        f"oidc:{user}",
                        namespace,
                        [namespace],
                    ]
                    status, text = await answer("jobs", token)
                    assert (status, f"job-of-{namespace}" in text, other in text) == (200, True, False)
                    assert (await answer(f"jobs/{other}/job-of-{other}", token))[0] == 403
                status, text = await answer("session", await id_token(issuer, "mallory"))
                assert (status, json.loads(text)["namespaces"]) == (200, [])
                assert (await answer("jobs", await id_token(issuer, "ada", client="another-program")))[0] == 401
