"""What a run of chaos can reach: the cluster, and the processes, proxies and nodes that the run itself has started."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from chaos.judge import ENDED, Access, Judge
from chaos.processes import RestartedProcess
from chaos.proxy import FaultProxy
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, KubeError, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy_local.simulated.kubelet import Kubelet


@dataclass
class Site:
    """The cluster under test. Everything that is empty or None limits the faults that are possible."""

    client: Client
    """The administrator's, past all proxies."""
    judge: Judge
    rng: Random
    services: list[RestartedProcess] = field(default_factory=list)
    """Scheduler, controllers and admission, if the run has started them."""
    proxies: list[FaultProxy] = field(default_factory=list)
    """Between the services and the API server."""
    kubelet: Kubelet | None = None
    node_names: list[str] = field(default_factory=list)
    """The simulated nodes of the run."""
    server: RestartedProcess | None = None
    """The embedded API server, if the run has started it."""
    pids: Mapping[str, int] = field(default_factory=dict)
    """Processes of the API server on this machine that may be paused, by name."""
    etcd: str = ""
    """The address of the etcd of the API server."""
    installed: list[Json] = field(default_factory=list)
    """The Deployments of the chart in the cluster."""
    pace: float = 1.0
    """Factor of the durations of faults."""
    busy: set[str] = field(default_factory=set)
    """What a fault happens to."""

    @property
    def namespace(self) -> str:
        """The namespace of the jobs."""
        return self.judge.namespace

    @property
    def access(self) -> Access:
        """The address and the credentials of the API server, for requests without the client."""
        connection = self.client.connection
        options = {
            "ssl": True if connection.ssl is None else connection.ssl,
            "proxy": connection.proxy,
            "server_hostname": connection.server_name,
        }
        return Access(connection.url, connection.credentials.headers, options)

    async def pause(self, least: float, most: float) -> None:
        """Let some time pass, between these seconds at the usual pace."""
        await asyncio.sleep(self.rng.uniform(least, most) * self.pace)

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Whether no other fault happens to this, for the duration of the block."""
        if name in self.busy:
            yield False
            return
        self.busy.add(name)
        try:
            yield True
        finally:
            self.busy.discard(name)

    def a_pod(self) -> Json | None:
        """Return a pod of the jobs at random."""
        pods = [pod for pod in self.judge.pods.values() if pod["metadata"]["namespace"] == self.namespace]
        return self.rng.choice(pods) if pods else None

    def a_job(self) -> Json | None:
        """Return a job at random that has not ended."""
        jobs = [record.body for record in self.judge.jobs.values() if record.phase not in ENDED]
        return self.rng.choice(jobs) if jobs else None


async def surely(
    request: Callable[[], Awaitable[object]],
    seconds: float = 120.0,
    done: tuple[type[KubeError], ...] = (NotFound, AlreadyExists),
) -> None:
    """Repeat a request until the API server has carried it out; raises its error after this many seconds.

    The errors of ``done`` mean that nothing is left to do.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            await request()
        except done:
            return
        except KubeError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.5)
        else:
            return
