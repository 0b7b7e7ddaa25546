"""Finding the cluster, and staying known to it: real kubeconfig forms, plugins, service accounts."""

import asyncio
import base64
import datetime as dt
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web
from kubernetes import client as official
from multidict import CIMultiDict

import volcanopy
from tests.kube.faulty_server import FaultyServer, faulty_server
from tests.kube.kubeconfigs import Authority, Json, Plugin, config, load, write
from tests.kube.shapes import PODS
from tests.kube.socks_proxy import socks_proxy
from volcanopy.kube.client import connection as connection_module
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import MIN_PERIOD, Connection, Grant, RenewedCredentials, headers_of
from volcanopy.kube.client.errors import NoCluster, Unauthorized
from volcanopy.kube.client.kubeconfig import in_cluster, load_connection

pytestmark = pytest.mark.usefixtures("nowhere")


async def sent(connection: Connection) -> list[tuple[str, str]]:
    return list((await connection.credentials.headers()).items())


async def test_a_token_and_a_namespace_are_read(tmp_path: Path) -> None:
    connection = load(tmp_path, config({"token": "abc"}, server="https://example:6443/k8s/", namespace="team"))
    assert (connection.url, connection.namespace, connection.context) == ("https://example:6443/k8s", "team", "main")
    assert await sent(connection) == [("Authorization", "Bearer abc")]
    assert connection.ssl is not None
    assert connection.ssl.verify_mode is ssl.CERT_REQUIRED


async def test_no_user_is_anonymous_in_the_default_namespace(tmp_path: Path) -> None:
    connection = load(tmp_path, config())
    assert await sent(connection) == []
    assert (connection.namespace, connection.ssl) == ("default", None)


async def test_a_name_and_a_password_are_basic_authentication(tmp_path: Path) -> None:
    connection = load(tmp_path, config({"username": "me", "password": "p:w"}))
    assert await sent(connection) == [("Authorization", "Basic " + base64.b64encode(b"me:p:w").decode())]


async def test_impersonation_is_sent(tmp_path: Path) -> None:
    user = {"token": "t", "as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"scope": ["x", "y"]}}
    assert await sent(load(tmp_path, config(user))) == [
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scope", "x"),
        ("Impersonate-Extra-scope", "y"),
    ]


def test_several_files_are_merged_and_the_first_current_context_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = config(server="http://first:1")
    second = {**config(server="http://second:2"), "current-context": "other"}
    second["contexts"] = [{"name": "other", "context": {"cluster": "d"}}]
    second["clusters"] = [{"name": "d", "cluster": {"server": "http://second:2"}}]
    paths = [write(tmp_path / "1", first), tmp_path / "missing", write(tmp_path / "2", second)]
    monkeypatch.setenv("KUBECONFIG", ":".join(str(path) for path in paths))
    assert load_connection().url == "http://first:1"
    assert load_connection(context="other").url == "http://second:2"


def test_an_empty_file_among_several_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write(tmp_path / "1", "# nothing"), write(tmp_path / "2", config(server="http://second:2"))]
    monkeypatch.setenv("KUBECONFIG", ":".join(str(path) for path in paths))
    assert load_connection().url == "http://second:2"


def test_a_user_without_a_name_and_a_home_gets_the_same_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    monkeypatch.delenv("HOME")
    with pytest.raises(NoCluster, match=r"no cluster is configured: there is no ~/\.kube/config"):
        load_connection()
    monkeypatch.setenv("KUBECONFIG", "~nobody-of-this-name/config")
    with pytest.raises(NoCluster, match=r"names no file that exists \(~nobody-of-this-name/config\)"):
        load_connection()


def test_json_that_is_indented_with_tabs_is_read(tmp_path: Path) -> None:
    assert load(tmp_path, json.dumps(config(server="http://tabs:1"), indent="\t")).url == "http://tabs:1"


async def test_a_token_file_comes_before_the_token_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "token", "from-file\n")
    user = {"token": "inline", "tokenFile": "token"}
    assert await sent(load(tmp_path, config(user))) == [("Authorization", "Bearer from-file")]


def test_the_home_folder_comes_last(tmp_path: Path) -> None:
    write(tmp_path / "home/.kube/config", config(server="http://home:1"))
    assert load_connection().url == "http://home:1"


