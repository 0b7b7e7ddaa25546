"""Renewal and sharing of the webhook's certificates.

The material is a dict of PEM texts, as in a Secret. :func:`renewed` returns what it should be now. An authority is replaced in
two steps: first the next one is trusted everywhere, then it signs; so a server never shows a certificate that the API server
does not trust.
"""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, Conflict, Forbidden, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import SECRETS
from volcanopy.services.process.certificates import Authority, ServerCertificate, issue, make_authority

log = structlog.get_logger(__name__)

SECRET = "volcanopy-admission-certificates"
CERTIFICATE, KEY, TRUSTED, AUTHORITY_KEY, NEXT, NEXT_KEY = (
    "tls.crt",
    "tls.key",
    "ca.crt",
    "ca.key",
    "next-ca.crt",
    "next-ca.key",
)
Material = Mapping[str, str]
"""PEM texts by key of the Secret: ``ca.crt`` contains all trusted authorities, the signing one first."""


@dataclass(frozen=True)
class RotationTimes:
    """Lifetimes of certificates, and when they are renewed."""

    lifetime: timedelta = timedelta(days=365)
    authority_lifetime: timedelta = timedelta(days=3650)
    renew_share: float = 1 / 3
    """The remaining share of its lifetime at which a certificate is renewed."""


def renewed(
    material: Material, hosts: Sequence[str], now: datetime, published: bytes = b"", terms: RotationTimes | None = None
) -> Material:
    """Return the material as it should be now, the same if nothing is due; ``published`` is the caBundle in use."""
    terms = terms or RotationTimes()
    try:
        return _renewed(material, hosts, now, published, terms)
    except (ValueError, KeyError, IndexError, TypeError, UnsupportedAlgorithm) as error:
        if material:
            log.warning("stored certificates invalid, creating new ones", error=str(error))
        return _begun(hosts, now, published, terms)


def _begun(hosts: Sequence[str], now: datetime, published: bytes, terms: RotationTimes) -> Material:
    """Return the material of a new authority; those in use stay trusted, as other servers may still show their certificates."""
    authority = make_authority(now, terms.authority_lifetime)
    trusted = [authority.certificate.decode(), *(_text(known) for known in _valid(published, now))]
    return _signed({TRUSTED: "".join(trusted)}, authority, hosts, now, terms)


def _valid(bundle: bytes, now: datetime) -> list[x509.Certificate]:
    """Return the certificates of a bundle that have not expired; none if it is unreadable."""
    with contextlib.suppress(ValueError):
        return [known for known in x509.load_pem_x509_certificates(bundle) if known.not_valid_after_utc > now]
    return []


def _signed(
    rest: Material, authority: Authority, hosts: Sequence[str], now: datetime, terms: RotationTimes
) -> Material:
    made = issue(authority, hosts, now, terms.lifetime)
    return {
        **rest,
        AUTHORITY_KEY: authority.key.decode(),
        CERTIFICATE: made.certificate.decode(),
        KEY: made.key.decode(),
    }


def _renewed(
    material: Material, hosts: Sequence[str], now: datetime, published: bytes, terms: RotationTimes
) -> Material:
    trusted = x509.load_pem_x509_certificates(material[TRUSTED].encode())
    texts = [_text(certificate) for certificate in trusted]
    authority = Authority(texts[0].encode(), material[AUTHORITY_KEY].encode())
    leaf = x509.load_pem_x509_certificate(material[CERTIFICATE].encode())
    if authority.ends <= now:
        return _begun(hosts, now, published, terms)
    if NEXT in material:
        if material[NEXT].strip().encode() not in published:
            return material
        following = Authority(material[NEXT].encode(), material[NEXT_KEY].encode())
        kept = map(_text, _valid(material[TRUSTED].encode(), now))
        others = [text for text in kept if text.strip() != material[NEXT].strip()]
        return _signed({TRUSTED: "".join([material[NEXT], *others])}, following, hosts, now, terms)
    if _is_due(authority.begins, authority.ends, now, terms):
        following = make_authority(now, terms.authority_lifetime)
        pem = following.certificate.decode()
        return {**material, TRUSTED: "".join([*texts, pem]), NEXT: pem, NEXT_KEY: following.key.decode()}
    stale = _is_due(leaf.not_valid_before_utc, leaf.not_valid_after_utc, now, terms)
    if stale or not set(hosts) <= _hosts(leaf) or leaf.issuer != trusted[0].subject:
        return _signed({TRUSTED: material[TRUSTED]}, authority, hosts, now, terms)
    return material


