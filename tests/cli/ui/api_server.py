"""An embedded API server in the process of a test, without scheduler and controllers, for states of the page."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from embedded_apiserver.context import User
from embedded_apiserver.server import ApiServer
from tests.controlplane.fixtures import chart_crds
from volcanopy.api.model import Json
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection, Credentials
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import JOBS

DEFINITIONS: Kind[Json] = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict
)
NAMESPACES: Kind[Json] = Kind("", "v1", "Namespace", "namespaces", False, dict)
GROUP = "rbac.authorization.k8s.io"
ROLES: Kind[Json] = Kind(GROUP, "v1", "Role", "roles", True, dict)
BINDINGS: Kind[Json] = Kind(GROUP, "v1", "RoleBinding", "rolebindings", True, dict)
_GROUPS = {"batch.volcanopy.io", "scheduling.volcanopy.io", "topology.volcanopy.io", "bus.volcanopy.io"}


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[ApiServer]:
    """Run a server; the options are those of :meth:`ApiServer.start`."""
    server = await ApiServer.start(**options)
    try:
        yield server
    finally:
        await server.stop()


def connection(server: ApiServer, token: str = "") -> Connection:
    """The connection of the administrator, or of the user of a token."""
    return Connection(server.url, Credentials({"Authorization": f"Bearer {token or server.token}"}))


async def install(server: ApiServer) -> None:
    """Create the definitions of the kinds that the page shows."""
    async with Client(connection(server)) as client:
        for definition in chart_crds():
            if definition["spec"]["group"] in _GROUPS:
                await client.create(DEFINITIONS, None, definition)


async def submit(server: ApiServer, name: str, namespace: str = "default") -> None:
    """Create a job of one pod."""
    container = {"name": "main", "image": "busybox"}
    spec = {"tasks": [{"name": "worker", "replicas": 1, "template": {"spec": {"containers": [container]}}}]}
    body = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": {"name": name}, "spec": spec}
    async with Client(connection(server)) as client:
        await client.create(JOBS, namespace, body)


async def create_namespace(server: ApiServer, name: str) -> None:
    """Create a namespace."""
    async with Client(connection(server)) as client:
        await client.create(NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def grant(server: ApiServer, user: str, namespace: str, rights: Mapping[str, list[str]]) -> None:
    """Let a user read these resources, by API group, in a namespace."""
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"]}
        for group, resources in rights.items()
    ]
    role = {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": rules}
    binding = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "reader"},
    }
    async with Client(connection(server)) as client:
        await client.create(ROLES, namespace, role)
        await client.create(BINDINGS, namespace, binding)


USERS = {"token-of-ada": User("ada"), "token-of-eve": User("eve")}
"""Users without rights, by token."""
