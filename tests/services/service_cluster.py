"""A cluster for the services' tests: what there is, seen live, and a player for the parts of scheduler and nodes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from embedded_apiserver.server import ApiServer
from volcanopy.api.crd import crds
from volcanopy.api.names import GROUP_NAME
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import Conflict, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import JOBS
from volcanopy.services.controllers.controller_service import run
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy.services.controllers.user_kinds import wait_for_kinds
from volcanopy_local.cluster import self_signed

CRDS: Kind[Json] = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict
)
NAMESPACES: Kind[Json] = Kind("", "v1", "Namespace", "namespaces", False, dict)


def task(name: str = "a", replicas: int = 1, **fields: Any) -> Json:
    """A task."""
    containers = [{"name": "main", "image": "busybox"}]
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": containers}}, **fields}


class Cluster:
    """One namespace of a cluster, seen live."""

    def __init__(self, connection: Connection, client: Client, namespace: str) -> None:
        self.connection, self.client, self.namespace = connection, client, namespace
        self.pod_births: Counter[str] = Counter()
        self.embedded = False
        """Whether this is our own API server, which forbids nothing to anybody."""
        self.plays = True
        self.ends = "Succeeded"
        self._changed = asyncio.Event()
        self._version = 0
        """Counts changes: the player must see those that come while it writes."""
        self._jobs = Reflector(client, JOBS, namespace)
        self._pods = Reflector(client, PODS.raw, namespace)
        self._groups = Reflector(client, POD_GROUPS.raw, namespace)

    @classmethod
    @asynccontextmanager
    async def open(cls, connection: Connection, namespace: str) -> "AsyncIterator[Cluster]":
        """With the namespace made, and a player at work; the server has our kinds."""
        async with Client(connection) as client:
            await client.create(NAMESPACES, None, {"metadata": {"name": namespace}})
            cluster = cls(connection, client, namespace)
            tasks = [
                asyncio.create_task(cluster._jobs.run(cluster._tell)),
                asyncio.create_task(cluster._pods.run(cluster._born)),
                asyncio.create_task(cluster._groups.run(cluster._tell)),
                asyncio.create_task(cluster._play()),
            ]
            try:
                yield cluster
            finally:
                for task in tasks:
                    task.cancel()
                for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                    if isinstance(outcome, Exception):
                        raise outcome

    def _tell(self, _: Sequence[Change[Json]]) -> None:
        self._version += 1
        self._changed.set()

    def _born(self, changes: Sequence[Change[Json]]) -> None:
        for change in changes:
            if change.type is ChangeType.ADDED:
                self.pod_births[change.object["metadata"]["name"]] += 1
        self._tell(changes)

    @property
    def jobs(self) -> dict[str, Json]:
        """Jobs by name."""
        return {key.partition("/")[2]: job for key, job in self._jobs.objects.items()}

    @property
    def pods(self) -> dict[str, Json]:
        """Pods by name."""
        return {key.partition("/")[2]: pod for key, pod in self._pods.objects.items()}

    @property
    def groups(self) -> dict[str, Json]:
        """PodGroups by the name of their job, or of another owner."""
        owned = (group for group in self._groups.objects.values() if group["metadata"].get("ownerReferences"))
        return {item["metadata"]["ownerReferences"][0]["name"]: item for item in owned}

    def phase(self, job: str) -> str:
        """The phase of a job."""
        return str(self.jobs.get(job, {}).get("status", {}).get("state", {}).get("phase", ""))

    def message(self, job: str) -> str:
        """Why a job is in its phase."""
        return str(self.jobs.get(job, {}).get("status", {}).get("state", {}).get("message", ""))

    async def until(self, holds: Callable[[], bool], seconds: float = 120.0) -> None:
        """Wait for something to hold, looking at each change."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            states = {name: job.get("status", {}).get("state") for name, job in self.jobs.items()}
            raise AssertionError(f"did not come: jobs {states}, pods {sorted(self.pods)}") from None

    async def group(self, owner: str) -> Json:
        """The PodGroup of an owner, awaited: jobs, pods and PodGroups are watched apart, in no common order."""
        await self.until(lambda: owner in self.groups)
        return self.groups[owner]

    async def all_of(self, kind: Kind[Json], holds: Callable[[list[Json]], bool], seconds: float = 120.0) -> None:
        """Wait for a condition on all objects of a kind in the namespace."""
        reflector, changed = Reflector(self.client, kind, self.namespace), asyncio.Event()
        following = asyncio.create_task(reflector.run(lambda _: changed.set()))
        try:
            async with asyncio.timeout(seconds):
                await reflector.synced.wait()  # a list without objects changes nothing
                while not holds(list(reflector.objects.values())):
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            raise AssertionError(f"not after {seconds:g} s: {reflector.objects}") from None
        finally:
            following.cancel()

    async def submit(self, name: str, *tasks: Json, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """Make a job."""
        manifest = {
            "apiVersion": JOBS.api_version,
            "kind": "BatchJob",
            "metadata": {"name": name, "namespace": self.namespace, "annotations": annotations or {}},
            "spec": {"tasks": list(tasks or (task(),)), **spec},
        }
        await self.client.create(JOBS, self.namespace, manifest)

    async def set_pod(self, name: str, phase: str, exit_code: int = 0) -> None:
        """A pod comes to a phase."""
        terminated = {"terminated": {"exitCode": exit_code, "startedAt": None, "finishedAt": None}}
        state = terminated if phase in {"Succeeded", "Failed"} else {}
        container = {"name": "main", "ready": phase == "Running", "restartCount": 0, "image": "x", "imageID": ""}
        status = {"phase": phase, "containerStatuses": [{**container, "state": state}]}
        await self.client.patch_status(PODS.raw, self.namespace, name, {"status": status})

    async def _play(self) -> None:
        """Admit every gang; run every pod, then end it, while ``plays``."""
        while True:
            version = self._version
            for kind, name, phase in self._moves():
                try:
                    if kind == "group":
                        await self.client.patch_status(
                            POD_GROUPS.raw, self.namespace, name, {"status": {"phase": phase}}
                        )
                    else:
                        await self.set_pod(name, phase)
                except (NotFound, Conflict):
                    continue
            if version == self._version:
                self._changed.clear()
                await self._changed.wait()

    def _moves(self) -> list[tuple[str, str, str]]:
        moves = [
            ("group", group["metadata"]["name"], "Inqueue") for group in self.groups.values() if not _is_admitted(group)
        ]
        onward = {"Pending": "Running"} | ({"Running": self.ends} if self.ends else {})
        admitted = {group["metadata"]["name"] for group in self._groups.objects.values() if _is_admitted(group)}
        for name, pod in self.pods.items():
            phase, group = pod["status"]["phase"], (pod["metadata"].get("annotations") or {}).get(GROUP_NAME, "")
            may_move = phase == "Running" or not group or group in admitted  # as the scheduler binds them
            if phase in onward and "deletionTimestamp" not in pod["metadata"] and may_move:
                moves.append(("pod", name, onward[phase]))
        return moves if self.plays else []


def _is_admitted(group: Json) -> bool:
    return group.get("status", {}).get("phase", "") not in {"", "Pending"}


async def install_kinds(client: Client) -> None:
    """Install our kinds. The real control plane has them: it takes a second to reject them all again."""
    for definition in crds():
        await client.create(CRDS, None, definition)
    await wait_for_kinds(client, (JOBS, POD_GROUPS))


@asynccontextmanager
async def embedded_cluster(namespace: str, folder: Path) -> AsyncIterator[Cluster]:
    """A namespace on an embedded server of its own, whose administrator's kubeconfig goes to the folder."""
    server = await ApiServer.start(tls=self_signed())
    try:
        config = folder / "kubeconfig"
        config.write_text(server.kubeconfig())
        connection = load_connection(config)
        async with Client(connection) as client:
            await install_kinds(client)
        async with Cluster.open(connection, namespace) as opened:
            opened.embedded = True
            yield opened
    finally:
        await server.stop()


@asynccontextmanager
async def controller(cluster: Cluster, settings: JobControllerSettings | None = None) -> AsyncIterator[None]:
    """A controller that sees everything, stopped in good order."""
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(run(cluster.connection, settings, stop=stop, ready=ready))
    try:
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield
    finally:
        stop.set()
        await running