def _is_due(begins: datetime, ends: datetime, now: datetime, terms: RotationTimes) -> bool:
    return ends - now <= (ends - begins) * terms.renew_share


def _text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _hosts(certificate: x509.Certificate) -> set[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


class Keyring:
    """The certificate of the server, renewed at run time. ``trusted`` is the caBundle for the API server."""

    def __init__(self, hosts: Sequence[str], now: Callable[[], datetime], terms: RotationTimes | None = None) -> None:
        self._hosts, self._now, self._terms = list(hosts), now, terms
        self.material: Material = {}
        self.context: ssl.SSLContext | None = None
        """The TLS context of the server, always the same object."""

    @property
    def trusted(self) -> bytes:
        """In PEM."""
        return self.material[TRUSTED].encode()

    def shared_key(self) -> str:
        """Return a private key in PEM that all servers have: that of the authority."""
        return self.material[AUTHORITY_KEY]

    async def renew(self, published: bytes = b"") -> None:
        """Renew the certificate if due; the next connections use it."""
        await self._take(
            await asyncio.to_thread(renewed, self.material, self._hosts, self._now(), published, self._terms)
        )

    async def _take(self, material: Material) -> None:
        served = [self.material.get(key) for key in (CERTIFICATE, KEY)]
        self.material = material
        if self.context is not None and served == [material[CERTIFICATE], material[KEY]]:
            return
        pair = ServerCertificate(material[CERTIFICATE].encode(), material[KEY].encode(), b"", self._now())
        if self.context is None:
            self.context = await asyncio.to_thread(pair.context)
        else:
            await asyncio.to_thread(pair.put_into, self.context)
            log.info("certificate renewed")


class SharedKeyring(Keyring):
    """A certificate in a Secret that all servers share; the first that finds a renewal due writes it."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        hosts: Sequence[str],
        now: Callable[[], datetime],
        terms: RotationTimes | None = None,
    ) -> None:
        super().__init__(hosts, now, terms)
        self._client, self._namespace = client, namespace

    async def renew(self, published: bytes = b"") -> None:
        """Update the Secret if due, and use its content; one that was emptied or deleted gets what this server has.

        A server that may not create the Secret keeps what it has. Raises Forbidden if it has nothing yet.
        """
        while True:
            secret: Json | None = None
            with contextlib.suppress(NotFound):
                secret = await self._client.get(SECRETS, self._namespace, SECRET)
            stored = decoded(secret)
            target = await asyncio.to_thread(
                renewed, stored or self.material, self._hosts, self._now(), published, self._terms
            )
            try:
                if secret is None:
                    await self._client.create(SECRETS, self._namespace, _secret(self._namespace, target))
                elif target != stored:
                    await self._client.update(SECRETS, self._namespace, SECRET, {**secret, "data": _encoded(target)})
            except (Conflict, AlreadyExists, NotFound):
                continue
            except Forbidden:
                if secret is None:
                    log.error(
                        "Secret of the certificates does not exist: run helm upgrade, which creates it", name=SECRET
                    )
                if secret is not None or not self.material:
                    raise
            await self._take(target)
            return


def decoded(secret: Json | None) -> Material:
    """Return the texts of a Secret; other data is left out."""
    texts: dict[str, str] = {}
    for key, value in ((secret or {}).get("data") or {}).items():
        try:
            texts[key] = base64.b64decode(value, validate=True).decode()
        except (ValueError, TypeError):
            continue
    return texts


def _encoded(material: Material) -> dict[str, str]:
    return {key: base64.b64encode(text.encode()).decode() for key, text in material.items()}


def _secret(namespace: str, material: Material) -> Json:
    metadata = {"name": SECRET, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": metadata,
        "data": _encoded(material),
    }
