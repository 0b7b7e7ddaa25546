"""Admission webhooks, over real HTTPS."""

import base64
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from embedded_apiserver.context import User
from embedded_apiserver.server import ApiServer, Tls
from http_client import MAPS, PODS, Client, map_of, pod
from server_certificate import self_signed

HOOKS = "/apis/admissionregistration.k8s.io/v1"
Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Hook:
    """A webhook server with scripted responses that keeps the reviews that it receives."""

    def __init__(self) -> None:
        self.tls: Tls = self_signed(["hook.tools.svc"])
        self.asked: list[dict[str, Any]] = []
        self.answer: Answer = lambda _: {"allowed": True}
        self.port = 0
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._handle))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls.context).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        review = await request.json()
        self.asked.append(review["request"])
        response = {"uid": review["request"]["uid"], **self.answer(review["request"])}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    def configuration(
        self, *, mutating: bool = False, resources: tuple[str, ...] = ("configmaps",), **more: Any
    ) -> Any:
        """A configuration object that sends creates of `resources` here."""
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": list(resources)}
        hook = {
            "name": "hook.example.com",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [rule],
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}/x", "caBundle": self.tls.ca_base64},
        }
        return {"metadata": {"name": "mutating" if mutating else "validating"}, "webhooks": [{**hook, **more}]}


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    started = Hook()
    await started.start()
    yield started
    await started.stop()


def _patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


async def test_a_mutating_webhook_changes_what_is_stored(client: Client, hook: Hook) -> None:
    hook.answer = lambda _: _patch({"op": "add", "path": "/data/added", "value": "yes"})
    await client.create(f"{HOOKS}/mutatingwebhookconfigurations", hook.configuration(mutating=True))
    made = await client.create(MAPS, map_of("m"))
    assert made["data"] == {"k": "v", "added": "yes"}
    assert hook.asked[0]["operation"] == "CREATE"
    assert hook.asked[0]["userInfo"]["username"] == "kubernetes-admin"
    assert hook.asked[0]["object"]["metadata"]["name"] == "m"
    assert hook.asked[0]["object"]["metadata"]["namespace"] == "default"


async def test_a_mutated_pod_is_completed_again(client: Client, hook: Hook) -> None:
    extra = {"name": "sidecar", "image": "proxy"}
    hook.answer = lambda _: _patch({"op": "add", "path": "/spec/containers/-", "value": extra})
    await client.create(
        f"{HOOKS}/mutatingwebhookconfigurations", hook.configuration(mutating=True, resources=("pods",))
    )
    made = await client.create(PODS, pod("p"))
    assert made["spec"]["containers"][1]["imagePullPolicy"] == "Always"


async def test_a_validating_webhook_rejects_and_warns(client: Client, hook: Hook) -> None:
    hook.answer = lambda _: {"allowed": False, "status": {"message": "not today", "code": 403, "reason": "Forbidden"}}
    await client.create(f"{HOOKS}/validatingwebhookconfigurations", hook.configuration())
    code, body = await client.ask("POST", MAPS, map_of("m"))
    assert (code, body["reason"]) == (403, "Forbidden")
    assert body["message"] == 'admission webhook "hook.example.com" denied the request: not today'
    hook.answer = lambda _: {"allowed": True, "warnings": ["think twice"]}
    await client.create(MAPS, map_of("m"))
    assert client.warnings == ['299 - "think twice"']


async def test_an_unavailable_webhook_fails_or_is_ignored_by_its_failure_policy(client: Client, hook: Hook) -> None:
    path = f"{HOOKS}/validatingwebhookconfigurations"
    await client.create(path, hook.configuration())
    await hook.stop()
    code, body = await client.ask("POST", MAPS, map_of("m"))
    assert (code, body["reason"]) == (500, "InternalError")
    assert body["message"].startswith(
        'Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook: Post "https://'
    )
    assert re.search(r": dial tcp [\w.]+:\d+: connect: connection refused$", body["message"])
    await client.delete(f"{path}/validating")
    await client.create(path, hook.configuration(failurePolicy="Ignore"))
    await client.create(MAPS, map_of("m"))


async def test_a_webhook_with_an_untrusted_certificate_fails(client: Client, hook: Hook) -> None:
    configuration = hook.configuration()
    configuration["webhooks"][0]["clientConfig"]["caBundle"] = self_signed().ca_base64
    await client.create(f"{HOOKS}/validatingwebhookconfigurations", configuration)
    code, body = await client.ask("POST", MAPS, map_of("m"))
    assert code == 500
    assert "certificate verify failed" in body["message"]
    assert hook.asked == []


