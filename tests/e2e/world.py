"""A running cluster with a namespace for a test, and manifests."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from volcanopy.cli.manifests import read
from volcanopy.client.manifests import Creator
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy_local.cluster import Components
from volcanopy_local.simulated.kubelet import Kubelet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

JOBS: Kind[Json] = Kind("batch.volcanopy.io", "v1alpha1", "BatchJob", "batchjobs", True, dict)
POD_GROUPS: Kind[Json] = Kind("scheduling.volcanopy.io", "v1beta1", "PodGroup", "podgroups", True, dict)
FLOWS: Kind[Json] = Kind("flow.volcanopy.io", "v1alpha1", "JobFlow", "jobflows", True, dict)
CRON_JOBS: Kind[Json] = Kind("batch.volcanopy.io", "v1alpha1", "CronBatchJob", "cronbatchjobs", True, dict)
QUEUES: Kind[Json] = Kind("scheduling.volcanopy.io", "v1beta1", "Queue", "queues", False, dict)
PODS: Kind[Json] = Kind("", "v1", "Pod", "pods", True, dict)
EVENTS: Kind[Json] = Kind("", "v1", "Event", "events", True, dict)

DURATION = "sim.volcanopy.io/duration"


@dataclass
class World:
    """A running cluster. ``kubeconfig`` is its administrator's, with ``namespace`` as the default."""

    components: Components
    namespace: str
    kubeconfig: Path
    made: list[tuple[Kind[Json], str]] = field(default_factory=list)
    """What a test has made outside of its namespace."""

    @property
    def client(self) -> Client:
        return self.components.client

    @property
    def kubelet(self) -> Kubelet:
        return self.components.kubelet

    async def create(self, *bodies: Json) -> None:
        """Create objects, in the test's namespace where they name none."""
        creator = Creator(self.client, self.namespace)
        for body in bodies:
            kind = await creator.kind(body)
            if not kind.namespaced:
                self.made.append((kind, body["metadata"]["name"]))
        await creator.create(bodies)

    async def all_of(
        self, kind: Kind[Json], holds: Callable[[list[Json]], bool], seconds: float = 120.0, fields: str = ""
    ) -> list[Json]:
        """Wait until a predicate is true for all objects of a kind, and return them."""
        reflector = Reflector(self.client, kind, self.namespace if kind.namespaced else None, field_selector=fields)
        changed = asyncio.Event()
        following = asyncio.create_task(reflector.run(lambda _: changed.set()))
        try:
            async with asyncio.timeout(seconds):
                await reflector.synced.wait()
                while not holds(values := list(reflector.objects.values())):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            stood = "\n".join(f"{key}: {obj.get('status')}" for key, obj in reflector.objects.items())
            raise AssertionError(f"not after {seconds:g} s:\n{stood}") from None
        finally:
            following.cancel()
        return values

    async def job(self, name: str, *phases: str, seconds: float = 120.0) -> Json:
        """Wait until a job is in one of these phases; gives it."""
        result = await self.all_of(
            JOBS, lambda jobs: any(phase_of(job) in phases for job in jobs), seconds, f"metadata.name={name}"
        )
        return result[0]


def phase_of(job: Json) -> str:
    """The phase of a job, or of a flow."""
    return str(((job.get("status") or {}).get("state") or {}).get("phase", ""))


def condition(manifest: Json, kind: str) -> Json:
    """A condition of an object, empty if it has none of that type."""
    conditions: list[Json] = (manifest.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), {})


def batch_job(name: str, replicas: int, cpu: str, **more: Any) -> Json:
    """A job of equal pods; ``duration``, ``exit_code``, ``start_delay`` are what its pods are told, the rest its spec."""
    said = {key: more.pop(key) for key in ("duration", "exit_code", "start_delay") if key in more}
    notes = {f"sim.volcanopy.io/{key.replace('_', '-')}": text for key, text in said.items()}
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    policy = more.pop("restartPolicy", "Never")
    template = {"metadata": {"annotations": notes}, "spec": {"restartPolicy": policy, "containers": [container]}}
    task = {"name": "task", "replicas": replicas, "template": template, **more.pop("task", {})}
    return {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": name},
        "spec": {"tasks": [task], **more},
    }


def example(name: str) -> list[Json]:
    """The manifests of an example; its pods run a tenth of the time that they ask for."""
    bodies = [item.body for item in read([str(EXAMPLES / name)])]
    for template in templates(bodies):
        notes = template["metadata"]["annotations"]
        if notes[DURATION] != "forever":
            notes[DURATION] = f"{float(notes[DURATION].removesuffix('s')) / 10}s"
    return bodies


def templates(bodies: Iterable[Json]) -> list[Json]:
    """The pod templates of jobs, and of what makes jobs."""
    specs = [body["spec"] for body in bodies if body["kind"] in {"BatchJob", "JobTemplate"}]
    specs += [body["spec"]["jobTemplate"]["spec"] for body in bodies if body["kind"] == "CronBatchJob"]
    return [task["template"] for spec in specs for task in spec["tasks"]]
