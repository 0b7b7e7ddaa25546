"""Reading of kubeconfig files and in-cluster service accounts into a :class:`~volcanopy.kube.client.connection.Connection`.

Several files are merged as by kubectl: the first that defines a name wins, and relative paths are relative to the file that
contains them. Every failure is one message that names the file and the entry.
"""

import atexit
import base64
import ipaddress
import json
import os
import re
import shutil
import ssl
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

import yaml
from multidict import CIMultiDict, CIMultiDictProxy

from volcanopy.api.messages import yaml_problem
from volcanopy.kube.client.connection import EXPIRY_MARGIN, FILE_PERIOD, Connection, Grant, Headers, RenewedCredentials
from volcanopy.kube.client.credential_plugins import provider_token, run_exec_plugin
from volcanopy.kube.client.errors import NoCluster, describe

_UNREADABLE = (OSError, KeyError, TypeError, AttributeError, ValueError)
_SECTIONS = {"contexts": "context", "clusters": "cluster", "users": "user"}
"""The lists of a kubeconfig, with the field of an entry that has its content."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PROXY_SCHEMES = frozenset({"http", "https", "socks5", "socks5h"})


@dataclass(frozen=True, slots=True)
class _ConfigEntry:
    """An entry of a kubeconfig."""

    content: dict[str, Any]
    folder: Path
    """The folder of its file."""

    def path(self, key: str) -> str | None:
        """Return the absolute path in a field; None where it is not set. Raises ValueError if there is no such file."""
        if not self.content.get(key):
            return None
        path = self.folder / self.content[key]
        if not path.is_file():
            raise ValueError(f"{key} {path}: there is no such file")
        return str(path)

    def pem(self, key: str) -> bytes | None:
        """Return the bytes in the field ``<key>-data``; None where it is not set."""
        text = self.content.get(f"{key}-data")
        return base64.b64decode(text) if text else None


@dataclass(frozen=True, slots=True)
class _Reading:
    """One reading of the configuration."""

    url: str
    grant: Grant
    context: str
    namespace: str
    proxy: str | None
    authority: str | bytes | None = None
    """The certificates of the authority as a path or in PEM; None for those of this machine."""
    verify: bool = True
    server_name: str | None = None


def load_connection(kubeconfig: Path | None = None, context: str | None = None) -> Connection:
    """Find the cluster as kubectl does: this file, else ``$KUBECONFIG``, else ``~/.kube/config``, else this pod's.

    May block for as long as an exec plugin runs. Raises :class:`NoCluster` with the cause and its place.
    """
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            problem = "it is a folder" if kubeconfig.is_dir() else "there is no such file"
            raise NoCluster(f"kubeconfig {kubeconfig}: {problem}")
        return read_kubeconfig((kubeconfig,), context)
    named = os.environ.get("KUBECONFIG")
    parts = [part for part in named.split(os.pathsep) if part] if named else []
    files = [path for path in map(expanded, parts or ["~/.kube/config"]) if path.is_file()]
    if files:
        return read_kubeconfig(tuple(files), context)
    if os.environ.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").is_file():
        return in_cluster(SERVICE_ACCOUNT, os.environ)
    looked = f"$KUBECONFIG names no file that exists ({named})" if named else "there is no ~/.kube/config"
    raise NoCluster(
        f"no cluster is configured: {looked}, and this is not a pod with a service account; "
        "give --kubeconfig FILE or set KUBECONFIG, or start a cluster here with `volcanopy local up`"
    )


def expanded(path: Path | str) -> Path:
    """Return the path with the home for ``~``; as it is for a user without a home, for whom Path.expanduser raises."""
    return Path(os.path.expanduser(path))


def read_kubeconfig(files: tuple[Path, ...], context: str | None = None) -> Connection:
    """Return the connection of these files, merged in order, for this context or the current one."""
    return _connection(partial(_read, files, context), f"kubeconfig {', '.join(map(str, files))}")


def in_cluster(folder: Path, environ: Mapping[str, str]) -> Connection:
    """Return the connection of a pod: the service account in ``folder``, the server named by the environment."""
    return _connection(partial(_read_service_account, folder, environ), f"service account in {folder}")


def _connection(read: Callable[[], _Reading], source: str) -> Connection:
    """Return the connection of a reading, which is repeated for new credentials; its errors name the source."""

    def reading() -> _Reading:
        try:
            return read()
        except _UNREADABLE as fault:
            raise NoCluster(f"{source}: {describe(fault)}") from fault

    first = reading()
    credentials = RenewedCredentials(lambda: reading().grant, first.grant, _tls(first, source))
    return Connection(
        url=first.url.rstrip("/"),
        credentials=credentials,
        ssl=credentials.context,
        namespace=first.namespace,
        context=first.context,
        proxy=first.proxy,
        server_name=first.server_name,
    )


def _read_service_account(folder: Path, environ: Mapping[str, str]) -> _Reading:
    host, port = (environ.get(name, "") for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"))
    if not host or not port:
        raise ValueError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    for name in ("token", "ca.crt"):
        path = folder / name
        if not path.is_file() or not path.read_text().strip():
            raise ValueError(f"there is no file {name}, or it is empty")
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    named = folder / "namespace"
    namespace = named.read_text().strip() if named.is_file() else ""
    grant = Grant(_headers(f"Bearer {(folder / 'token').read_text().strip()}", {}), time() + FILE_PERIOD)
    return _Reading(
        url, grant, "in-cluster", namespace or "default", _proxy(url, None), authority=str(folder / "ca.crt")
    )


def _read(files: tuple[Path, ...], context: str | None) -> _Reading:
    current, entries = _merge(files)
    name = context or current
    if name not in entries["contexts"]:
        context_names = ", ".join(entries["contexts"])
        problem = f"there is no context {name!r}" if name else "it names no current context"
        raise ValueError(f"{problem}; it has {context_names or 'none'}; choose one with --context")
    chosen = entries["contexts"][name].content
    cluster = entries["clusters"].get(chosen.get("cluster", ""))
    if cluster is None:
        raise ValueError(f"context {name!r} names cluster {chosen.get('cluster')!r}, which does not exist")
    url = cluster.content.get("server")
    if not url:
        raise ValueError(f"cluster {chosen['cluster']!r} has no server")
    user = _ConfigEntry({}, cluster.folder)
    if chosen.get("user"):
        if chosen["user"] not in entries["users"]:
            raise ValueError(f"the context names user {chosen['user']!r}, which does not exist")
        user = entries["users"][chosen["user"]]
    return _Reading(
        url,
        _grant(user, chosen.get("user", ""), cluster, files, name),
        name,
        chosen.get("namespace") or "default",
        _proxy(url, cluster.content.get("proxy-url")),
        authority=cluster.pem("certificate-authority") or cluster.path("certificate-authority"),
        verify=not cluster.content.get("insecure-skip-tls-verify"),
        server_name=cluster.content.get("tls-server-name") or None,
    )


def _merge(files: tuple[Path, ...]) -> tuple[str, dict[str, dict[str, _ConfigEntry]]]:
    """Return the current context, and the entries of each section by name."""
    current, entries = "", {section: dict[str, _ConfigEntry]() for section in _SECTIONS}
    for path in files:
        content = _parsed(path)
        if content is None and len(files) > 1:
            continue  # kubectl ignores empty files of a list
        if not isinstance(content, dict):
            raise ValueError(f"{path} is not a kubeconfig: its content must be a mapping")
        current = current or content.get("current-context") or ""
        for section, field in _SECTIONS.items():
            for entry in content.get(section) or ():
                if "name" not in entry:
                    raise ValueError(f"an entry of {section} has no name")
                if not isinstance(entry.get(field) or {}, dict):
                    raise ValueError(f"{field} {entry['name']!r} must be a mapping")
                entries[section].setdefault(entry["name"], _ConfigEntry(entry.get(field) or {}, path.absolute().parent))
    return current, entries


def _parsed(path: Path) -> Any:
    """Return the content of a kubeconfig, which YAML's scanner rejects if it is JSON indented with tabs."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:  # as a redirection in PowerShell writes it
        raise ValueError(f"{path} is not UTF-8 text") from None
    try:
        return json.loads(text) if text.lstrip().startswith("{") and "\t" in text else yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(yaml_problem(error, text)) from None


