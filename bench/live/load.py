"""One run: a fresh API server, a load on it, and what it has cost until the last pod was bound."""

import asyncio
import enum
import os
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from bench.live.audit import POLICY, Accounts
from bench.live.bare_client import NAMESPACE, NODES, SECONDS, Client, session
from bench.live.services import SERVICES, USERS, Services, create_policies
from tests.controlplane.plane import ControlPlane
from volcanopy.api.bindings import VOLCANOPY, Binding
from volcanopy.api.volcano_crds import crds_of


class Load(enum.Enum):
    """Who creates and binds the pods."""

    BARE = "bare"
    TWO_PHASES = "two_phases"
    OURS = "volcanopy"
    WITHOUT_GANGS = "volcanopy-without-gangs"
    """The same jobs, each of whose pods may start alone."""
    SAME_WRITES = "same-writes"
    """The bare client, with all that volcanopy writes for its jobs."""
    VOLCANO = "volcano"
    VOLCANO_TUNED = "volcano-tuned"
    KUBE_SCHEDULER = "kube-scheduler"
    KUEUE = "kueue"
    KUEUE_TUNED = "kueue-tuned"


OUR_LOADS = frozenset({Load.OURS, Load.WITHOUT_GANGS})
CLIENT_LOADS = frozenset({Load.BARE, Load.TWO_PHASES, Load.SAME_WRITES})
"""Those in which the client does all the work."""


class Peer(Protocol):
    """Another system that creates and binds the pods, in :mod:`bench.live.peers`."""

    controllers: tuple[str, ...]
    """Those of kube-controller-manager that it needs."""
    users: tuple[str, ...]
    """The users of its programs."""

    def definitions(self) -> Iterable[dict[str, Any]]:
        """Return the CustomResourceDefinitions that are there before anything else."""

    async def start(self, client: Client, plane: ControlPlane, services: Services) -> None:
        """Start its programs, and wait until pods of a job elsewhere are bound."""

    async def submit(self, client: Client, jobs: int, pods: int, namespace: str = "bench", prefix: str = "job") -> None:
        """Create the jobs."""


@dataclass(frozen=True)
class Run:
    """The result of a run. Processor time is in seconds."""

    load: Load
    jobs: int
    pods_of_a_job: int
    cpu: dict[str, float]
    seconds: float
    requests: Counter[str]
    bound: int
    """Pods that were bound: all, or those of another system within the time limit."""
    allocated: float = 0.0
    """The bytes that the API server has allocated."""
    load_average: float = 0.0
    """Of the machine, in the last minute at the end."""

    @property
    def shape(self) -> str:
        """Return JOBSxPODS."""
        return f"{self.jobs}x{self.pods_of_a_job}"

    @property
    def pods(self) -> int:
        """Return the number of pods."""
        return self.jobs * self.pods_of_a_job

    @property
    def parts_per_pod(self) -> dict[str, float]:
        """Return the milliseconds of each process for each bound pod."""
        return {name: spent / self.bound * 1000 for name, spent in self.cpu.items()}

    @property
    def cpu_per_pod(self) -> float:
        """Return the milliseconds of all processes for each pod."""
        return sum(self.parts_per_pod.values())

    @property
    def allocated_per_pod(self) -> float:
        """Return the KiB that the API server has allocated for each pod: nearly the same on a busy machine."""
        return self.allocated / self.pods / 1024

    @property
    def pods_per_second(self) -> float:
        """Return the pods bound in a second, from the first request to the last bind."""
        return self.bound / self.seconds

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {spent:.2f}" for name, spent in self.parts_per_pod.items())
        whole = f"{self.cpu_per_pod:.2f} ms of processor time for each pod ({parts})"
        memory = f"{self.allocated_per_pod:.0f} KiB allocated by the API server"
        part = "" if self.bound == self.pods else f", only {self.bound} of {self.pods} pods within the time limit"
        return f"{self.shape} {self.load.value}: {whole}, {memory}, {self.pods_per_second:.0f} pods/s{part}"


@dataclass(frozen=True)
class Cluster:
    """A fresh API server with nodes, at rest."""

    client: Client
    processes: dict[str, int]
    """The pid of each process."""
    audit_log: Path
    plane: ControlPlane
    services: Services


