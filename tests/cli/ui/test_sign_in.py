"""The page for users with tokens of their own, on a real API server: each sees and does what RBAC allows them, and no more."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.cli.run_commands import run_in_process
from tests.cli.ui.api_server import BINDINGS, USERS, connection, create_namespace, grant, install, serving, submit
from tests.cli.ui.chromium import browser, needs_browser
from tests.controlplane.plane import ControlPlane
from volcanopy.cli.ui import viewers
from volcanopy.cli.ui.server import TOKEN_HEADER, UiSettings, page_served
from volcanopy.client.errors import CommandError
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import ApiError
from volcanopy.kube.client.kubeconfig import load_connection

RBAC = "/apis/rbac.authorization.k8s.io/v1"
JOBS = "/apis/batch.volcanopy.io/v1alpha1"
VIEW = [
    {"apiGroups": ["batch.volcanopy.io"], "resources": ["batchjobs"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["scheduling.volcanopy.io"], "resources": ["podgroups"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
]
DELETE = [{"apiGroups": ["batch.volcanopy.io"], "resources": ["batchjobs"], "verbs": ["delete"]}]


@dataclass(frozen=True)
class Team:
    """A namespace with a job, and the token of a service account that reads it."""

    namespace: str
    token: str

    @property
    def cookie(self) -> dict[str, str]:
        return {"Cookie": f"{viewers.NAMESPACE_COOKIE}={self.namespace}"}

    def headers(self, **headers: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} | self.cookie | headers


def team(plane: ControlPlane, rules: list[dict[str, Any]]) -> Team:
    name = f"page-{uuid.uuid4().hex[:8]}"
    space = f"/api/v1/namespaces/{name}"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    plane.request("POST", f"{space}/serviceaccounts", {"metadata": {"name": "user"}})
    plane.request("POST", f"{RBAC}/namespaces/{name}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "user", "namespace": name}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    }
    plane.request("POST", f"{RBAC}/namespaces/{name}/rolebindings", binding)
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    spec = {"tasks": [{"name": "worker", "replicas": 1, "template": template}]}
    plane.request(
        "POST",
        f"{JOBS}/namespaces/{name}/batchjobs",
        {
            "apiVersion": "batch.volcanopy.io/v1alpha1",
            "kind": "BatchJob",
            "metadata": {"name": f"job-of-{name}"},
            "spec": spec,
        },
    )
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = plane.request("POST", f"{space}/serviceaccounts/user/token", request)
    return Team(name, answer["status"]["token"])


@pytest.fixture(scope="module")
def teams(real_control_plane: ControlPlane) -> Iterator[tuple[Team, Team]]:
    """A user who may delete jobs, and one who only reads; each in a namespace of their own."""
    created = team(real_control_plane, VIEW + DELETE), team(real_control_plane, VIEW)
    yield created
    for member in created:
        real_control_plane.request("DELETE", f"/api/v1/namespaces/{member.namespace}")


@asynccontextmanager
async def page(api: Connection) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    """The page with the credentials of an administrator, which no user may get."""
    settings = UiSettings(port=0, allow_changes=True, require_token=True)
    jar = aiohttp.DummyCookieJar()
    async with (
        Client(api) as client,
        page_served(client, settings) as url,
        aiohttp.ClientSession(cookie_jar=jar) as session,
    ):
        yield url, session


async def asked(session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> tuple[int, str]:
    async with session.get(url, headers=headers) as response:
        return response.status, await response.text()


async def test_each_user_sees_the_jobs_that_rbac_lets_them_read(
    real_control_plane: ControlPlane, teams: tuple[Team, Team]
) -> None:
    # The certificate of the page's own kubeconfig, an administrator's, must not speak for a user.
    path = real_control_plane.kubeconfig_for("page-admin", ["system:masters"])
    async with page(load_connection(path)) as (url, session):
        for own, other in (teams, teams[::-1]):
            documents = ["jobs", "overview", "nodes", "decisions", "queue?name=default", "queues"]
            texts = [(await asked(session, f"{url}api/{name}", own.headers()))[1] for name in documents]
            assert f"job-of-{own.namespace}" in texts[0]
            assert not any(other.namespace in text for text in texts)
            for name in (f"jobs/{other.namespace}/job-of-{other.namespace}", f"jobs/{other.namespace}/x/logs/y"):
                status, text = await asked(session, f"{url}api/{name}", own.headers())
                assert status == 403, text
            everywhere = {"Authorization": f"Bearer {own.token}"}
            assert f"job-of-{own.namespace}" in (await asked(session, f"{url}api/jobs", everywhere))[1]
            chosen = json.loads((await asked(session, f"{url}api/session", everywhere))[1])
            assert (chosen["namespace"], chosen["namespaces"]) == (own.namespace, [own.namespace])
            foreign = own.headers() | other.cookie
            assert json.loads((await asked(session, f"{url}api/jobs", foreign))[1])["rows"] == []


async def test_a_list_of_all_namespaces_names_one_that_the_user_may_read(
    real_control_plane: ControlPlane, teams: tuple[Team, Team], tmp_path: Path
) -> None:
    config = yaml.safe_load(real_control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": teams[0].token}
    config["contexts"][0]["context"]["namespace"] = teams[0].namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    outcome = await asyncio.to_thread(run_in_process, "job", "list", "-A", kubeconfig=tmp_path / "kubeconfig")
    assert outcome.sentence() == (
        f"you may not list batchjobs in all namespaces, only in one, as in namespace {teams[0].namespace}: "
        f"use -n {teams[0].namespace}"
    )


async def test_a_job_is_deleted_by_who_may_delete_it(
    real_control_plane: ControlPlane, teams: tuple[Team, Team]
) -> None:
    async with page(load_connection(real_control_plane.kubeconfig)) as (url, session):
        for own, verbs, status in ((teams[1], [], 403), (teams[0], ["delete"], 200)):
            document = json.loads(
                (await asked(session, f"{url}api/session?namespace={own.namespace}", own.headers()))[1]
            )
            assert document["changes"] == verbs
            assert document["user"] == f"system:serviceaccount:{own.namespace}:user"
            path = f"{url}api/jobs/{own.namespace}/job-of-{own.namespace}/delete"
            async with session.post(path, headers=own.headers()) as response:
                assert response.status == 403, "without the token of the page"
            headers = own.headers(**{TOKEN_HEADER: document["token"]})
            other = teams[0] if own is teams[1] else teams[1]
            async with session.post(path, headers=other.headers(**{TOKEN_HEADER: document["token"]})) as response:
                assert response.status == 403, "the page's token is that of its user"
            async with session.post(path, headers=headers) as response:
                assert response.status == status, await response.text()


FORGED = [
    {},
    {"X-Forwarded-User": "admin", "X-Remote-User": "admin", "X-Forwarded-Groups": "system:masters"},
    {"Impersonate-User": "system:admin", "Impersonate-Group": "system:masters"},
    {"Authorization": "Basic YWRtaW46YWRtaW4="},
    {"Authorization": "Bearer made-up"},
    {"Cookie": f"{viewers.COOKIE}=made-up"},
]


@pytest.mark.parametrize("headers", FORGED, ids=[" ".join(headers) or "none" for headers in FORGED])
async def test_nothing_but_a_token_of_the_api_server_opens_the_page(
    real_control_plane: ControlPlane, headers: dict[str, str]
) -> None:
    sent = {name: text.format(token=real_control_plane.token) for name, text in headers.items()}
    async with page(load_connection(real_control_plane.kubeconfig)) as (url, session):
        for path in ("session", "jobs", "changes", "snapshot", f"jobs?token={real_control_plane.token}"):
            status, text = await asked(session, f"{url}api/{path}", sent)
            assert status == 401
            assert "token" not in json.loads(text)
        async with session.post(f"{url}api/whatif", json={}, headers=sent) as response:
            assert response.status == 401
        assert (await asked(session, f"{url}assets/app.js", sent))[0] == 200


async def test_impersonation_is_not_passed_on(real_control_plane: ControlPlane, teams: tuple[Team, Team]) -> None:
    forged = {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}
    async with page(load_connection(real_control_plane.kubeconfig)) as (url, session):
        document = json.loads((await asked(session, f"{url}api/session", teams[0].headers(**forged)))[1])
    assert document["user"].startswith("system:serviceaccount:")


async def test_the_form_keeps_a_valid_token_where_no_script_and_no_other_site_gets_it(
    real_control_plane: ControlPlane, teams: tuple[Team, Team]
) -> None:
    token = teams[1].token
    async with page(load_connection(real_control_plane.kubeconfig)) as (url, session):
        wrong: list[tuple[dict[str, Any], int]] = [
            ({"json": {"token": "made-up"}}, 401),
            ({"json": {"token": f"{token}; path=/x"}}, 400),
            ({"json": {}}, 400),
            ({"data": {"token": token}}, 403),
            ({"json": {"token": token}, "headers": {"Origin": "http://other.example"}}, 403),
        ]
        for request, status in wrong:
            async with session.post(f"{url}api/signin", **request) as response:
                assert response.status == status
                assert "Set-Cookie" not in response.headers
        async with session.post(
            f"{url}api/signin", json={"token": token}, headers={"X-Forwarded-Proto": "https"}
        ) as response:
            cookie = response.cookies[viewers.COOKIE]
        assert (cookie.value, cookie["httponly"], cookie["samesite"], cookie["secure"]) == (token, True, "Strict", True)
        signed_in = {"Cookie": f"{viewers.COOKIE}={token}; {viewers.NAMESPACE_COOKIE}={teams[1].namespace}"}
        assert f"job-of-{teams[1].namespace}" in (await asked(session, f"{url}api/jobs", signed_in))[1]
        async with session.post(f"{url}api/signout", json={}) as response:
            assert response.cookies[viewers.COOKIE].value == ""


async def test_a_revoked_permission_and_a_revoked_token_end_at_the_next_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(viewers, "CHECK_SECONDS", -1.0)
    async with serving(rbac=True, users=USERS, persist=tmp_path / "objects") as server:
        await install(server)
        await create_namespace(server, "team")
        await submit(server, "seen", "team")
        await grant(server, "ada", "team", {"batch.volcanopy.io": ["batchjobs"]})
        headers = {"Authorization": "Bearer token-of-ada", "Cookie": f"{viewers.NAMESPACE_COOKIE}=team"}
        async with page(connection(server)) as (url, session):
            assert "seen" in (await asked(session, f"{url}api/jobs", headers))[1]
            async with session.get(f"{url}api/changes", headers=headers) as stream:
                await stream.content.readuntil(b"\n\n")
                async with Client(connection(server)) as client:
                    await client.delete(BINDINGS, "team", "reader")
                assert "seen" not in (await asked(session, f"{url}api/jobs", headers))[1]
                await stream.read()  # it ends: nothing more of what could be read before is announced
            await server.stop()
            port = int(server.url.rpartition(":")[2])
            async with serving(rbac=True, persist=tmp_path / "objects", port=port):  # which no longer has this token
                assert (await asked(session, f"{url}api/jobs", headers))[0] == 401


async def test_the_viewer_without_requests_for_the_longest_time_ends_where_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(viewers, "_MOST", 1)
    async with serving(rbac=True, users=USERS) as server:
        await install(server)
        ada, eve = ({"Authorization": f"Bearer {token}"} for token in USERS)
        async with (
            page(connection(server)) as (url, session),
            session.get(f"{url}api/changes", headers=ada) as stream,
        ):
            await stream.content.readuntil(b"\n\n")
            assert (await asked(session, f"{url}api/jobs", eve))[0] == 200
            await stream.read()
            assert (await asked(session, f"{url}api/jobs", ada))[0] == 200


async def test_a_server_that_takes_everybody_for_an_administrator_is_rejected() -> None:
    """Such as `kubectl proxy`."""
    async with serving() as server:
        with pytest.raises(CommandError, match="takes requests without a token for those of user"):
            async with page(connection(server)):
                pass


async def test_a_connection_without_credentials_sends_no_certificate(real_control_plane: ControlPlane) -> None:
    connected = load_connection(real_control_plane.kubeconfig_for("page-admin", ["system:masters"]))
    path = "/api/v1/namespaces"
    async with Client(connected) as client:
        assert await client.get_raw(path)
    async with Client(connected.without_credentials()) as client:
        with pytest.raises(ApiError) as error:
            await client.get_raw(path)
    assert error.value.code in {401, 403}


@needs_browser
async def test_a_user_signs_in_begins_in_their_namespace_and_signs_out_in_a_browser(
    real_control_plane: ControlPlane, teams: tuple[Team, Team]
) -> None:
    own = teams[1]
    async with page(load_connection(real_control_plane.kubeconfig)) as (url, _), browser() as tab:
        await tab.goto(f"{url}#/jobs")
        await tab.get_by_label("Token").fill("made-up")
        await tab.get_by_role("button", name="Sign in").click()
        await tab.get_by_role("alert").filter(has_text="does not accept this token").wait_for()
        await tab.get_by_label("Token").fill(own.token)
        await tab.get_by_role("button", name="Sign in").click()
        await tab.get_by_role("link", name=f"job-of-{own.namespace}").wait_for()
        assert await tab.locator("header select").input_value() == own.namespace
        assert own.token not in await tab.evaluate("document.cookie")
        assert own.token not in tab.url
        await tab.get_by_role("button", name="Sign out").click()
        await tab.get_by_label("Token").wait_for()
        assert f"job-of-{own.namespace}" not in await tab.inner_text("body")
