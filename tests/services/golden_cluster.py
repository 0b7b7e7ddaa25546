"""The cluster states of the golden cases of admission on an API server, with the running service and kubectl.

A state may be one that admission would reject (an exceeded sum, a queue with pods). So it is created by a user whose
requests skip the webhooks; all others are validated.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.services.service_cluster import NAMESPACES
from tests.services.test_admission_rules import BINDINGS, RBAC, ROLES, Acting
from volcanopy.api import names
from volcanopy.kube.cache.followed_kinds import QUEUES
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, Invalid, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import JOBS, PODS
from volcanopy.services.admission import admission_service
from volcanopy.services.admission.admission_service import AdmissionSettings
from volcanopy.services.admission.cluster_cache import ClusterCache
from volcanopy.services.admission.policy_file import PolicyFile
from volcanopy.services.admission.webhook_configuration import CONFIGURATION, MUTATING, VALIDATING

MAKER = "maker-of-worlds"
RAW_QUEUES = QUEUES.raw
POD_GROUPS: Kind[Json] = Kind("scheduling.volcanopy.io", "v1beta1", "PodGroup", "podgroups", True, dict)
HYPER_NODES: Kind[Json] = Kind("topology.volcanopy.io", "v1alpha1", "HyperNode", "hypernodes", False, dict)
NODES: Kind[Json] = Kind("", "v1", "Node", "nodes", False, dict)
PRIORITIES: Kind[Json] = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, dict)
KINDS = {item.kind: item for item in (RAW_QUEUES, POD_GROUPS, HYPER_NODES, JOBS)}
OLD_NAMES = ("root", "default")
WORLD = ("queues", "podGroups", "hyperNodes", "namespaces", "nodes", "priorityClasses", "policy", "pods")
"""The parts of a case that make its world."""


class NotifyingCache(ClusterCache):
    """What admission has cached, and a notification when it changes."""

    last: "NotifyingCache"

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        NotifyingCache.last = self
        self.more = asyncio.Event()
        self.copies: dict[str, Any] = {
            "Queue": self.queues[0],
            "PodGroup": self._groups[0],
            "Namespace": self._namespaces,
            "Node": self._nodes,
            "PriorityClass": self._classes,
            "HyperNode": self._hyper_nodes[0],
        }
        for reflector in self.copies.values():
            self._listen(reflector)

    def _listen(self, reflector: Any) -> None:
        run = reflector.run

        def told(sink: Callable[[Any], object]) -> Any:
            def both(changes: Any) -> None:
                sink(changes)
                self.more.set()

            return run(both)

        reflector.run = told

    async def until(self, versions: Mapping[tuple[str, str], str | None]) -> None:
        """Wait until each object is known in this version, or not at all (None). The keys are kind and key."""
        async with asyncio.timeout(60):
            while not all(self._has(*about, version) for about, version in versions.items()):
                await self.more.wait()
                self.more.clear()

    def _has(self, kind: str, key: str, version: str | None) -> bool:
        result = self.copies[kind].objects.get(key)
        return result is None if version is None else result is not None and _same(result, version)


def _same(value: Any, version: str) -> bool:
    return bool(value.metadata.resource_version == version)


class Policies(PolicyFile):
    """The policy of admission, reloaded on request of a test."""

    last: "Policies"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        Policies.last = self


@dataclass
class KubectlResult:
    """The result of kubectl: exit code, output, the lines of its errors and warnings."""

    status: int
    out: str
    told: list[str]


class Stage:
    """An API server with admission at work, on which worlds are made, one after the other."""

    def __init__(self, client: Client, kubeconfig: Path, kubectl: Path, folder: Path) -> None:
        self.client, self._folder = client, folder
        self._kubectl = [str(kubectl), f"--kubeconfig={kubeconfig}", f"--cache-dir={folder / 'cache'}"]
        self._made: list[tuple[Kind[Json], str | None, str]] = []
        self._noted: set[str] = set()
        self._expected: dict[tuple[str, str], str | None] = {}

    @property
    def config(self) -> Path:
        """The configuration file of admission."""
        return self._folder / "admission.yaml"

    async def make(self, world: Json) -> None:
        """Make a world; what was there before is gone."""
        await self.clear()
        self.config.write_text(yaml.safe_dump(world.get("policy", {})))
        Policies.last.reload()
        for name in world.get("priorityClasses", ["high"]):
            await self._create(PRIORITIES, None, {"metadata": {"name": name}, "value": 1000})
        for name, notes in world.get("namespaces", {}).items():
            self._noted.add(name)
            await self._annotate(name, notes)
        for said in [{"name": "root"}, {"name": "default"}, *world.get("queues", ())]:
            await self._queue(said)
        for number, amounts in enumerate(world.get("nodes", ())):
            status = {"allocatable": {key: str(value) for key, value in amounts.items()}}
            body = {"metadata": {"name": f"golden-{number}"}, "status": status | {"capacity": status["allocatable"]}}
            await self._create(NODES, None, body)
        for item in world.get("hyperNodes", ()):
            await self._create(HYPER_NODES, None, item)
        for item in world.get("podGroups", ()):
            await self._create(POD_GROUPS, item["metadata"]["namespace"], item)
        for item in world.get("pods", ()):
            await self._create(PODS, item["metadata"]["namespace"], item)
        if (old := existing_object(world)) is not None:
            await self._create(KINDS[old["kind"]], old["metadata"].get("namespace"), old)
        await NotifyingCache.last.until(self._expected)

    async def clear(self) -> None:
        """Take the world away."""
        self._expected = {}
        for kind, namespace, name in reversed(self._made):
            if kind is RAW_QUEUES and name in OLD_NAMES:
                await self.client.patch(kind, None, name, {"spec": None, "metadata": {"annotations": None}})
                continue
            with contextlib.suppress(NotFound):
                await self.client.delete(kind, namespace, name, grace=0 if kind in (NODES, PODS) else None)
            if kind.kind in NotifyingCache.last.copies:
                self._expected[kind.kind, f"{namespace}/{name}" if namespace else name] = None
        for name in self._noted:
            await self._annotate(name, dict.fromkeys(("scheduling.volcanopy.io/queue-name",)))
        self._made, self._noted = [], set()

    async def _create(self, kind: Kind[Json], namespace: str | None, body: Json) -> Json:
        name = body["metadata"]["name"]
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        try:
            made = await self.client.create(kind, namespace, whole)
        except AlreadyExists:
            result = await self.client.get(kind, namespace, name)
            whole["metadata"] = result["metadata"] | body["metadata"]
            made = await self.client.update(kind, namespace, name, whole)
        self._made.append((kind, namespace, name))
        if body.get("status") and kind is not NODES:
            made = await self.client.patch_status(kind, namespace, name, {"status": body["status"]})
        if kind.kind in NotifyingCache.last.copies:
            key = f"{namespace}/{name}" if namespace else name
            self._expected[kind.kind, key] = made["metadata"]["resourceVersion"]
        return made

    async def _queue(self, said: Json) -> None:
        spec = {key: value for key, value in said.items() if key not in {"name", "state", "allocated", "annotations"}}
        allocated = {key: str(value) for key, value in said.get("allocated", {}).items()}
        status = {"state": said.get("state", "Open"), "allocated": allocated}
        metadata = {"name": said["name"], "annotations": said.get("annotations", {})}
        body = {"metadata": metadata, "spec": spec, "status": status if status["state"] else {}}
        await self._create(RAW_QUEUES, None, body)

    async def _annotate(self, name: str, notes: Mapping[str, str | None]) -> None:
        with contextlib.suppress(AlreadyExists):
            await self.client.create(NAMESPACES, None, {"metadata": {"name": name}})
        made = await self.client.patch(NAMESPACES, None, name, {"metadata": {"annotations": notes}})
        self._expected["Namespace", name] = made["metadata"]["resourceVersion"]

    def write(self, name: str, body: Json) -> None:
        """Put an object into a file beside which kubectl is run: ``<name>.json``."""
        (self._folder / f"{name}.json").write_text(json.dumps(body))

    async def kubectl(self, *arguments: str, user: str = "", groups: Sequence[str] = ()) -> KubectlResult:
        """Run kubectl, as a given user."""
        acting = [f"--as={user}", *(f"--as-group={group}" for group in groups)] if user else []
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._kubectl, *arguments, *acting, stdout=pipe, stderr=pipe, cwd=self._folder
        )
        out, message = await process.communicate()
        assert process.returncode is not None
        return KubectlResult(process.returncode, out.decode(), message.decode().splitlines())


def existing_object(case: Json) -> Json | None:
    """The object that a case changes or deletes, if it does not stand among the queues of its world."""
    old: Json | None = case.get("old")
    if old is None or (old["kind"] == "Queue" and old["metadata"]["name"] not in OLD_NAMES):
        return None
    return old


@asynccontextmanager
async def stage(kubeconfig: Path, kubectl: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """Admission at work on the cluster of a kubeconfig, which has our kinds."""
    monkeypatch.setattr(admission_service, "ClusterCache", NotifyingCache)
    monkeypatch.setattr(admission_service, "PolicyFile", Policies)
    connection = load_connection(kubeconfig)
    maker = replace(connection, credentials=Acting(connection.credentials, MAKER, ["system:masters"]))
    async with Client(maker) as client, Client(connection) as admin:
        result = Stage(client, kubeconfig, kubectl, folder)
        result.config.write_text("{}")
        await _prepare(client)
        stop, ready = asyncio.Event(), asyncio.Event()
        settings = AdmissionSettings(config=result.config, period=3600)
        running = asyncio.create_task(admission_service.run(connection, settings, stop, ready))
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            await _leave_out(client)
            await _permit(client)
            await _in_force(client, admin)
            yield result
            await result.clear()
        finally:
            for kind in (BINDINGS, ROLES):
                with contextlib.suppress(NotFound):
                    await client.delete(kind, None, _ROLE)
            waiting.cancel()
            stop.set()
            await running


async def _prepare(client: Client) -> None:
    for name in ("team", "observatory"):
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, None, {"metadata": {"name": name}})
    for name in OLD_NAMES:
        with contextlib.suppress(AlreadyExists):
            await client.create(
                RAW_QUEUES,
                None,
                {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": {}},
            )
    await client.delete_collection(NODES, None)


async def _leave_out(client: Client) -> None:
    """Let the webhooks leave out what the maker does."""
    condition = {"name": "not-the-maker", "expression": f"request.userInfo.username != '{MAKER}'"}
    for kind in (MUTATING, VALIDATING):
        result = await client.get(kind, None, CONFIGURATION)
        for webhook in result["webhooks"]:
            webhook["matchConditions"] = [*(webhook.get("matchConditions") or ()), condition]
        await client.update(kind, None, CONFIGURATION, result)


async def _in_force(maker: Client, admin: Client) -> None:
    """Wait until the webhooks validate all users but the creator: a real server applies them with a delay."""
    broken = {"apiVersion": RAW_QUEUES.api_version, "kind": "Queue", "metadata": {"name": "probe"}}
    broken["spec"] = {"parent": "no-such-queue"}
    group = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "probe"}}
    async with asyncio.timeout(60):
        while True:
            judged = [await _refused(item, RAW_QUEUES.path() + _DRY, broken) for item in (admin, maker)]
            bodies = [await item.post_raw(POD_GROUPS.path("team") + _DRY, group) for item in (admin, maker)]
            if judged == [True, False] and [b"submitted-by" in body for body in bodies] == [True, False]:
                return
            await asyncio.sleep(0.05)


_DRY = "?dryRun=All"


async def _refused(client: Client, path: str, body: Json) -> bool:
    try:
        await client.post_raw(path, body)
    except Invalid:
        return True
    return False


_ROLE = "golden-cases"


async def _permit(client: Client) -> None:
    """Let everybody do everything with our kinds and with pods: only admission stands in the way."""
    groups = [names.BATCH, names.SCHEDULING, names.BUS, names.FLOW, names.TOPOLOGY, ""]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    reference = {"kind": "ClusterRole", "name": _ROLE, "apiGroup": RBAC}
    everybody = {"kind": "Group", "name": "system:authenticated", "apiGroup": RBAC}
    await client.create(ROLES, None, {"metadata": {"name": _ROLE}, "rules": rules})
    await client.create(BINDINGS, None, {"metadata": {"name": _ROLE}, "roleRef": reference, "subjects": [everybody]})
