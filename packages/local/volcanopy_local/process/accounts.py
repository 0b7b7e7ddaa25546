"""How pods of process nodes reach the API server: its address, and the credentials of their service accounts.

In a cluster, admission adds the credentials to a pod as a volume. Here the kubelet mounts one folder into all pods of an account,
and keeps its token valid, so that programs that look for the configuration of their cluster find it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import msgspec

from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.backoff import answered
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import ApiError, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy_local.process.folders import make_folder

ACCOUNTS: Kind[Json] = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, dict)
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where programs in a cluster look for the credentials of their service account."""
LIFETIME, RENEWAL = 3600, 2880
"""Seconds: the life of a token, and the age at which it is replaced."""
CHECK = 60.0
"""Seconds between two looks for tokens that are due."""


@dataclass(frozen=True)
class ApiAddress:
    """Where pods reach the API server by HTTPS, and the certificates of the authorities that they must trust (PEM)."""

    host: str
    port: int
    authorities: str

    @classmethod
    def of(cls, connection: Connection) -> ApiAddress | None:
        """The address of a connection; None for one without TLS, which the clients in a cluster do not speak."""
        if connection.ssl is None:
            return None
        url = urlsplit(connection.url)
        certificates = connection.ssl.get_ca_certs(binary_form=True)
        return cls(url.hostname or "", url.port or 443, "".join(map(ssl.DER_cert_to_PEM_cert, certificates)))

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which programs in a cluster find its API server."""
        return {"KUBERNETES_SERVICE_HOST": self.host, "KUBERNETES_SERVICE_PORT": str(self.port)}


@dataclass(frozen=True)
class Credentials:
    """What the containers of a pod get: a folder for `MOUNT_PATH`, and variables. No folder for a pod that gets no token."""

    folder: Path | None
    environment: Mapping[str, str]


@dataclass(frozen=True)
class _Account:
    namespace: str
    name: str
    audience: str = ""
    """For whom the token is; empty for the API server."""


@dataclass(frozen=True)
class _Issued:
    uid: str
    token: str
    due: float


class AccountTokens:
    """The credentials of service accounts: one token for each account and audience, until it is due."""

    def __init__(
        self, client: Client, folder: Path, address: ApiAddress, clock: Callable[[], float] = monotonic
    ) -> None:
        self.address = address
        self._client, self._folder, self._clock = client, folder, clock
        self._accounts = Reflector(client, ACCOUNTS)
        self._issued: dict[_Account, _Issued] = {}

    async def run(self, renewed: Callable[[], None]) -> None:
        """Follow the accounts and replace tokens that are due; calls `renewed` after that."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._accounts.run(lambda _: None), name="service accounts")
            while True:
                await asyncio.sleep(CHECK)
                if await self.renew():
                    renewed()

    async def renew(self) -> bool:
        """Replace the tokens that are due; whether there were any."""
        due = [account for account, issued in self._issued.items() if issued.due <= self._clock()]
        for account in due:
            self._issued.pop(account)
            await self._token(account)
        return bool(due)

    async def of(self, pod: Json) -> Credentials:
        """The credentials of a pod, which has no token if it or its account rejects that, or there is no such account."""
        account = _Account(pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default")
        body, folder = await self._body(account), None
        mounted = pod["spec"].get("automountServiceAccountToken", (body or {}).get("automountServiceAccountToken"))
        if mounted is not False and await self._token(account):
            folder = self._path(account)
        return Credentials(folder, self.address.environment)

    async def tokens(self, pod: Json) -> dict[str, str]:
        """The tokens that the projected volumes of a pod need, by audience."""
        namespace, name = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default"
        audiences = sorted(set(audiences_of(pod)))
        tokens = {audience: await self._token(_Account(namespace, name, audience)) for audience in audiences}
        return {audience: token for audience, token in tokens.items() if token}

    async def _body(self, account: _Account) -> Json | None:
        """The account; one that the watch has not shown yet is read."""
        if (body := self._accounts.objects.get(f"{account.namespace}/{account.name}")) is not None:
            return body
        with contextlib.suppress(NotFound):
            return await answered(partial(self._client.get, ACCOUNTS, account.namespace, account.name))
        return None

    async def _token(self, account: _Account) -> str:
        """A valid token of an account; empty if there is no such account, or none is given for it."""
        body = await self._body(account)
        if body is None:
            return ""
        uid: str = body["metadata"]["uid"]
        issued = self._issued.get(account)
        if issued is not None and issued.uid == uid:
            return issued.token
        try:
            token = await answered(partial(self._request, account))
        except ApiError:
            return ""
        self._issued[account] = _Issued(uid, token, self._clock() + RENEWAL)
        if not account.audience:
            self._write(account, token)
        return token

    async def _request(self, account: _Account) -> str:
        spec: Json = {"expirationSeconds": LIFETIME} | ({"audiences": [account.audience]} if account.audience else {})
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{account.namespace}/serviceaccounts/{account.name}/token"
        answer = msgspec.json.decode(await self._client.post_raw(path, body))
        return str(answer["status"]["token"])

    def _path(self, account: _Account) -> Path:
        return self._folder / account.namespace / account.name

    def _write(self, account: _Account, token: str) -> None:
        """Write the folder of an account, which programs of any user can read in their pods; each file is replaced at once."""
        folder = self._path(account)
        make_folder(self._folder)
        self._folder.chmod(0o700)
        make_folder(folder)
        files = {"token": token, "ca.crt": self.address.authorities, "namespace": account.namespace}
        for name, text in files.items():
            temporary = folder / f".{name}.new"
            temporary.write_text(text)
            temporary.chmod(0o644)
            temporary.rename(folder / name)


def audiences_of(pod: Json) -> Iterator[str]:
    """For whom the tokens in the projected volumes of a pod are; empty for the API server."""
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if (token := source.get("serviceAccountToken")) is not None:
                yield token.get("audience") or ""