def _grant(user: _ConfigEntry, name: str, cluster: _ConfigEntry, files: tuple[Path, ...], context: str) -> Grant:
    """Return the credentials of a user: of its auth provider, token, exec plugin or password, and its certificate."""
    identity, renew_at = user.content, None
    certificate = _certificate(user)
    authorization = ""
    if identity.get("auth-provider"):
        authorization, renew_at = provider_token(files, context), time() + FILE_PERIOD
    elif identity.get("exec"):
        status = _run_plugin(identity["exec"], name, user, cluster)
        authorization = f"Bearer {status['token']}" if status.get("token") else ""
        if status.get("clientCertificateData"):
            pair = (status["clientCertificateData"].encode(), status["clientKeyData"].encode())
            certificate = (_temporary(pair[0]), _temporary(pair[1]))
        if status.get("expirationTimestamp"):
            renew_at = datetime.fromisoformat(status["expirationTimestamp"]).timestamp() - EXPIRY_MARGIN
    elif path := user.path("tokenFile"):  # before the token beside it, which is not renewed
        authorization, renew_at = f"Bearer {Path(path).read_text().strip()}", time() + FILE_PERIOD
    elif identity.get("token"):
        authorization = f"Bearer {identity['token']}"
    elif "username" in identity and "password" in identity:
        pair_text = f"{identity['username']}:{identity['password']}"
        authorization = f"Basic {base64.b64encode(pair_text.encode()).decode()}"
    return Grant(_headers(authorization, identity), renew_at, certificate)


