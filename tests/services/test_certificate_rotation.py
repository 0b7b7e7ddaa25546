"""Certificates are renewed before they expire, and served certificates are always trusted."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from unittest.mock import AsyncMock

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from structlog.testing import capture_logs

from tests.services.service_cluster import Cluster
from volcanopy.api.model import Json
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.raw_kinds import SECRETS
from volcanopy.services.admission.certificate_rotation import (
    CERTIFICATE,
    NEXT,
    SECRET,
    TRUSTED,
    Keyring,
    Material,
    RotationTimes,
    SharedKeyring,
    decoded,
    renewed,
)
from volcanopy.services.admission.webhook_configuration import Registration, published, register, unregister

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = ["localhost", "127.0.0.1"]
DAY = timedelta(days=1)


def leaf(material: Material) -> x509.Certificate:
    return x509.load_pem_x509_certificate(material[CERTIFICATE].encode())


def trusted(material: Material) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(material[TRUSTED].encode())


def is_trusted(material: Material, bundle: str) -> bool:
    """Whether the served certificate was signed by a CA in the bundle."""
    for certificate in x509.load_pem_x509_certificates(bundle.encode()):
        try:
            leaf(material).verify_directly_issued_by(certificate)
        except InvalidSignature:
            continue
        return True
    return False


def test_no_certificate_is_renewed_early() -> None:
    first = renewed({}, HOSTS, NOW)
    assert renewed(first, HOSTS, NOW + 200 * DAY) is first


def test_a_certificate_is_renewed_by_the_same_authority() -> None:
    first = renewed({}, HOSTS, NOW)
    second = renewed(first, HOSTS, NOW + 250 * DAY)
    assert second[TRUSTED] == first[TRUSTED]
    assert leaf(second).not_valid_after_utc > leaf(first).not_valid_after_utc
    assert is_trusted(second, first[TRUSTED])


def test_another_host_name_needs_another_certificate() -> None:
    first = renewed({}, HOSTS, NOW)
    second = renewed(first, ["hooks.system.svc", *HOSTS], NOW)
    assert (second[TRUSTED], second[CERTIFICATE] == first[CERTIFICATE]) == (first[TRUSTED], False)


def test_an_unreadable_secret_is_replaced() -> None:
    for broken in ({TRUSTED: "x"}, {**renewed({}, HOSTS, NOW), "ca.key": "nonsense", "tls.crt": "no"}):
        made = renewed(broken, HOSTS, NOW)
        assert is_trusted(made, made[TRUSTED])


def test_a_new_authority_leaves_the_published_ones_trusted() -> None:
    served = renewed({}, HOSTS, NOW)
    published = served[TRUSTED].encode()
    made = renewed({}, HOSTS, NOW, published)
    assert is_trusted(made, made[TRUSTED])
    assert is_trusted(served, made[TRUSTED])
    assert len(trusted(renewed({}, HOSTS, NOW + 4000 * DAY, published))) == 1, "the other has expired"
    assert len(trusted(renewed({}, HOSTS, NOW, b"-----ONE-----"))) == 1


def test_served_certificates_are_trusted_over_thirty_years() -> None:
    """Checked every ten days, with API servers that get the bundle one check later."""
    terms = RotationTimes(lifetime=90 * DAY, authority_lifetime=1000 * DAY)
    material: Material = {}
    message, authorities, now = "", set(), NOW
    for _ in range(1100):
        material = renewed(material, HOSTS, now, message.encode(), terms)
        assert not message or is_trusted(material, message)
        assert leaf(material).not_valid_after_utc > now + 10 * DAY
        assert len(trusted(material)) <= 3
        authorities.add(trusted(material)[0].serial_number)
        message, now = material[TRUSTED], now + 10 * DAY
    assert len(authorities) > 10


def test_nothing_is_signed_by_an_unpublished_authority() -> None:
    first = renewed({}, HOSTS, NOW)
    waiting = renewed(first, HOSTS, NOW + 3000 * DAY)
    assert NEXT in waiting
    assert renewed(waiting, HOSTS, NOW + 3001 * DAY, published=first[TRUSTED].encode()) is waiting


async def test_a_server_reloads_its_certificate_while_serving() -> None:
    today = datetime.now(UTC)
    now = today - 7 * DAY
    ring = Keyring(HOSTS, lambda: now, RotationTimes(lifetime=9 * DAY))
    await ring.renew()

    async def shown() -> bytes:
        client = ssl.create_default_context(cadata=ring.trusted.decode())
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
        result: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return result

    async def quiet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(quiet, "127.0.0.1", 0, ssl=ring.context)
    port = server.sockets[0].getsockname()[1]
    first = await shown()
    now = today
    await ring.renew()
    assert await shown() != first
    server.close()


@pytest.mark.parametrize(
    ("version", "expected"),
    [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_a_server_speaks_tls_1_2_and_later(version: ssl.TLSVersion, expected: bool) -> None:
    ring = Keyring(HOSTS, lambda: datetime.now(UTC))
    await ring.renew()

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    client = ssl.create_default_context(cadata=ring.trusted.decode())
    client.set_ciphers("ALL:@SECLEVEL=0")  # or OpenSSL does not even offer the old version
    client.minimum_version = client.maximum_version = version
    async with await asyncio.start_server(close, "127.0.0.1", 0, ssl=ring.context) as server:
        port = server.sockets[0].getsockname()[1]
        connection = asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
        if not expected:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await connection
            return
        _, writer = await connection
        writer.close()


async def test_servers_share_one_secret(cluster: Cluster) -> None:
    now = NOW
    rings = [SharedKeyring(cluster.client, cluster.namespace, HOSTS, lambda: now) for _ in range(4)]
    await asyncio.gather(*(ring.renew() for ring in rings))
    assert len({ring.material[CERTIFICATE] for ring in rings}) == 1
    now += 300 * DAY
    await asyncio.gather(*(ring.renew() for ring in rings))
    assert len({ring.material[CERTIFICATE] for ring in rings}) == 1
    secret: Json = await cluster.client.get(SECRETS, cluster.namespace, SECRET)
    kept = decoded(secret)
    assert kept == dict(rings[0].material)
    assert leaf(kept).not_valid_before_utc > NOW + 200 * DAY


async def test_a_lost_secret_gets_the_certificates_that_are_served(cluster: Cluster) -> None:
    async def shared() -> Material:
        secret: Json = await cluster.client.get(SECRETS, cluster.namespace, SECRET)
        return decoded(secret)

    rings = [SharedKeyring(cluster.client, cluster.namespace, HOSTS, lambda: NOW) for _ in range(2)]
    for ring in rings:
        await ring.renew()
    before = dict(rings[0].material)
    await cluster.client.delete(SECRETS, cluster.namespace, SECRET)
    await rings[0].renew()
    assert await shared() == before
    await cluster.client.delete(SECRETS, cluster.namespace, SECRET)
    empty = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}
    await cluster.client.create(SECRETS, cluster.namespace, empty)
    await rings[1].renew()
    assert await shared() == before
    assert [dict(ring.material) for ring in rings] == [before, before]


async def test_a_server_that_may_not_create_its_secret_keeps_its_certificate() -> None:
    client = AsyncMock(Client)
    ring = SharedKeyring(client, "ns", HOSTS, lambda: NOW)
    client.get.side_effect = NotFound(404)
    client.create.side_effect = Forbidden(403)
    with pytest.raises(Forbidden), capture_logs() as logs:
        await ring.renew()
    assert "run helm upgrade" in logs[0]["event"]
    client.create.side_effect = None
    await ring.renew()
    before = dict(ring.material)
    client.create.side_effect = Forbidden(403)
    await ring.renew()
    assert dict(ring.material) == before


async def test_webhook_configurations_get_the_ca_bundle(cluster: Cluster) -> None:
    try:
        for bundle in (b"-----ONE-----", b"-----TWO-----"):
            registration = Registration("https://127.0.0.1:1", authority=bundle, fail_closed=False)
            await register(cluster.client, registration)
            assert await published(cluster.client) == bundle
    finally:
        await unregister(cluster.client)
    assert await published(cluster.client) == b""
