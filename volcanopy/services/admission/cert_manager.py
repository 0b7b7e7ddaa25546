"""Certificates of the admission webhook issued by cert-manager."""

from typing import Any

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import SECRETS
from volcanopy.services.admission.certificate_rotation import Material, decoded

GROUP, VERSION = "cert-manager.io", "v1"
ISSUERS: Kind[Json] = Kind(GROUP, VERSION, "Issuer", "issuers", True, dict)
CERTIFICATES: Kind[Json] = Kind(GROUP, VERSION, "Certificate", "certificates", True, dict)
INJECT = "cert-manager.io/inject-ca-from"
NAME = "volcanopy-admission"
SECRET = "volcanopy-admission-cert-manager"


async def is_there(client: Client) -> bool:
    """Whether cert-manager is installed."""
    try:
        await client.get_raw(f"/apis/{GROUP}/{VERSION}")
    except NotFound:
        return False
    return True


def manifests(namespace: str, hosts: list[str]) -> tuple[tuple[Kind[Json], Json], ...]:
    """Return an authority managed by cert-manager, and the server's certificate signed by it."""
    authority = f"{NAME}-ca"

    def made(kind: Kind[Json], name: str, spec: dict[str, Any]) -> tuple[Kind[Json], Json]:
        metadata = {"name": name, "namespace": namespace}
        return kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}

    key = {"algorithm": "ECDSA", "size": 256}
    names = [host for host in hosts if not host.replace(".", "").isdigit()]
    addresses = [host for host in hosts if host.replace(".", "").isdigit()]
    return (
        made(ISSUERS, f"{NAME}-selfsigned", {"selfSigned": {}}),
        made(
            CERTIFICATES,
            authority,
            {
                "isCA": True,
                "commonName": "volcanopy admission authority",
                "secretName": authority,
                "duration": "87600h",
                "privateKey": key,
                "issuerRef": {"name": f"{NAME}-selfsigned", "kind": "Issuer", "group": GROUP},
            },
        ),
        made(ISSUERS, NAME, {"ca": {"secretName": authority}}),
        made(
            CERTIFICATES,
            NAME,
            {
                "secretName": SECRET,
                "duration": "8760h",
                "dnsNames": names,
                **({"ipAddresses": addresses} if addresses else {}),
                "usages": ["server auth", "digital signature"],
                "privateKey": key,
                "issuerRef": {"name": NAME, "kind": "Issuer", "group": GROUP},
            },
        ),
    )


async def ask(client: Client, namespace: str, hosts: list[str]) -> None:
    """Create the Issuers and Certificates that do not exist."""
    for kind, body in manifests(namespace, hosts):
        try:
            await client.create(kind, namespace, body)
        except AlreadyExists:
            continue


async def made(client: Client, namespace: str) -> Material:
    """Return the issued certificate, empty before it is issued."""
    try:
        secret: Json = await client.get(SECRETS, namespace, SECRET)
        return decoded(secret)
    except NotFound:
        return {}
