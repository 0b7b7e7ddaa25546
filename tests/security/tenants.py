"""Users of a real API server with the roles of the chart: their requests, and the answers in one line."""

import contextlib
import http.client
import json
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.charts.rendering import render
from tests.controlplane.plane import ControlPlane, CreateError

Json = dict[str, Any]

PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "PodGroup": "/apis/scheduling.volcanopy.io/v1beta1/namespaces/{}/podgroups",
    "Queue": "/apis/scheduling.volcanopy.io/v1beta1/queues",
    "BatchJob": "/apis/batch.volcanopy.io/v1alpha1/namespaces/{}/batchjobs",
    "CronBatchJob": "/apis/batch.volcanopy.io/v1alpha1/namespaces/{}/cronbatchjobs",
    "JobTemplate": "/apis/flow.volcanopy.io/v1alpha1/namespaces/{}/jobtemplates",
    "JobFlow": "/apis/flow.volcanopy.io/v1alpha1/namespaces/{}/jobflows",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Node": "/api/v1/nodes",
    "NumaTopology": "/apis/nodeinfo.volcanopy.io/v1alpha1/numatopologies",
    "Command": "/apis/bus.volcanopy.io/v1alpha1/namespaces/{}/commands",
}
"""Path of the objects of a kind in a namespace."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class Tenant:
    """One user's requests in one namespace. The administrator of the plane impersonates the user."""

    plane: ControlPlane
    name: str
    namespace: str
    node: str = ""
    """The node of its pod, as the token of a service account names it."""

    def request(self, method: str, path: str, body: Any = None, content: str = "application/json") -> tuple[int, Json]:
        """Send a request; returns the HTTP code and the response."""
        address = urlsplit(self.plane.url)
        context = ssl.create_default_context(cadata=self.plane.ca.decode())
        connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=context, timeout=120)
        headers = {
            "Authorization": f"Bearer {self.plane.token}",
            "Content-Type": content,
            "Impersonate-User": self.name,
            "Impersonate-Group": "system:authenticated",
        }
        if self.node:
            headers["Impersonate-Extra-authentication.kubernetes.io%2Fnode-name"] = self.node
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def path(self, kind: str, name: str = "", subresource: str = "") -> str:
        """Path of a kind, an object or a subresource in the namespace."""
        return "/".join(part for part in (PATHS[kind].format(self.namespace), name, subresource) if part)

    def create(self, manifest: Json, query: str = "") -> str:
        """Create an object; returns the message of the refusal, empty if it was created."""
        return _refusal(self.request("POST", self.path(manifest["kind"]) + query, manifest))

    def patch(self, kind: str, name: str, patch: Json, subresource: str = "") -> str:
        """Apply a merge patch; returns the message of the refusal, empty if it was applied."""
        path, merge = self.path(kind, name, subresource), "application/merge-patch+json"
        return _refusal(self.request("PATCH", path, patch, merge))

    def delete(self, kind: str, name: str) -> str:
        """Delete an object; returns the message of the refusal, empty if it was deleted."""
        return _refusal(self.request("DELETE", self.path(kind, name)))

    def get(self, kind: str, name: str) -> Json:
        """Return an object."""
        return self.request("GET", self.path(kind, name))[1]


def _refusal(answer: tuple[int, Json]) -> str:
    code, body = answer
    return "" if code < 300 else f"{code} {body.get('message', body)}"


MUTATING_POLICIES = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
"""A kind that the real API server serves."""


def chart_objects(*kinds: str, values: Json | None = None) -> list[Json]:
    """The cluster-scoped objects of the chart of these kinds, without what the tests of a session share."""
    return [manifest for manifest in render(values or {}, served=(MUTATING_POLICIES,)) if manifest["kind"] in kinds]


def install_roles(plane: ControlPlane, namespace: str, *editors: str) -> None:
    """Create the chart's roles for users, give the role ``edit`` of the namespace to these users, and wait until it applies."""
    for role in chart_objects("ClusterRole"):
        if role["metadata"]["name"] in {"volcanopy-view", "volcanopy-edit"}:
            with contextlib.suppress(CreateError):  # another test has created it
                plane.request("POST", f"{RBAC}/clusterroles", role)
    for user in editors:
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
        binding = {"metadata": {"name": user}, "roleRef": role, "subjects": [subject]}
        plane.request("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    deadline = time.monotonic() + 60
    for user in editors:
        tenant = Tenant(plane, user, namespace)
        while tenant.request("POST", tenant.path("JobFlow") + "?dryRun=All", {})[0] == 403:
            assert time.monotonic() < deadline, "roles are not aggregated"
            time.sleep(0.05)


def grant(
    plane: ControlPlane, namespace: str, user: str, *resources: str, group: str = "", verb: str = "patch"
) -> None:
    """Let a user do this with resources of the namespace, by default patch core resources."""
    role = {
        "metadata": {"name": f"more-{user}"},
        "rules": [{"apiGroups": [group], "resources": resources, "verbs": [verb]}],
    }
    plane.request("POST", f"{RBAC}/namespaces/{namespace}/roles", role)
    api = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": f"more-{user}"},
        "roleRef": {"apiGroup": api, "kind": "Role", "name": f"more-{user}"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    }
    plane.request("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