def certificate(key: rsa.RSAPrivateKey, signer: rsa.RSAPrivateKey, *, authority: bool) -> x509.Certificate:
    """A certificate of a server, or of its authority of the same name, without identifiers of keys."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook.tools.svc")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    return builder.add_extension(names, critical=False).sign(signer, hashes.SHA256())


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("signed", [True, False], ids=["its authority", "another one"])
async def test_a_server_with_the_name_of_its_authority_is_trusted_if_that_has_signed_it(
    client: Client, hook: Hook, tmp_path: Path, signed: bool
) -> None:
    """The Spark operator makes such certificates; the clients of Go look at the signature, not at the name."""
    keys = [rsa.generate_private_key(65537, 2048) for _ in range(3)]
    private = keys[0].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "tls").write_bytes(private + pem(certificate(keys[0], keys[1], authority=False)))
    await hook.stop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls")
    authority = keys[1] if signed else keys[2]
    hook.tls = Tls(context, pem(certificate(authority, authority, authority=True)).decode())
    await hook.start()
    await client.create(f"{HOOKS}/validatingwebhookconfigurations", hook.configuration())
    code, _ = await client.ask("POST", MAPS, map_of("m"))
    assert (code, len(hook.asked)) == ((201, 1) if signed else (500, 0))


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({"objectSelector": {"matchLabels": {"x": "1"}}}, ["labelled"]),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]}},
            ["labelled", "plain"],
        ),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}}, []),
        ({"matchConditions": [{"name": "n", "expression": "object.metadata.name.startsWith('l')"}]}, ["labelled"]),
        ({"matchConditions": [{"name": "n", "expression": "request.dryRun"}]}, []),
    ],
)
async def test_selectors_and_conditions_choose_the_requests(
    client: Client, hook: Hook, more: dict[str, Any], asked: list[str]
) -> None:
    await client.create(f"{HOOKS}/validatingwebhookconfigurations", hook.configuration(**more))
    await client.create(MAPS, map_of("labelled", {"x": "1"}))
    await client.create(MAPS, map_of("plain"))
    assert [request["name"] for request in hook.asked] == asked


async def test_operations_and_subresources_are_matched(client: Client, hook: Hook) -> None:
    configuration = hook.configuration(resources=("pods/binding", "pods/status", "configmaps"))
    configuration["webhooks"][0]["rules"][0]["operations"] = ["*"]
    await client.create(f"{HOOKS}/validatingwebhookconfigurations", configuration)
    await client.create(PODS, pod("p"))
    await client.ask("POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n1"}})
    await client.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    await client.create(MAPS, map_of("m"))
    await client.patch(f"{MAPS}/m", {"data": {"k": "w"}})
    await client.delete(f"{MAPS}/m")
    reported = [(r["operation"], r["kind"]["kind"], r.get("subResource", "")) for r in hook.asked]
    assert reported == [
        ("CREATE", "Binding", "binding"),
        ("UPDATE", "Pod", "status"),
        ("CREATE", "ConfigMap", ""),
        ("UPDATE", "ConfigMap", ""),
        ("DELETE", "ConfigMap", ""),
    ]
    assert hook.asked[3]["oldObject"]["data"] == {"k": "v"}
    assert hook.asked[4]["object"] is None


async def test_a_dry_run_needs_a_webhook_without_side_effects(client: Client, hook: Hook) -> None:
    path = f"{HOOKS}/validatingwebhookconfigurations"
    await client.create(path, hook.configuration(sideEffects="Some"))
    code, body = await client.ask("POST", f"{MAPS}?dryRun=All", map_of("m"))
    assert (code, body["message"]) == (400, 'admission webhook "hook.example.com" does not support dry run')
    await client.delete(f"{path}/validating")
    await client.create(path, hook.configuration())
    code, _ = await client.ask("POST", f"{MAPS}?dryRun=All", map_of("m"))
    assert code == 201
    assert hook.asked[-1]["dryRun"] is True


async def test_a_service_is_resolved_to_its_configured_address(hook: Hook) -> None:
    server = await ApiServer.start(service_addresses={"tools/hook": f"127.0.0.1:{hook.port}"})
    client = Client(server.url)
    try:
        configuration = hook.configuration()
        service = {"namespace": "tools", "name": "hook", "path": "/y"}
        configuration["webhooks"][0]["clientConfig"] = {"service": service, "caBundle": hook.tls.ca_base64}
        await client.create(f"{HOOKS}/validatingwebhookconfigurations", configuration)
        await client.create(MAPS, map_of("m"))
        assert len(hook.asked) == 1
    finally:
        await client.close()
        await server.stop()


async def test_webhooks_get_the_user_info(hook: Hook) -> None:
    tls = self_signed()
    users = {"secret-token": User("ann", ("staff",))}
    server = await ApiServer.start(tls=tls, users=users)
    trust = ssl.create_default_context(cadata=server.ca_pem)
    admin = Client(server.url, {"Authorization": f"Bearer {server.token}"}, tls=trust)
    ann = Client(server.url, {"Authorization": "Bearer secret-token"}, tls=trust)
    nobody = Client(server.url, tls=trust)
    try:
        await admin.create(f"{HOOKS}/validatingwebhookconfigurations", hook.configuration())
        await ann.create(MAPS, map_of("a"))
        await admin.ask("POST", MAPS, map_of("b"), Impersonate_User="bob", Impersonate_Group="ops")
        assert hook.asked[0]["userInfo"] == {"username": "ann", "groups": ["staff"]}
        assert hook.asked[1]["userInfo"] == {"username": "bob", "groups": ["ops", "system:authenticated"]}
        code, body = await nobody.ask("GET", MAPS)
        assert (code, body["reason"]) == (401, "Unauthorized")
    finally:
        for item in (admin, ann, nobody):
            await item.close()
        await server.stop()
