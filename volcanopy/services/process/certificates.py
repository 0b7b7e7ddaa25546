"""The certificate authority of volcanopy: CA certificates, and server certificates signed by them."""

import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=365)
AUTHORITY_LIFETIME = timedelta(days=3650)
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class ServerCertificate:
    """A server certificate with its key and the CA certificate that clients must trust, all in PEM."""

    certificate: bytes
    key: bytes
    authority: bytes
    ends: datetime

    def context(self) -> ssl.SSLContext:
        """Return a TLS context for a server, of TLS 1.2 or later whatever the default of the system is."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0  # clients of Kubernetes resume no session: tickets are a seventh of a handshake
        self.put_into(context)
        return context

    def put_into(self, context: ssl.SSLContext) -> None:
        """Load this certificate into a context; it is used from the next connection on."""
        with tempfile.TemporaryDirectory() as folder:  # the ssl module reads keys from files only
            chain, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            chain.write_bytes(self.certificate)
            key.touch(0o600)
            key.write_bytes(self.key)
            context.load_cert_chain(chain, key)


@dataclass(frozen=True)
class Authority:
    """A CA: its certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    @property
    def begins(self) -> datetime:
        """Start of its validity."""
        return x509.load_pem_x509_certificate(self.certificate).not_valid_before_utc

    @property
    def ends(self) -> datetime:
        """End of its validity."""
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc


def make_authority(
    now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME, name: str = "volcanopy admission authority"
) -> Authority:
    """Return a new CA with this common name."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), _name(name)
    made = (
        _builder(subject, subject, key.public_key(), now - timedelta(hours=1), now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(made.public_bytes(_PEM), _private(key))


def issue(
    authority: Authority, hosts: Sequence[str], now: datetime, lifetime: timedelta = LIFETIME
) -> ServerCertificate:
    """Return a certificate for these host names and addresses, valid no longer than the CA."""
    signer = serialization.load_pem_private_key(authority.key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the CA is not an elliptic curve key")
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(now + lifetime, issuer.not_valid_after_utc)
    certificate = (
        _builder(_name(hosts[0]), issuer.subject, key.public_key(), now - timedelta(hours=1), ends)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .sign(signer, hashes.SHA256())
    )
    return ServerCertificate(certificate.public_bytes(_PEM), _private(key), authority.certificate, ends)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, starts: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts)
        .not_valid_after(ends)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
