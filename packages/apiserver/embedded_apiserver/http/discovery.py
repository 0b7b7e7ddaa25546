"""Discovery: the documents of groups and resources, the version, the OpenAPI index and documents."""

import hashlib
from typing import Any

from embedded_apiserver.connections import Response
from embedded_apiserver.context import Context
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.store.object_store import Body, encode
from embedded_apiserver.wire import openapi_v2
from embedded_apiserver.wire.openapi import document, index, root
from embedded_apiserver.wire.representation import respond

_SUBRESOURCES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "status": ("", "", "", ("get", "patch", "update")),
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "log": ("", "", "", ("get",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
    "exec": ("", "v1", "PodExecOptions", ("create", "get")),
    "attach": ("", "v1", "PodAttachOptions", ("create", "get")),
    "portforward": ("", "v1", "PodPortForwardOptions", ("create", "get")),
    "finalize": ("", "", "", ("update",)),
}


class Discovery:
    """The discovery documents of a running server, made anew when a kind comes or goes."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._revision = -1
        self._pages: dict[str, bytes] = {}

    def page(self, path: str) -> Response | None:
        """The answer for a path of discovery, or None if it is none."""
        self._forget_old_pages()
        path = path.rstrip("/")
        if path not in self._pages and (body := self._document_at(path)) is not None:
            self._pages[path] = encode(body)
        return respond(self._pages[path]) if path in self._pages else None

    def openapi(self, path: str) -> Response | None:
        """`/openapi/v3` and the documents below it."""
        self._forget_old_pages()
        registry = self._ctx.registry
        versions = {root(g, v): (g, v) for g, vs in registry.groups().items() for v in vs}
        name = path.removeprefix("/openapi/v3").strip("/")
        if not name:
            return respond(self._cached(path, lambda: index(_groups(registry.groups()), self._hash)))
        document = versions.get(name)
        if document is None:
            return None
        return respond(self._cached(path, lambda: self._document(*document)))

    def openapi_v2(self, accept: str) -> Response | None:
        """`/openapi/v2`: one document for all kinds, in the protobuf encoding only."""
        if "protobuf" not in accept:
            return None
        registry = self._ctx.registry
        kinds = [kind for group in _groups(registry.groups()) for kind in registry.of_version(*group)]
        document = openapi_v2.document(kinds, self._ctx.definitions.kubernetes_version)
        return Response(document, content_type=openapi_v2.CONTENT_TYPE)

    def _forget_old_pages(self) -> None:
        registry = self._ctx.registry
        if registry.revision != self._revision:
            self._pages.clear()
            self._revision = registry.revision

    def _cached(self, key: str, make: Any) -> bytes:
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = encode(make())
        return page

    def _document(self, group: str, version: str) -> Body:
        return document(group, version, self._ctx.registry.of_version(group, version), self._ctx.definitions)

    def _hash(self, group: str, version: str) -> str:
        """Changes whenever the document would."""
        kinds = sorted(
            (k.plural, id(k.schema) if k.custom else 0) for k in self._ctx.registry.of_version(group, version)
        )
        text = f"{self._ctx.definitions.kubernetes_version} {group} {version} {kinds}"
        return hashlib.sha256(text.encode()).hexdigest()[:32].upper()

    def _document_at(self, path: str) -> Body | None:
        groups = self._ctx.registry.groups()
        if not path:
            return {"paths": self._paths()}
        if path == "/api":
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
            return {"kind": "APIVersions", "versions": groups[""], "serverAddressByClientCIDRs": addresses}
        if path == "/apis":
            listed = [_group(group, versions) for group, versions in groups.items() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        parts = path.split("/")[1:]
        if parts[0] == "api" and len(parts) == 2 and parts[1] in groups[""]:
            return self._resources("", parts[1])
        if parts[0] == "apis" and len(parts) > 1 and parts[1] in groups:
            if len(parts) == 2:
                return {"kind": "APIGroup", "apiVersion": "v1"} | _group(parts[1], groups[parts[1]])
            if len(parts) == 3 and parts[2] in groups[parts[1]]:
                return self._resources(parts[1], parts[2])
        return None

    def _paths(self) -> list[str]:
        """What is served: the answer of `GET /`."""
        groups = self._ctx.registry.groups()
        versions = ["/" + root(group, version) for group, version in _groups(groups)]
        others = ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        return sorted({"/api", "/apis", *(f"/apis/{group}" for group in groups if group), *versions, *others})

    def _resources(self, group: str, version: str) -> Body:
        resources: list[Body] = []
        for kind in self._ctx.registry.of_version(group, version):
            resource: Body = {"name": kind.plural, "singularName": kind.singular, "kind": kind.kind}
            resources.append(resource | {"namespaced": kind.namespaced} | _verbs_and_names(kind))
            for name in kind.subresources:
                sub_group, sub_version, sub_kind, verbs = _SUBRESOURCES[name]
                sub: Body = {"name": f"{kind.plural}/{name}", "singularName": "", "kind": sub_kind or kind.kind}
                group_version = {"group": sub_group, "version": sub_version} if sub_group else {}
                resources.append(sub | {"namespaced": kind.namespaced, "verbs": list(verbs)} | group_version)
        api_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}


def version_info(ctx: Context) -> Body:
    """`/version`: the Kubernetes minor whose definitions are served."""
    text = ctx.definitions.kubernetes_version
    major, minor, *_ = text.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{text}+embedded",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "cpython",
        "platform": "linux/amd64",
    }


def _groups(groups: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(group, version) for group, versions in groups.items() for version in versions]


def _group(group: str, versions: list[str]) -> Body:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _verbs_and_names(kind: Kind) -> Body:
    lists = {"verbs": kind.verbs, "shortNames": kind.short_names, "categories": kind.categories}
    return {key: list(values) for key, values in lists.items() if values}
