"""Reading of kubeconfig files and in-cluster service accounts into a :class:`~volcanopy.kube.client.connection.Connection`.

Parsing, merging of several files and credential plugins are those of the official package; this module adds one error
message per failure that names the file and the entry. No other module imports ``kubernetes``.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml
from kubernetes.client import Configuration
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger
from multidict import CIMultiDict, CIMultiDictProxy

from volcanopy.kube.client.connection import EXPIRY_MARGIN, FILE_PERIOD, Connection, Grant, Headers, RenewedCredentials
from volcanopy.kube.client.errors import NoCluster, describe

_UNREADABLE = (ConfigException, yaml.YAMLError, OSError, KeyError, TypeError, AttributeError, ValueError)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One reading of the files: the official package's configuration, and the fields that it lacks."""

    settings: Configuration
    grant: Grant
    context: str
    namespace: str
    proxy: str | None


def read_kubeconfig(files: tuple[Path, ...], context: str | None = None) -> Connection:
    """Return the connection of these files, merged in order, for this context or the current one."""

    def read() -> _Reading:
        try:
            return _read(files, context)
        except _UNREADABLE as fault:
            raise NoCluster(f"kubeconfig {_names(files)}: {describe(fault)}") from fault

    first = read()
    return _connect(first, RenewedCredentials(lambda: read().grant, first.grant, _tls(first, _names(files))))


def in_cluster(folder: Path, environ: Mapping[str, str]) -> Connection:
    """Return the connection of a pod: the service account in ``folder``, the server named by the environment."""

    def read() -> _Reading:
        settings = Configuration()
        loader = InClusterConfigLoader(str(folder / "token"), str(folder / "ca.crt"), False, environ)
        try:
            loader.load_and_set(settings)
            named = folder / "namespace"
            namespace = named.read_text().strip() if named.is_file() else ""
        except _UNREADABLE as fault:
            raise NoCluster(f"service account in {folder}: {describe(fault)}") from fault
        grant = Grant(_headers(settings, {}), time() + FILE_PERIOD)
        return _Reading(settings, grant, "in-cluster", namespace or "default", _proxy(settings.host, None))

    first = read()
    return _connect(first, RenewedCredentials(lambda: read().grant, first.grant, _tls(first, str(folder))))


def _connect(reading: _Reading, credentials: RenewedCredentials) -> Connection:
    settings = reading.settings
    return Connection(
        url=settings.host.rstrip("/"),
        credentials=credentials,
        ssl=credentials.context,
        namespace=reading.namespace,
        context=reading.context,
        proxy=reading.proxy,
        server_name=settings.tls_server_name or None,
    )


def _names(files: tuple[Path, ...]) -> str:
    return ", ".join(str(path) for path in files)


def _read(files: tuple[Path, ...], context: str | None) -> _Reading:
    merger = _merge(files)
    config = merger.config
    # The first file that names a current context wins, as with kubectl.
    name = context or next(
        (doc["current-context"] for doc in merger.config_files.values() if doc.get("current-context")), ""
    )
    known = [entry["name"] for entry in config["contexts"].value]
    if name not in known:
        problem = f"there is no context {name!r}" if name else "it names no current context"
        contexts = f"it has {', '.join(known)}" if known else "it has none"
        raise ConfigException(f"{problem}; {contexts}; choose one with --context")
    chosen = config["contexts"].get_with_name(name)["context"]
    cluster = config["clusters"].get_with_name(chosen["cluster"])["cluster"]
    if not cluster.safe_get("server"):
        raise ConfigException(f"cluster {chosen['cluster']!r} has no server")
    user = _user(config, chosen)
    grant_until = _run_plugin(user, chosen.safe_get("user"), cluster) if user and user.safe_get("exec") else None
    settings = Configuration()
    # No base path: relative paths are relative to their file.
    loader = KubeConfigLoader(config, active_context=name, config_base_path=None, config_persister=merger.save_changes)
    loader.load_and_set(settings)
    identity = user.value if user else {}
    if "tokenFile" in identity or "auth-provider" in identity:
        grant_until = time() + FILE_PERIOD
    certificate = (settings.cert_file, settings.key_file) if settings.cert_file else None
    return _Reading(
        settings,
        Grant(_headers(settings, identity), grant_until, certificate),
        name,
        chosen.safe_get("namespace") or "default",
        _proxy(cluster["server"], cluster.safe_get("proxy-url")),
    )