def test_a_missing_cluster_gives_a_one_line_error_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoCluster, match=r"no cluster is configured: there is no ~/\.kube/config.*volcanopy local up"):
        load_connection()
    monkeypatch.setenv("KUBECONFIG", "/nowhere/x")
    with pytest.raises(NoCluster, match=r"\$KUBECONFIG names no file that exists \(/nowhere/x\)"):
        load_connection()
    with pytest.raises(NoCluster, match="kubeconfig /nowhere/y: there is no such file"):
        load_connection(Path("/nowhere/y"))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"current-context": ""}, "it names no current context; it has main; choose one with --context"),
        ({"current-context": "x"}, "there is no context 'x'; it has main"),
        ({"clusters": []}, "context 'main' names cluster 'c', which does not exist"),
        ({"clusters": [{"name": "c", "cluster": {"server": ""}}]}, "cluster 'c' has no server"),
        ({"users": []}, "the context names user 'u', which does not exist"),
        ({"users": [{"user": {}}]}, "an entry of users has no name"),
        ({"users": [{"name": "u", "user": "me"}]}, "user 'u' must be a mapping"),
        ({"users": [{"name": "u", "user": {"tokenFile": "absent"}}]}, "absent: there is no such file"),
        ({"contexts": None}, "it has none"),
    ],
)
def test_errors_in_a_kubeconfig_name_the_field(tmp_path: Path, change: Json, complaint: str) -> None:
    with pytest.raises(NoCluster) as caught:
        load(tmp_path, {**config({"token": "t"}), **change})
    assert complaint in str(caught.value)
    assert str(tmp_path / "config") in str(caught.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("- a list", "is not a kubeconfig: its content must be a mapping"),
        ("a: b: c", "line 1: invalid YAML: mapping values are not allowed here"),
        ("", "is not a kubeconfig: its content must be a mapping"),
    ],
)
def test_an_invalid_kubeconfig_file_is_named(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(NoCluster) as caught:
        load(tmp_path, content)
    assert str(caught.value).startswith(f"kubeconfig {tmp_path / 'config'}: ")
    assert str(caught.value).endswith(problem)


def test_a_kubeconfig_that_powershell_has_redirected_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a: b", encoding="utf-16")
    with pytest.raises(NoCluster, match=r"/config is not UTF-8 text$"):
        load_connection(tmp_path / "config")


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match=r"it is a folder$"):
        load_connection(tmp_path)


def test_a_proxy_comes_from_the_cluster_else_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://environment:3128")
    monkeypatch.setenv("NO_PROXY", "exempt.example")
    own = config(server="https://cluster", cluster={"proxy-url": "http://own:3128"})
    assert load(tmp_path, own).proxy == "http://own:3128"
    assert load(tmp_path, config(server="https://cluster")).proxy == "http://environment:3128"
    assert load(tmp_path, config(server="https://exempt.example")).proxy is None
    unusable = config(cluster={"proxy-url": "ftp://own:21"})
    with pytest.raises(NoCluster, match="proxy ftp://own:21: the scheme must be one of http, https, socks5, socks5h"):
        load(tmp_path, unusable)


@pytest.mark.parametrize(
    ("exemptions", "server", "is_exempt"),
    [
        ("10.0.0.0/8", "https://10.1.2.3", True),
        ("10.0.0.0/8", "https://11.1.2.3:6443", False),
        ("10.1.2.3", "https://10.1.2.3:6443", True),
        ("10.1.2.3:443", "https://10.1.2.3:6443", False),
        ("fd00::/8", "https://[fd00::1]:6443", True),
        ("[fd00::1]:6443", "https://[fd00::1]:6443", True),
        ("fd00::2", "https://[fd00::1]", False),
        ("example.org", "https://api.example.org", True),
        ("example.org", "https://example.org:6443", True),
        ("example.org:6443", "https://example.org:6443", True),
        ("example.org:443", "https://example.org:6443", False),
        (".example.org", "https://example.org", False),
        ("*.Example.org", "https://api.example.org", True),
        ("ample.org", "https://example.org", False),
        ("first, 10.0.0.0/8,last", "https://10.1.2.3", True),
        ("*", "https://example.org", True),
        ("", "https://127.0.0.1:6443", True),
        ("", "https://localhost:6443", True),
        ("no/network", "https://10.1.2.3", False),
    ],
)
def test_a_server_is_exempt_from_the_proxy_as_for_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exemptions: str, server: str, is_exempt: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://environment:3128")
    monkeypatch.setenv("NO_PROXY", exemptions)
    assert load(tmp_path, config(server=server)).proxy == (None if is_exempt else "http://environment:3128")


