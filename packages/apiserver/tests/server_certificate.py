"""A certificate for servers on this machine."""

import ssl
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from embedded_apiserver.server import Tls

_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])


def self_signed(names: Sequence[str] = ("localhost",)) -> Tls:
    """Return a new certificate for these names and 127.0.0.1, which clients must trust."""
    hosts = [*map(x509.DNSName, names), x509.IPAddress(ip_address("127.0.0.1"))]
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(_NAME, _NAME, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "server.pem")
        file.write_bytes(certificate + private)
        context.load_cert_chain(file)
    return Tls(context, certificate.decode())
