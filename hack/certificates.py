"""Keys, certificates and kubeconfigs of a temporary cluster of tests: its own CA, and what it signs."""

import base64
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = timedelta(days=30)
ADDRESSES = ("127.0.0.1", "10.96.0.1")
"""Addresses of an API server: the loopback address, and that of the Service `kubernetes`."""


def new_key() -> ec.EllipticCurvePrivateKey:
    """Make a private key; elliptic, because an RSA key takes as long to find as etcd takes to start."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the private key as unencrypted PKCS #8 PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the public half of a key as PEM."""
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, public)


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority that signs for servers and for any number of clients."""

    def __init__(self) -> None:
        self._key = new_key()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "volcanopy-test-ca")])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        subject_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = builder.add_extension(subject_id, critical=False)
        self.certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    @property
    def pair(self) -> Pair:
        """The certificate of the authority, with its key."""
        return Pair(self.certificate, key_pem(self._key))

    def server(self, *services: str, addresses: Sequence[str] = ADDRESSES) -> Pair:
        """Return a certificate for localhost, the Service `kubernetes`, other services by their DNS names, and addresses."""
        names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", *services]
        hosts = [x509.DNSName(name) for name in names]
        alternatives = [*hosts, *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses)]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        return self._sign(subject, ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, groups: Sequence[str]) -> Pair:
        """Return a certificate that Kubernetes reads as `user`, a member of `groups`."""
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user), *organizations])
        return self._sign(subject, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def _sign(self, subject: x509.Name, use: x509.ObjectIdentifier, names: Sequence[x509.GeneralName]) -> Pair:
        key = new_key()
        builder = self._builder(subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        # Python 3.13 and later reject a chain without key identifiers.
        issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer_id, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), key_pem(key))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + VALID_FOR)
        )


def kubeconfig(url: str, ca: bytes, user: str, credentials: Pair | str) -> str:
    """Return a kubeconfig, complete in itself, for `user` with a certificate and key, or with a bearer token."""
    entry: dict[str, Any]
    if isinstance(credentials, str):
        entry = {"token": credentials}
    else:
        certificate, key = _base64(credentials.certificate), _base64(credentials.key)
        entry = {"client-certificate-data": certificate, "client-key-data": key}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "real", "cluster": {"server": url, "certificate-authority-data": _base64(ca)}}],
        "users": [{"name": user, "user": entry}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": user}}],
        "current-context": "real",
    }
    return yaml.safe_dump(document, sort_keys=False)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