async def test_a_request_goes_through_the_proxy(tmp_path: Path) -> None:
    async with faulty_server() as proxy:
        proxy.put("pods", "ns", "p")
        connection = load(tmp_path, config(server="http://cluster.invalid", cluster={"proxy-url": proxy.url}))
        async with Client(connection) as client:
            assert (await client.get(PODS, "ns", "p")).metadata.name == "p"


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_requests_and_watches_go_through_a_socks_proxy_that_resolves_the_name(
    tmp_path: Path, scheme: str
) -> None:
    async with faulty_server() as server, socks_proxy(server.url) as proxy:
        server.put("pods", "ns", "p")
        cluster = {"proxy-url": f"{scheme}://127.0.0.1:{proxy.port}"}
        async with Client(load(tmp_path, config(server="http://cluster.invalid:81", cluster=cluster))) as client:
            assert (await client.get(PODS, "ns", "p")).metadata.name == "p"
            version = (await client.list(PODS, "ns")).resource_version
            async with client.watch(PODS, "ns", resource_version=version) as stream:
                server.put("pods", "ns", "q")
                events = [json.loads(await stream.readline()) for _ in range(2)]
    assert [event["type"] for event in events] == ["BOOKMARK", "ADDED"]
    assert set(proxy.targets) == {("cluster.invalid", 81)}


async def test_an_exec_plugin_provides_the_token_and_runs_once(tmp_path: Path, plugin: Plugin) -> None:
    connection = load(tmp_path, config(plugin.user, server="http://here:1"))
    for _ in range(3):
        assert await sent(connection) == [("Authorization", "Bearer token-1")]
    assert plugin.calls == 1
    assert json.loads((tmp_path / "info").read_text())["spec"]["cluster"]["server"] == "http://here:1"


async def test_a_token_is_replaced_before_it_expires(tmp_path: Path, plugin: Plugin) -> None:
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)
    plugin.answer(expirationTimestamp=soon.strftime("%Y-%m-%dT%H:%M:%SZ"))
    connection = load(tmp_path, config(plugin.user))
    assert await asyncio.gather(*(sent(connection) for _ in range(5))) == [[("Authorization", "Bearer token-2")]] * 5
    assert plugin.calls == 2


async def test_an_unauthorized_token_is_replaced_and_the_request_retried(tmp_path: Path, plugin: Plugin) -> None:
    async with faulty_server() as server:
        server.put("pods", "ns", "p")
        server.tokens = {"Bearer token-2"}
        async with Client(load(tmp_path, config(plugin.user, server=server.url))) as client:
            result = await asyncio.gather(*(client.get(PODS, "ns", "p") for _ in range(20)))
            assert len(result) == 20
            assert plugin.calls == 2
            made = await client.create(PODS, "ns", {"metadata": {"name": "q"}})
            assert made.metadata.name == "q"
            server.tokens = set()
            with pytest.raises(Unauthorized):
                await client.get(PODS, "ns", "p")
            assert plugin.calls <= 3


async def test_a_later_plugin_failure_keeps_the_old_token(tmp_path: Path, plugin: Plugin) -> None:
    connection = load(tmp_path, config(plugin.user))
    write(tmp_path / "fault", "the identity provider is down")
    refused = await connection.credentials.headers()
    assert not await connection.credentials.refresh(refused)
    assert await sent(connection) == [("Authorization", "Bearer token-1")]


def test_a_plugin_that_fails_is_quoted_with_its_hint(tmp_path: Path, plugin: Plugin) -> None:
    write(tmp_path / "fault", "not logged in")
    with pytest.raises(NoCluster) as caught:
        load(tmp_path, config(plugin.user))
    message = str(caught.value)
    assert "the exec plugin './plugin.py' of user 'u' returned no credentials" in message
    assert "not logged in" in message
    assert message.endswith("; Get the plugin from your platform team.")


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"token": ""}, "neither token nor clientCertificateData"),
        ({"token": "", "clientCertificateData": "x"}, "clientCertificateData without clientKeyData"),
    ],
)
def test_a_plugin_with_invalid_output_is_named(tmp_path: Path, plugin: Plugin, answer: Json, complaint: str) -> None:
    plugin.answer(**answer)
    with pytest.raises(NoCluster, match=complaint):
        load(tmp_path, config(plugin.user))


def test_a_plugin_that_is_not_installed_is_named_wherever_path_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "no-such-plugin").write_text("not executable")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}}
    complaint = r"the exec plugin 'no-such-plugin' of user 'u' returned no credentials: no such program is on PATH"
    with pytest.raises(NoCluster, match=complaint):
        load(tmp_path, config(user))


async def test_a_token_file_is_reread_periodically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volcanopy.kube.client.kubeconfig.FILE_PERIOD", 0.0)
    monkeypatch.setattr(connection_module, "MIN_PERIOD", 0.0)
    write(tmp_path / "token", "one")
    connection = load(tmp_path, config({"tokenFile": "token"}))
    assert await sent(connection) == [("Authorization", "Bearer one")]
    write(tmp_path / "token", "two")
    assert await sent(connection) == [("Authorization", "Bearer two")]


