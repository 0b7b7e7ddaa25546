"""The certificate authority of a cluster, the certificates of its users, and their kubeconfigs."""

import base64
import ipaddress
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hack.realnode.layout import API_PORT, API_SERVICE, CONTROL_PLANE_ADDRESS, Layout

LIFETIME = timedelta(days=30)
_PEM = serialization.Encoding.PEM
_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_SERVER_ADDRESSES = ("127.0.0.1", CONTROL_PLANE_ADDRESS, API_SERVICE)
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def users_of(nodes: int) -> dict[str, tuple[str, str]]:
    """Return the group and the name of each user of the cluster."""
    kubelets = {f"node-{number}": ("system:nodes", f"system:node:node-{number}") for number in range(1, nodes + 1)}
    return {
        "admin": ("system:masters", "admin"),
        "controller-manager": ("", "system:kube-controller-manager"),
        "scheduler": ("", "system:kube-scheduler"),
        "proxy": ("", "system:kube-proxy"),
        **kubelets,
    }


def write_credentials(layout: Layout, port: int) -> None:
    """Write all certificates and kubeconfigs; administrators use the port of the machine's loopback."""
    layout.pki.mkdir(parents=True)
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate({NameOID.COMMON_NAME: "realnode"}, key, None)
    _write(layout.pki, "ca", key, authority)
    issuer = (key, authority)
    _issue(layout.pki, "apiserver", {NameOID.COMMON_NAME: "kube-apiserver"}, issuer, server=True)
    _issue(layout.pki, "front-proxy", {NameOID.COMMON_NAME: "front-proxy"}, issuer)
    for user, (group, name) in users_of(layout.nodes).items():
        subject = {NameOID.ORGANIZATION_NAME: group} if group else {}
        _issue(layout.pki, user, subject | {NameOID.COMMON_NAME: name}, issuer)
        local = user in {"controller-manager", "scheduler"}
        inner = f"https://{'127.0.0.1' if local else CONTROL_PLANE_ADDRESS}:{API_PORT}"
        _write_kubeconfig(layout, user, f"https://127.0.0.1:{port}" if user == "admin" else inner)
    accounts = rsa.generate_private_key(65537, 2048)
    _write_key(layout.pki / "accounts.key", accounts)
    public = accounts.public_key().public_bytes(_PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (layout.pki / "accounts.pub").write_bytes(public)


def _issue(
    folder: Path,
    name: str,
    subject: Mapping[x509.ObjectIdentifier, str],
    issuer: tuple[ec.EllipticCurvePrivateKey, x509.Certificate],
    *,
    server: bool = False,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    _write(folder, name, key, _certificate(subject, key, issuer, server=server))


def _certificate(
    subject: Mapping[x509.ObjectIdentifier, str],
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None,
    *,
    server: bool = False,
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject.items()])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer[1].subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(usage, critical=False)
    if server:
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in _SERVER_ADDRESSES]
        names = [x509.DNSName(host) for host in _SERVER_NAMES]
        builder = builder.add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
    return builder.sign(issuer[0] if issuer else key, hashes.SHA256())


def _write(folder: Path, name: str, key: PrivateKey, certificate: x509.Certificate) -> None:
    _write_key(folder / f"{name}.key", key)
    (folder / f"{name}.crt").write_bytes(certificate.public_bytes(_PEM))


def _write_key(path: Path, key: PrivateKey) -> None:
    path.touch(0o600)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    path.write_bytes(key.private_bytes(_PEM, form, serialization.NoEncryption()))


def _write_kubeconfig(layout: Layout, user: str, server: str) -> None:
    def content(name: str) -> str:
        return base64.b64encode((layout.pki / name).read_bytes()).decode()

    cluster = {"server": server, "certificate-authority-data": content("ca.crt")}
    credentials = {"client-certificate-data": content(f"{user}.crt"), "client-key-data": content(f"{user}.key")}
    path = layout.kubeconfig(user)
    path.touch(0o600)
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "realnode",
                "contexts": [{"name": "realnode", "context": {"cluster": "realnode", "user": user}}],
                "clusters": [{"name": "realnode", "cluster": cluster}],
                "users": [{"name": user, "user": credentials}],
            }
        )
    )
