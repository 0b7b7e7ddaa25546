"""The context of the server's parts (store, kinds, clock) and of one request."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Protocol

from embedded_apiserver.connections import Request
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.kinds.registry import Registry
from embedded_apiserver.schema.definitions import Definitions
from embedded_apiserver.status_errors import bad_request
from embedded_apiserver.store.object_store import Body, Bucket, Store
from embedded_apiserver.streams.command_streams import CommandStreams

LogSource = Callable[[Body, str, Mapping[str, str]], "bytes | AsyncIterator[bytes]"]
"""Given a pod, a container's name and the query of the log request: the text, or pieces of it as they come."""

Clock = Callable[[], datetime]
"""The time, with a time zone."""


class AccessError(Exception):
    """A container or a port of a pod that cannot be connected with; the message is the reason."""


class ContainerAccess(Protocol):
    """The runtime of containers, as `exec`, `attach` and `portforward` need it."""

    def check(self, pod: Body, container: str) -> None:
        """Raise ApiError unless the container runs; with an empty name: unless the pod does."""

    async def execute(self, pod: Body, container: str, command: list[str], streams: CommandStreams) -> int:
        """Run a command in a container until it ends; its exit code. Raises AccessError."""

    async def attach(self, pod: Body, container: str, streams: CommandStreams) -> None:
        """Connect with a container's main process until it ends. Raises AccessError."""

    async def connect(self, pod: Body, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of a pod. Raises AccessError."""


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """What a running container uses: cpus on average over the time of the measurement, bytes of memory."""

    namespace: str
    pod: str
    container: str
    node: str
    cpu: float
    memory: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """What runs on the nodes that can be measured, over the last `window` seconds."""

    window: float
    nodes: frozenset[str]
    containers: Sequence[ContainerUsage]


class NoContainers:
    """A cluster without container runtime."""

    def check(self, pod: Body, container: str) -> None:
        """Always raise."""
        name = pod["metadata"]["name"]
        raise bad_request(
            f"pod {name} runs no processes: its node {pod['spec'].get('nodeName') or '(none)'} is simulated"
        )

    async def execute(self, pod: Body, container: str, command: list[str], streams: CommandStreams) -> int:
        """Raise AccessError."""
        raise AccessError("nothing runs containers in this cluster")

    async def attach(self, pod: Body, container: str, streams: CommandStreams) -> None:
        """Raise AccessError."""
        raise AccessError("nothing runs containers in this cluster")

    async def connect(self, pod: Body, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raise AccessError."""
        raise AccessError("nothing runs containers in this cluster")


_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def utc_now() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def info(self) -> Body:
        """The userInfo of admission reviews."""
        user: Body = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            user["uid"] = self.uid
        if self.extra:
            user["extra"] = {key: list(values) for key, values in self.extra}
        return user


ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
SYSTEM = User(
    "system:serviceaccount:kube-system:generic-garbage-collector", ("system:serviceaccounts", "system:authenticated")
)


@dataclass(slots=True)
class Call:
    """One request: target, verb, query and user."""

    http: Request
    method: str
    kind: Kind
    namespace: str
    name: str
    subresource: str
    query: dict[str, str]
    user: User
    raw: bytes = b""
    warnings: list[str] = field(default_factory=list)

    def flag(self, key: str) -> bool:
        """A query parameter that is true or false; absent is false."""
        return self.query.get(key, "") in {"1", "t", "T", "true", "True", "TRUE"}

    @property
    def dry(self) -> bool:
        """Whether the request is a dry run."""
        return "dryRun" in self.query

    @property
    def manager(self) -> str:
        """The field manager, if the client named one."""
        return self.query.get("fieldManager", "")


class Admission(Protocol):
    """Webhooks and admission policies; while none is configured, ``active`` is false and nothing is asked."""

    active: bool

    async def mutate(
        self, call: Call, operation: str, body: Body, old: Body | None, gvk: tuple[str, str, str] | None = None
    ) -> Body:
        """Return the body as patched by the mutating webhooks; raises a rejection."""
        ...

    async def validate(
        self,
        call: Call,
        operation: str,
        body: Body | None,
        old: Body | None,
        gvk: tuple[str, str, str] | None = None,
        *,
        mutate_first: bool = False,
    ) -> None:
        """Raise the first rejection of the policies and the validating webhooks."""
        ...


class Context:
    """The parts of a running server."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        log_source: LogSource,
        service_addresses: Mapping[str, str],
        clock: Clock,
        rng: Random,
    ) -> None:
        self.store = store
        self.registry = registry
        self.definitions = Definitions.load()
        self.log_source = log_source
        self.container_access: ContainerAccess = NoContainers()
        self.usage: Callable[[], Awaitable[Measurement]] | None = None
        """Measures containers, in a cluster that serves `metrics.k8s.io`."""
        self.service_addresses = dict(service_addresses)
        self.stopping = asyncio.Event()
        self.streams: set[asyncio.Event] = set()
        self.owner_leaving: Callable[[str], None]
        """Applies the propagation policy of an owner, by its uid, that is marked for deletion."""
        self.namespace_ending: Callable[[str], None]
        """Deletes what is in a namespace."""
        self.check_quota: Callable[[str, Kind, Body], None]
        """Raises the 403 of a new object with which a sum exceeds a quota of its namespace."""
        self.webhooks: Admission
        self.bookmark_seconds = 60.0
        self.default_scheduler = ""
        """The scheduler of pods that name none, or `default-scheduler`; empty where a default-scheduler runs."""
        self._clock, self.rng = clock, rng
        self._second = 0
        self._stamp = ""

    def now(self) -> str:
        """The time as metadata carries it: whole seconds, UTC."""
        moment = self._clock()
        second = int(moment.timestamp())
        if second != self._second:
            self._second = second
            self._stamp = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        return self._stamp

    def fresh_uid(self) -> str:
        """A new object's uid."""
        bits = "%032x" % self.rng.getrandbits(128)  # noqa: UP031 - the quickest form, on the hottest path
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"

    def fresh_name(self, prefix: str, names: Mapping[str, Any]) -> str:
        """A generated name that no object has yet."""
        while True:
            name = prefix[:58] + "".join(self.rng.choices(_ALPHABET, k=5))
            if name not in names:
                return name

    def bucket(self, kind: Kind) -> Bucket:
        """Where the kind's objects are."""
        return self.store.bucket(kind.bucket)