def _certificate(user: _ConfigEntry) -> tuple[str, str | None] | None:
    """Return the paths of the client certificate and its key, None without one."""
    paths = []
    for key in ("client-certificate", "client-key"):
        pem = user.pem(key)
        paths.append(_temporary(pem) if pem else user.path(key))
    certificate, private = paths
    return (certificate, private) if certificate else None


def _run_plugin(plugin: Mapping[str, Any], name: str, user: _ConfigEntry, cluster: _ConfigEntry) -> dict[str, Any]:
    """Return the status of the user's exec plugin, which has credentials."""
    try:
        status = run_exec_plugin(plugin, cluster.content, user.folder)
        if not status.get("token") and not status.get("clientCertificateData"):
            raise ValueError("its output has neither token nor clientCertificateData")
        if status.get("clientCertificateData") and not status.get("clientKeyData"):
            raise ValueError("its output has clientCertificateData without clientKeyData")
    except _UNREADABLE as fault:
        hint = plugin.get("installHint")
        sentence = (
            f"the exec plugin {plugin.get('command')!r} of user {name!r} returned no credentials: {describe(fault)}"
        )
        raise ValueError(f"{sentence}; {' '.join(hint.split())}" if hint else sentence) from fault
    return status


@cache
def _folder() -> Path:
    """Return a folder of this process for certificates, which the ssl module reads from files only."""
    folder = tempfile.mkdtemp(prefix="volcanopy-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def _temporary(content: bytes) -> str:
    """Return the path of a file with this content, which only the user can read and which ends with the process."""
    number, path = tempfile.mkstemp(dir=_folder())
    with os.fdopen(number, "wb") as file:
        file.write(content)
    return path


def _headers(authorization: str, identity: Mapping[str, Any]) -> Headers:
    """Return the headers of authentication and impersonation."""
    headers: CIMultiDict[str] = CIMultiDict()
    if authorization:
        headers.add("Authorization", authorization)
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
    if not proxy:
        proxies = getproxies_environment()
        default = 443 if target.scheme == "https" else 80
        if not _is_exempt(target.hostname or "", target.port or default, proxies.get("no", "")):
            proxy = proxies.get(target.scheme) or proxies.get("all")
    if proxy and urlsplit(proxy).scheme not in PROXY_SCHEMES:
        raise NoCluster(f"proxy {proxy}: the scheme must be one of {', '.join(sorted(PROXY_SCHEMES))}")
    return proxy or None


def _is_exempt(host: str, port: int, exemptions: str) -> bool:
    """Return whether a server is reached without the proxy of the environment, by the rules of kubectl (Go's httpproxy).

    An exemption is ``*``, an address, a network such as 10.0.0.0/8, or a domain, which exempts its subdomains as well; with
    a leading dot these only. Each but the network may end with a port. Loopback addresses are always exempt.
    """
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for exemption in filter(None, map(str.strip, exemptions.lower().split(","))):
        if exemption == "*":
            return True
        if "/" in exemption:
            with suppress(ValueError):
                if address is not None and address in ipaddress.ip_network(exemption, strict=False):
                    return True
            continue
        name, exempt_port = exemption, ""
        if _address(exemption) is None and (split := re.fullmatch(r"(.*):(\d+)", exemption)):
            name, exempt_port = split.groups()
        if exempt_port and int(exempt_port) != port:
            continue
        domain = name.removeprefix("*")
        if address is not None:
            if _address(name.strip("[]")) == address:
                return True
        elif host.endswith(domain if domain.startswith(".") else f".{domain}") or host == domain:
            return True
    return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _tls(reading: _Reading, source: str) -> ssl.SSLContext | None:
    if not reading.url.startswith("https:"):
        return None
    try:
        authority = reading.authority
        if isinstance(authority, bytes):
            context = ssl.create_default_context(cadata=authority.decode())
        else:
            context = ssl.create_default_context(cafile=authority)
        # Python 3.13 and later rejects authorities without the key usage extension, which many clusters' authorities lack.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        if not reading.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if reading.grant.certificate:
            # An empty password makes an encrypted key fail here instead of prompting at the terminal.
            context.load_cert_chain(*reading.grant.certificate, password="")
    except (OSError, ValueError) as fault:
        raise NoCluster(f"{source}: unusable certificate: {describe(fault)}") from fault
    return context
