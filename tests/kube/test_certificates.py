"""Certificates: whom we trust, and who we are by them."""

from pathlib import Path

import pytest

from tests.kube.kubeconfigs import Authority, Json, Plugin, TlsServer, config, encoded, load, write
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import NoAnswer, NoCluster

pytestmark = pytest.mark.usefixtures("nowhere")


async def who(connection: Connection) -> str:
    async with Client(connection) as client:
        return (await client.get_raw("/who", deadline=5)).decode()


async def test_client_certificates_in_all_forms_identify_the_client(tmp_path: Path) -> None:
    authority = Authority()
    certificate, key = authority.issue("jane")
    write(tmp_path / "keys/jane.crt", certificate.decode())
    write(tmp_path / "keys/jane.key", key.decode())
    write(tmp_path / "ca.crt", authority.pem.decode())
    in_files = {"client-certificate": "keys/jane.crt", "client-key": "keys/jane.key"}
    inline = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    trust_file: Json = {"certificate-authority": "ca.crt", "tls-server-name": "server.test"}
    trust_data: Json = {"certificate-authority-data": encoded(authority.pem), "tls-server-name": "server.test"}
    blind: Json = {"insecure-skip-tls-verify": True}
    async with TlsServer(authority, tmp_path) as server:
        assert await who(load(tmp_path, config(in_files, server=server.url, cluster=trust_file))) == "jane"
        assert await who(load(tmp_path, config(inline, server=server.url, cluster=trust_data))) == "jane"
        assert await who(load(tmp_path, config(inline, server=server.url, cluster=blind))) == "jane"
        assert await who(load(tmp_path, config(server=server.url, cluster=trust_data))) == "nobody"


async def test_an_exec_plugin_may_provide_a_certificate(tmp_path: Path, plugin: Plugin) -> None:
    authority = Authority()
    certificate, key = authority.issue("plugged")
    plugin.answer(token="", clientCertificateData=certificate.decode(), clientKeyData=key.decode())
    trust = {"certificate-authority-data": encoded(authority.pem), "tls-server-name": "server.test"}
    async with TlsServer(authority, tmp_path) as server:
        connection = load(tmp_path, config(plugin.user, server=server.url, cluster=trust))
        assert await who(connection) == "plugged"
        certificate, key = authority.issue("renewed")
        plugin.answer(token="", clientCertificateData=certificate.decode(), clientKeyData=key.decode())
        assert await connection.credentials.refresh(await connection.credentials.headers())
        assert await who(connection) == "renewed"


async def test_an_untrusted_server_certificate_is_rejected_immediately(tmp_path: Path) -> None:
    authority = Authority()
    trust = {"certificate-authority-data": encoded(Authority().pem), "tls-server-name": "server.test"}
    async with TlsServer(authority, tmp_path) as server:
        with pytest.raises(NoAnswer, match="certificate verify failed") as caught:
            await who(load(tmp_path, config(server=server.url, cluster=trust)))
    assert caught.value.permanent


def test_an_unusable_certificate_is_reported(tmp_path: Path) -> None:
    user = {"client-certificate-data": encoded(b"nonsense"), "client-key-data": encoded(b"nonsense")}
    with pytest.raises(NoCluster, match="unusable certificate"):
        load(tmp_path, config(user, server="https://x"))
    with pytest.raises(NoCluster, match=r"client-certificate .*gone\.crt"):
        load(tmp_path, config({"client-certificate": "gone.crt"}, server="https://x"))
