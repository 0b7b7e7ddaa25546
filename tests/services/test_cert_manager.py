"""With cert-manager installed, a Certificate is requested and its Secret is watched."""

import base64
from functools import partial

from tests.services.service_cluster import CRDS, Cluster
from tests.services.test_certificate_rotation import HOSTS, NOW
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import SECRETS
from volcanopy.services.admission import cert_manager
from volcanopy.services.admission.cert_manager import CERTIFICATES, GROUP, INJECT, ISSUERS, NAME
from volcanopy.services.admission.certificate_rotation import ForeignKeyring, renewed
from volcanopy.services.admission.webhook_configuration import Registration
from volcanopy.services.controllers.user_kinds import wait_for_kinds

HOOKS = ["hooks.system.svc", "127.0.0.1"]


def definition(kind: Kind[Json]) -> Json:
    """A kind of cert-manager's, with no more than its name."""
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": open_schema}}
    named = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {"group": GROUP, "names": named, "scope": "Namespaced", "versions": [version]},
    }


async def test_a_cert_manager_certificate_is_requested_and_watched(cluster: Cluster) -> None:
    client, namespace = cluster.client, cluster.namespace
    assert not await cert_manager.is_there(client)
    for kind in (ISSUERS, CERTIFICATES):
        await client.create(CRDS, None, definition(kind))
    try:
        await wait_for_kinds(client, (ISSUERS, CERTIFICATES))
        assert await cert_manager.is_there(client)
        for _ in range(2):  # a second server finds the request of the first
            await cert_manager.ask(client, namespace, HOOKS)
        asked = await client.get(CERTIFICATES, namespace, NAME)
        assert (asked["spec"]["dnsNames"], asked["spec"]["ipAddresses"]) == (["hooks.system.svc"], ["127.0.0.1"])
        issuer = await client.get(ISSUERS, namespace, asked["spec"]["issuerRef"]["name"])
        authority = await client.get(CERTIFICATES, namespace, issuer["spec"]["ca"]["secretName"])
        assert authority["spec"]["isCA"] is True
        assert await cert_manager.made(client, namespace) == {}

        made = renewed({}, HOSTS, NOW)
        data = {key: base64.b64encode(made[key].encode()).decode() for key in ("tls.crt", "tls.key", "ca.crt")}
        metadata = {"name": asked["spec"]["secretName"]}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}
        await client.create(SECRETS, namespace, secret)
        ring = ForeignKeyring(partial(cert_manager.made, client, namespace), lambda: NOW)
        await ring.renew()
        assert ring.context is not None
    finally:
        for kind in (ISSUERS, CERTIFICATES):
            await client.delete(CRDS, None, f"{kind.plural}.{GROUP}")


def test_the_configurations_name_the_certificate_that_is_injected() -> None:
    for _, made in Registration("", service="system/hooks", inject_from=f"system/{NAME}").configurations():
        assert made["metadata"]["annotations"] == {INJECT: f"system/{NAME}"}
        assert all("caBundle" not in webhook["clientConfig"] for webhook in made["webhooks"])
