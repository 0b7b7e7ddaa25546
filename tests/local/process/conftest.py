"""A cluster with process nodes, once for each step of isolation that works here."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from volcanopy.kube.cache.watch import ChangeType, Reflector
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import EVENTS, PODS
from volcanopy_local.cluster import LocalCluster, Parts
from volcanopy_local.process import machine
from volcanopy_local.process.container_spec import ContainerSpec
from volcanopy_local.process.file_view import ContainerView, FileView
from volcanopy_local.process.isolation import Command, PlainProcesses, Process
from volcanopy_local.process.kubelet import ProcessSettings
from volcanopy_local.process.runtime import MachineRuntime
from volcanopy_local.process.steps import choose
from volcanopy_local.process.users import UNPRIVILEGED, User, Users, current_user

NAMESPACE = "default"
RUNTIMES = ("bubblewrap", "namespaces", "plain")


def is_running(pod: dict[str, Any]) -> bool:
    statuses = pod["status"].get("containerStatuses", ())
    return bool(statuses) and all("running" in status["state"] for status in statuses)


class ProcessCluster:
    """A running cluster with one process node, and what a test asks of it."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.client = cluster.client

    @property
    def runtime(self) -> MachineRuntime:
        """What runs the containers."""
        kubelet = self.cluster.process_kubelet
        assert kubelet is not None
        return kubelet.runtime

    async def create(self, name: str, spec: Json, **metadata: Any) -> Json:
        """Create a pod bound to the node."""
        body = {
            "metadata": {"name": name, **metadata},
            "spec": {"nodeName": "local-1", "restartPolicy": "Never", **spec},
        }
        return await self.client.create(PODS, NAMESPACE, body)

    async def run(self, name: str, *command: str, **container: Any) -> Json:
        """Run a pod with one container to its end; its status."""
        await self.create(
            name, {"containers": [{"name": "main", "image": "none", "command": list(command), **container}]}
        )
        return await self.ended(name)

    async def ended(self, name: str) -> Json:
        """Wait until the phase of a pod is final; its status."""
        pod = await self.until(name, lambda pod: pod["status"].get("phase") in {"Succeeded", "Failed"})
        return dict(pod["status"])

    async def until(self, name: str, reached: Any, seconds: float = 120.0) -> Json:
        """Wait until a pod is as asked."""
        reflector = Reflector(self.client, PODS, NAMESPACE, field_selector=f"metadata.name={name}")
        async with asyncio.timeout(seconds):
            async for changes in reflector.batches():
                for change in changes:
                    if change.type is not ChangeType.DELETED and reached(change.object):
                        return dict(change.object)
        raise AssertionError("the watch has ended")

    async def deleted(self, name: str, grace: int) -> None:
        """Delete a pod and wait until it is gone."""
        reflector = Reflector(self.client, PODS, NAMESPACE, field_selector=f"metadata.name={name}")
        batches = reflector.batches()
        await anext(batches)
        await self.client.delete(PODS, NAMESPACE, name, grace=grace)
        async with asyncio.timeout(60):
            async for changes in batches:
                if any(change.type is ChangeType.DELETED for change in changes):
                    return

    async def log(self, name: str, container: str = "main", **query: str) -> str:
        """The log of a container."""
        text = "&".join(f"{key}={value}" for key, value in {"container": container, **query}.items())
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/log?{text}"
        return (await self.client.get_raw(path)).decode()

    async def events(self, name: str, count: int) -> list[Json]:
        """Wait for this number of Events of a pod."""
        reflector = Reflector(self.client, EVENTS, NAMESPACE, field_selector=f"involvedObject.name={name}")
        async with asyncio.timeout(60):
            async for _ in reflector.batches():
                if len(reflector.objects) >= count:
                    break
        return list(reflector.objects.values())

    async def add(self, kind: str, body: Json) -> None:
        """Create a ConfigMap or a Secret."""
        plural = f"{kind.lower()}s"
        await self.client.create(Kind("", "v1", kind, plural, True, dict), NAMESPACE, body)


def runtime_named(name: str, *hidden: Path) -> MachineRuntime:
    """The runtime with this isolation, if it can be used here; root's programs run as another user."""
    current = current_user()
    user = User(UNPRIVILEGED, UNPRIVILEGED) if current.uid == 0 else current
    choice = choose((name,), FileView(hidden=hidden), user)
    if choice.isolation is None:
        pytest.skip(choice.reasons.replace("not installed", "not installed (run `make packages`)"))
    return MachineRuntime(
        choice.isolation, users=Users(user, current, choice.isolation.has_mounts and current.uid != 0)
    )


def plain_command(folder: Path, *argv: str, groups: tuple[str, ...] = ()) -> Command:
    """A program of this user as a plain process."""
    user = current_user()
    spec = ContainerSpec("main", argv, (), dict(os.environ), str(folder), ())
    process = Process(spec, ContainerView({}, folder, folder / "hosts", "host"), user, groups)
    return PlainProcesses(user).command(process)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that all users can enter: pytest closes those of `tmp_path` to others, again whenever it starts."""
    with tempfile.TemporaryDirectory(prefix="volcanopy-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(params=RUNTIMES)
async def process_cluster(request: pytest.FixtureRequest, open_folder: Path) -> AsyncIterator[ProcessCluster]:
    """A cluster without services: one process node only."""
    settings = ProcessSettings(
        open_folder / "run",
        open_folder / "claims",
        runtime_named(request.param, open_folder / "run", open_folder / "claims"),
        back_off=0.05,
    )
    parts = Parts(scheduler=None, controller=None, admission=None, process=settings)
    async with LocalCluster(0, objects=machine.manifests(1, 4, 8 << 30), parts=parts) as cluster:
        yield ProcessCluster(cluster, open_folder)