def _merge(files: tuple[Path, ...]) -> KubeConfigMerger:
    for path in files:
        content = yaml.safe_load(path.read_text())
        if not isinstance(content, dict):
            raise ConfigException(f"{path} is not a kubeconfig: its content must be a mapping")
    merger = KubeConfigMerger(os.pathsep.join(str(path) for path in files))
    for section in ("contexts", "clusters", "users"):
        for entry in merger.config[section].value:
            if "name" not in entry:
                raise ConfigException(f"an entry of {section} has no name")
    return merger


def _user(config: ConfigNode, chosen: ConfigNode) -> ConfigNode | None:
    name = chosen.safe_get("user")
    entry = config["users"].get_with_name(name, safe=True) if name else None
    if name and entry is None:
        raise ConfigException(f"the context names user {name!r}, which does not exist")
    # A user without credentials is written `user: {}`: safe_get returns the bare mapping.
    return ConfigNode(f"user {name}", entry.safe_get("user") or {}, entry.path) if entry else None


def _run_plugin(user: ConfigNode, name: str, cluster: ConfigNode) -> float | None:
    """Run the exec plugin and store its credentials. Returns the time of the next run (seconds since the epoch)."""
    plugin = user["exec"]
    command = plugin.safe_get("command")
    try:
        status: dict[str, Any] = ExecProvider(plugin, _folder(cluster), cluster).run()
        if not status.get("token") and not status.get("clientCertificateData"):
            raise ConfigException("its output has neither token nor clientCertificateData")
        if status.get("clientCertificateData") and not status.get("clientKeyData"):
            raise ConfigException("its output has clientCertificateData without clientKeyData")
    except _UNREADABLE as fault:
        hint = plugin.safe_get("installHint")
        sentence = f"the exec plugin {command!r} of user {name!r} returned no credentials: {describe(fault)}"
        raise ConfigException(f"{sentence}; {' '.join(hint.split())}" if hint else sentence) from fault
    del user.value["exec"]
    if status.get("token"):
        user.value["token"] = status["token"]
    if status.get("clientCertificateData"):
        user.value["client-certificate-data"] = _base64(status["clientCertificateData"])
        user.value["client-key-data"] = _base64(status["clientKeyData"])
    expires = status.get("expirationTimestamp")
    return datetime.fromisoformat(expires).timestamp() - EXPIRY_MARGIN if expires else None


def _folder(node: ConfigNode) -> str:
    return str(Path(node.path).absolute().parent) if node.path else ""


def _base64(text: str) -> str:
    return base64.standard_b64encode(text.encode()).decode()


def _headers(settings: Configuration, identity: Mapping[str, Any]) -> Headers:
    """Return the headers of authentication (token) and impersonation, which the official package does not read."""
    headers: CIMultiDict[str] = CIMultiDict()
    # The second name is that of releases before 34.
    token = settings.api_key.get("BearerToken") or settings.api_key.get("authorization")
    if token:
        scheme, _, secret = token.strip().partition(" ")
        headers.add("Authorization", f"{scheme.capitalize()} {secret.strip()}")
    if identity.get("as"):
        headers.add("Impersonate-User", identity["as"])
    if identity.get("as-uid"):
        headers.add("Impersonate-Uid", identity["as-uid"])
    for group in identity.get("as-groups") or ():
        headers.add("Impersonate-Group", group)
    for key, values in (identity.get("as-user-extra") or {}).items():
        for value in values:
            headers.add(f"Impersonate-Extra-{key}", value)
    return CIMultiDictProxy(headers)


def _proxy(server: str, configured: str | None) -> str | None:
    """Return the proxy for this server: that of the cluster entry, else that of the environment, unless exempt there."""
    target = urlsplit(server)
    proxy = configured
    if not proxy and not proxy_bypass(target.hostname or ""):
        proxies = getproxies()
        proxy = proxies.get(target.scheme) or proxies.get("all")
    if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
        raise NoCluster(f"proxy {proxy}: only http:// and https:// proxies can be used")
    return proxy or None


def _tls(reading: _Reading, source: str) -> ssl.SSLContext | None:
    settings = reading.settings
    if not settings.host.startswith("https:"):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca_cert or None)
        # Python 3.13 and later rejects authorities without the key usage extension, which many clusters' authorities lack.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        if not settings.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if reading.grant.certificate:
            # An empty password makes an encrypted key fail here instead of prompting at the terminal.
            context.load_cert_chain(*reading.grant.certificate, password="")
    except OSError as fault:
        raise NoCluster(f"kubeconfig {source}: unusable certificate: {describe(fault)}") from fault
    return context