@asynccontextmanager
async def cluster(
    *,
    ours: bool,
    nodes: int = NODES,
    binding: Binding = VOLCANOPY,
    peer: Peer | None = None,
    crds: Iterable[dict[str, Any]] = (),
) -> AsyncIterator[Cluster]:
    """Start an API server, with our services if ``ours``, or with a peer; nodes are there, and a job of this API has been through.

    ``crds`` are there without any.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="volcanopy-live-")))
        policy, log = directory / "audit.yaml", directory / "audit.log"
        policy.write_text(POLICY)
        flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking"]
        # In MB: by default the log is rotated after 100, and the reader would miss what follows.
        flags.append("--audit-log-maxsize=100000")
        users = dict.fromkeys((*USERS.values(), *(peer.users if peer else ())), ("system:masters",))
        crds = crds_of((binding,)) if ours else peer.definitions() if peer else crds
        controllers = peer.controllers if peer else ()
        plane = ControlPlane.start(controllers=controllers, crds=crds, apiserver_flags=flags, users=users)
        stack.enter_context(plane)
        services = stack.enter_context(Services(plane, directory, binding))
        if ours:
            create_policies(plane)
            for name in SERVICES:
                services.start(name)
        async with session(plane, binding) as client:
            await client.prepare(nodes)
            if ours:
                await client.warm_up(services.check)
            if peer:
                await peer.start(client, plane, services)
            processes = plane.pids() | services.pids
            with suppress(TimeoutError) if peer else nullcontext():  # Volcano's scheduler never rests
                await quiet(processes)
            yield Cluster(client, processes, log, plane, services)


async def measured(load: Load, jobs: int, pods: int, peer: Peer | None = None, seconds: float = SECONDS) -> Run:
    """Run a load on a fresh API server. Raises TimeoutError if not all pods are bound within so many seconds.

    The run of a peer ends then, with the pods that were bound.
    """
    crds = crds_of((VOLCANOPY,)) if load is Load.SAME_WRITES else ()
    async with cluster(ours=load in OUR_LOADS, peer=peer, crds=crds) as fresh:
        client, processes = fresh.client, fresh.processes
        prepared = [client.writes_of(number, pods) for number in range(jobs if load is Load.SAME_WRITES else 0)]
        accounts = Accounts(fresh.audit_log, NAMESPACE, fresh.audit_log.stat().st_size)
        before, allocated = cpu(processes), await client.allocated()
        work: Callable[[int, int], Awaitable[None]]
        if peer:
            work = partial(peer.submit, client)
        else:
            own: dict[Load, Callable[[int, int], Awaitable[None]]] = {
                Load.BARE: client.create_and_bind,
                Load.TWO_PHASES: client.create_then_bind,
                Load.OURS: client.submit,
                Load.WITHOUT_GANGS: partial(client.submit, gang=False),
                Load.SAME_WRITES: lambda *_: client.write_as_ours(prepared),
            }
            work = own[load]
        with suppress(TimeoutError) if peer else nullcontext():
            async with asyncio.timeout(seconds):
                await asyncio.gather(work(jobs, pods), _bound(accounts, jobs * pods))
        after, allocated = cpu(processes), await client.allocated() - allocated
        fresh.services.check()
    if not accounts.bound:
        raise RuntimeError(f"{load.value} has bound no pod within {seconds:.0f} s")
    spent = {name: after[name] - before[name] for name in after}
    if load not in CLIENT_LOADS:
        del spent["client"]  # it only submits, and reads the audit log
    taken, busy = accounts.last - accounts.first, os.getloadavg()[0]
    return Run(load, jobs, pods, spent, taken, accounts.requests, accounts.bound, allocated, busy)


async def _bound(accounts: Accounts, pods: int) -> None:
    """Wait until so many pods are bound, without a watch, which would cost the API server something."""
    while accounts.bound < pods:
        await asyncio.sleep(0.2)
        accounts.read()


async def quiet(processes: dict[str, int], seconds: float = 60.0) -> None:
    """Wait until the processes do nothing: the API server is busy for seconds after kinds and nodes have been created.

    Raises TimeoutError if they still do after so many seconds.
    """
    before = cpu(processes)
    async with asyncio.timeout(seconds):
        while True:
            await asyncio.sleep(2)
            after = cpu(processes)
            if all(after[name] - before[name] < 0.1 for name in processes):
                return
            before = after


def cpu(processes: dict[str, int]) -> dict[str, float]:
    """Return the processor seconds of these processes, and of this one as ``client``."""
    tick = os.sysconf("SC_CLK_TCK")
    spent = {}
    for name, pid in processes.items():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        spent[name] = (int(fields[11]) + int(fields[12])) / tick
    return spent | {"client": time.process_time()}