async def test_rereading_rejected_credentials_is_rate_limited() -> None:
    now, reads = 100.0, 0

    def read() -> Grant:
        nonlocal reads
        reads += 1
        return Grant(headers_of({"Authorization": f"Bearer {reads}"}))

    credentials = RenewedCredentials(read, read(), clock=lambda: now)
    stale = await credentials.headers()
    assert await asyncio.gather(*(credentials.refresh(stale) for _ in range(10))) == [True] * 10
    assert reads == 2
    assert not await credentials.refresh(await credentials.headers())
    now += MIN_PERIOD
    assert await credentials.refresh(await credentials.headers())
    assert reads == 3


async def test_a_pod_finds_its_own_cluster(tmp_path: Path) -> None:
    authority = Authority()
    write(tmp_path / "ca.crt", authority.pem.decode())
    write(tmp_path / "token", "secret\n")
    write(tmp_path / "namespace", "volcanopy-system")
    connection = in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"})
    assert (connection.url, connection.namespace) == ("https://[fd00::1]:443", "volcanopy-system")
    assert await sent(connection) == [("Authorization", "Bearer secret")]
    write(tmp_path / "token", "rotated")
    assert await connection.credentials.refresh(await connection.credentials.headers())
    assert await sent(connection) == [("Authorization", "Bearer rotated")]


def test_a_pod_without_a_token_gets_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match=f"service account in {tmp_path}: there is no file token"):
        in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "x", "KUBERNETES_SERVICE_PORT": "1"})


def test_an_unusable_certificate_of_a_service_account_is_not_called_one_of_a_kubeconfig(tmp_path: Path) -> None:
    write(tmp_path / "ca.crt", "no certificate")
    write(tmp_path / "token", "secret")
    with pytest.raises(NoCluster, match=f"^service account in {tmp_path}: unusable certificate: "):
        in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "x", "KUBERNETES_SERVICE_PORT": "1"})


async def test_an_auth_provider_gives_the_token(tmp_path: Path) -> None:
    provider = {"name": "gcp", "config": {"access-token": "abc"}}
    assert await sent(load(tmp_path, config({"auth-provider": provider}))) == [("Authorization", "Bearer abc")]


def test_an_auth_provider_without_a_token_gets_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match=str(tmp_path / "config")):
        load(tmp_path, config({"auth-provider": {"name": "gcp", "config": {"cmd-path": ""}}}))


async def test_the_official_client_sends_renewed_tokens_and_all_headers_of_impersonation(tmp_path: Path) -> None:
    async with faulty_server() as server:
        server.put("pods", "ns", "p")
        write(tmp_path / "token", "first")
        user = {"tokenFile": "token", "as": "jane", "as-groups": ["a", "b"]}
        path = write(tmp_path / "config", config(user, server=server.url))
        received: list[CIMultiDict[str]] = []

        async def note(request: web.Request) -> None:
            received.append(CIMultiDict(request.headers))

        server.on_request = note
        api = official.CoreV1Api(volcanopy.api_client(path))
        pod = await asyncio.to_thread(api.read_namespaced_pod, "p", "ns")
        assert pod.metadata is not None
        assert pod.metadata.name == "p"
        write(tmp_path / "token", "second")
        renewed = api.api_client.rest_client.credentials
        renewed._renew_at = 0.0
        await asyncio.to_thread(api.read_namespaced_pod, "p", "ns")
    first, second = received
    assert first.getall("Impersonate-Group") == ["a", "b"]
    assert (first["Authorization"], second["Authorization"]) == ("Bearer first", "Bearer second")


def test_only_auth_providers_need_the_official_client(tmp_path: Path) -> None:
    write(tmp_path / "config", config({"token": "t"}))
    program = (
        "import sys, volcanopy.kube.cache.watch, volcanopy.kube.writes.event_writer\n"
        "from pathlib import Path\n"
        "from volcanopy.kube.client.kubeconfig import load_connection\n"
        f"load_connection(Path({str(tmp_path / 'config')!r}))\n"
        "print('kubernetes' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_listing_jobs_imports_nothing_that_it_does_not_need() -> None:
    """These take most of the time that a command takes."""
    program = (
        "import contextlib, sys\n"
        "sys.argv = ['volcanopy', 'job', 'list', '--kubeconfig', '/nonexistent']\n"
        "from volcanopy.__main__ import main\n"
        "with contextlib.suppress(SystemExit):\n"
        "    main()\n"
        "heavy = ['aiohttp', 'cryptography', 'kubernetes', 'kubernetes_validate', 'numpy', 'prometheus_client', 'pydantic',"
        " 'rich', 'structlog', 'uvloop']\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert "there is no such file" in done.stderr


def test_the_scripted_server_is_reached_without_any_configuration() -> None:
    async def reach() -> None:
        async with faulty_server() as server:
            server.put("pods", "ns", "p")
            async with Client(Connection(server.url)) as client:
                assert isinstance(server, FaultyServer)
                assert (await client.list(PODS)).items[0].metadata.name == "p"

    asyncio.run(reach())
