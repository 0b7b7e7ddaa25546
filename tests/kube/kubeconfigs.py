"""Kubeconfigs in their forms, an exec plugin that counts, and a certificate authority with a server of its own."""

import base64
import datetime as dt
import json
import ssl
import stat
import sys
from pathlib import Path
from typing import Any, Self

import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kubeconfig import load_connection

Json = dict[str, Any]


def config(
    user: Json | None = None, *, server: str = "http://127.0.0.1:1", cluster: Json | None = None, **chosen: Any
) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [
            {"name": "main", "context": {"cluster": "c", **({"user": "u"} if user is not None else {}), **chosen}}
        ],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}] if user is not None else [],
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def load(tmp_path: Path, content: Any, context: str | None = None) -> Connection:
    return load_connection(write(tmp_path / "config", content), context)


PLUGIN = """#!{python}
import json, os, pathlib
here = pathlib.Path({folder!r})
count = int((here / "count").read_text()) + 1 if (here / "count").exists() else 1
(here / "count").write_text(str(count))
(here / "info").write_text(os.environ["KUBERNETES_EXEC_INFO"])
fault = (here / "fault")
if fault.exists():
    raise SystemExit(fault.read_text())
status = json.loads((here / "status").read_text())
status["token"] = status["token"].format(count)
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


class Plugin:
    """An exec plugin that counts its calls and gives out a new token at each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = write(folder / "plugin.py", PLUGIN.format(python=sys.executable, folder=str(folder)))
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)
        self.answer()

    def answer(self, **more: Any) -> None:
        write(self.folder / "status", json.dumps({"token": "token-{}", **more}))

    @property
    def calls(self) -> int:
        return int((self.folder / "count").read_text())

    @property
    def user(self) -> Json:
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "./plugin.py",
                "args": None,
                "env": None,
                "interactiveMode": "Never",
                "provideClusterInfo": True,
                "installHint": "Get the plugin\nfrom your platform team.",
            }
        }


class Authority:
    """A certificate authority as clusters make them: without the key usage extension."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-ca")])
        builder = self._builder(self.name, self.key.public_key())
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        self.certificate = builder.add_extension(constraint, critical=True).sign(self.key, hashes.SHA256())
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM)

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
        )

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """A certificate for this name and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        signed = (
            self._builder(subject, key.public_key())
            .add_extension(names, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return signed.public_bytes(serialization.Encoding.PEM), private


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


class TlsServer:
    """An HTTPS server named ``server.test`` that answers with the name in the client's certificate."""

    def __init__(self, authority: Authority, folder: Path) -> None:
        certificate, key = authority.issue("server.test")
        write(folder / "server.pem", (certificate + key).decode())
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem.decode())
        self.context.load_cert_chain(folder / "server.pem")
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/who", self._who)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.context).start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _who(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        return web.Response(text=peer["subject"][0][0][1] if peer else "nobody")
