"""No way around the queues: what a namespace editor tries on a real API server is refused, or counted in full.

The embedded API server knows one administrator and no roles: there, every process of the machine may do everything.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.conftest import COUNT, clear_workloads
from tests.e2e.world import FLOWS, JOBS, POD_GROUPS, PODS, QUEUES, World, batch_job
from tests.security.power_attempts import (
    CARDS,
    ENTRANCES,
    EXAMPLE_OF_CARDS,
    PROTECTIONS,
    RESERVED,
    name_of_group,
    protected_groups,
)
from tests.security.tenants import Json, Tenant, grant, install_roles
from volcanopy.admission.context import AdmissionPolicy
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.services.admission.admission_service import AdmissionSettings
from volcanopy_local.cluster import Components, Parts
from volcanopy_local.simulated import nodes

pytestmark = pytest.mark.real

QUEUE, GROUP = "scheduling.volcanopy.io/queue-name", "scheduling.k8s.io/group-name"
SUBMITTER, GROUPS = "volcanopy.io/submitted-by", "volcanopy.io/submitter-groups"
JOB = "batch.volcanopy.io/v1alpha1"


@dataclass
class Scene:
    """A namespace that eve and bob may edit, and where guests may create Commands only.

    Queue ``fast`` is bob's, ``open`` has 8 cpu for all, ``wide`` no limit.
    """

    world: World
    eve: Tenant
    bob: Tenant
    guest: Tenant

    @property
    def replica_sets(self) -> Tenant:
        """The controller that creates the pods of a Deployment of eve, as she has written them."""
        return replace(self.eve, name="system:serviceaccount:kube-system:replicaset-controller")

    @property
    def fast(self) -> str:
        """The queue of bob."""
        return f"fast-{self.world.namespace}"

    @property
    def open(self) -> str:
        """The queue with a capability and an administrator."""
        return f"open-{self.world.namespace}"

    @property
    def full(self) -> str:
        """The queue in which no job may wait, and one may run."""
        return f"full-{self.world.namespace}"

    @property
    def held(self) -> str:
        """The queue that admits nothing."""
        return f"held-{self.world.namespace}"

    @property
    def wide(self) -> str:
        """The queue without limits."""
        return f"wide-{self.world.namespace}"

    def pod(self, name: str, queue: str = "", cpu: str = "1", /, **more: Json | str) -> Json:
        """A pod that runs for ever; ``annotations`` and ``labels`` of its metadata, the rest of its spec."""
        notes: Json = {"sim.volcanopy.io/duration": "forever", **({QUEUE: queue} if queue else {})}
        meta: Json = {"name": name, "annotations": notes | dict(more.pop("annotations", {}))}  # type: ignore[arg-type]
        meta |= {key: more.pop(key) for key in ("labels", "ownerReferences") if key in more}
        resize = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
        requests = {"requests": {"cpu": cpu}}
        container = {"name": "main", "image": "busybox", "resizePolicy": resize, "resources": requests}
        spec = {"schedulerName": "volcanopy", "containers": [container], **more}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def group(self, name: str, queue: str, **more: Json) -> Json:
        """A PodGroup of one pod; ``metadata`` and the rest of its spec."""
        meta = {"name": name, **more.pop("metadata", {})}
        api = "scheduling.volcanopy.io/v1beta1"
        return {
            "apiVersion": api,
            "kind": "PodGroup",
            "metadata": meta,
            "spec": {"minMember": 1, "queue": queue, **more},
        }

    def job(self, name: str, queue: str, **more: Json | str) -> Json:
        """A job of one pod that runs for ever."""
        return batch_job(name, 1, "1", duration="forever", queue=queue, **more)

    def template(self, name: str, queue: str) -> Json:
        """A template of such jobs."""
        api = "flow.volcanopy.io/v1alpha1"
        return {
            "apiVersion": api,
            "kind": "JobTemplate",
            "metadata": {"name": name},
            "spec": self.job("x", queue)["spec"],
        }

    def flow(self, name: str, template: str, **patch: str) -> Json:
        """A flow with one job of a template."""
        step: Json = {"name": template, **({"patch": {"jobSpec": patch}} if patch else {})}
        api = "flow.volcanopy.io/v1alpha1"
        return {"apiVersion": api, "kind": "JobFlow", "metadata": {"name": name}, "spec": {"flows": [step]}}

    def cron(self, name: str, queue: str) -> Json:
        """A cron job that is due every second."""
        spec = {"schedule": "@every 1s", "jobTemplate": {"spec": self.job("x", queue)["spec"]}}
        return {"apiVersion": JOB, "kind": "CronBatchJob", "metadata": {"name": name}, "spec": spec}

    def command(self, name: str, action: str, kind: str, target: str) -> Json:
        """A Command for a job or a queue."""
        version = JOB if kind == "BatchJob" else "scheduling.volcanopy.io/v1beta1"
        uid = self.world_uid(kind, target)
        goal = {"apiVersion": version, "kind": kind, "name": target, "uid": uid}
        meta, api = {"name": name}, "bus.volcanopy.io/v1alpha1"
        return {"apiVersion": api, "kind": "Command", "metadata": meta, "action": action, "target": goal}

    def world_uid(self, kind: str, name: str) -> str:
        """The uid of an object, as the administrator reads it."""
        return str(self.eve.plane.request("GET", self.eve.path(kind, name))["metadata"]["uid"])

    def job_owner(self, name: str) -> Json:
        """Metadata that makes an object part of a job."""
        uid = self.world_uid("BatchJob", name)
        return {
            "ownerReferences": [{"apiVersion": JOB, "kind": "BatchJob", "name": name, "uid": uid, "controller": True}]
        }

    def group_of_job(self, name: str) -> str:
        """The PodGroup of a job."""
        return f"{name}-{self.world_uid('BatchJob', name)}"


@pytest.fixture
async def scene(real_control_plane: ControlPlane) -> AsyncIterator[Scene]:
    """All services at work, with the user of the plane as their account."""
    plane, namespace = real_control_plane, f"team-{uuid.uuid4().hex[:8]}"
    admission = AdmissionSettings(policy=AdmissionPolicy.read({"controllers": ["admin"]}))
    async with Components(load_connection(plane.kubeconfig), Parts(admission=admission)) as components:
        await clear_workloads(components.client)
        creator = Creator(components.client)
        await creator.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
        await creator.create(nodes.manifests(COUNT))
        await asyncio.to_thread(install_roles, plane, namespace, "eve", "bob")
        # Kubernetes grants these to nobody by default; some clusters grant them to developers.
        await asyncio.to_thread(grant, plane, namespace, "eve", "pods/resize", "pods/ephemeralcontainers")
        bus = "bus.volcanopy.io"
        await asyncio.to_thread(grant, plane, namespace, "guest", "commands", group=bus, verb="create")
        world = World(components, namespace, plane.kubeconfig)
        result = Scene(world, *(Tenant(plane, user, namespace) for user in ("eve", "bob", "guest")))
        specs: dict[str, Json] = {
            result.fast: {"submitters": {"users": ["bob"]}},
            result.open: {"capability": {"cpu": "8"}, "administrators": {"users": ["head"]}},
            result.full: {"maxQueuedJobs": 0, "maxRunningJobs": 1},
            result.held: {"stopPolicy": "Hold"},
            result.wide: {},
        }
        for name, spec in specs.items():
            await world.create(
                {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
            )
        try:
            yield result
        finally:
            await clear_workloads(components.client)
    async with Client(load_connection(plane.kubeconfig)) as client:  # webhooks keep queues in which something runs
        for name in specs:
            await client.delete(QUEUES, None, name)


Try = Callable[[Scene], str]
QUEUE_OBJECT: Json = {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "Queue"}
CLASS_OBJECT: Json = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
NOT_IN_FAST = 'user "eve" may not submit to queue "fast-'
OTHERS = 'only its submitter "bob" may change it'
OF_CONTROLLERS = "immutable: the controllers write the PodGroup of a BatchJob"
FORBIDDEN = 'cannot {} resource "{}" in API group "{}"'

REFUSED: dict[str, tuple[Try, str]] = {
    # Straight into the queue of somebody else.
    "a pod in a queue of others": (lambda s: s.eve.create(s.pod("p", s.fast)), NOT_IN_FAST),
    "a PodGroup in a queue of others": (lambda s: s.eve.create(s.group("g", s.fast)), NOT_IN_FAST),
    "a job in a queue of others": (lambda s: s.eve.create(s.job("j", s.fast)), NOT_IN_FAST),
    "a cron job for a queue of others": (lambda s: s.eve.create(s.cron("c", s.fast)), NOT_IN_FAST),
    "a flow that patches the queue of a template": (
        lambda s: s.eve.create(s.flow("f", "bobs", queue=s.fast)),
        NOT_IN_FAST,
    ),
    "a flow with an existing template for a queue of others": (
        lambda s: s.eve.create(s.flow("f", "bobs-template")),
        NOT_IN_FAST,
    ),
    "a pod in a PodGroup of another user": (
        lambda s: s.eve.create(s.pod("p", annotations={GROUP: "bobs-group"})),
        'PodGroup "bobs-group" belongs to user "bob"',
    ),
    "a pod in the PodGroup of a job": (
        lambda s: s.eve.create(s.pod("p", annotations={GROUP: s.group_of_job("bobs")})),
        "belongs to a workload",
    ),
    "a pod in a PodGroup that is created later": (
        lambda s: s.eve.create(s.pod("p", annotations={GROUP: "bobs-later-group"})),
        'Not found: PodGroup "bobs-later-group"',
    ),
    "a pod in a PodGroup of one's own, with a queue of others": (
        lambda s: s.eve.create(s.pod("p", s.fast, annotations={GROUP: "mine-group"})),
        NOT_IN_FAST,
    ),
    # As part of the job of somebody else.
    "a pod with the owner reference of a job": (
        lambda s: s.eve.create(s.pod("p", s.open, **s.job_owner("bobs"))),
        "only the controllers create a Pod of a BatchJob",
    ),
    "a pod with the label of a job": (
        lambda s: s.eve.create(s.pod("p", s.open, labels={"volcanopy.io/job-name": "bobs"})),
        "label is set by the controllers",
    ),
    "a PodGroup with the owner reference of a job": (
        lambda s: s.eve.create(s.group("g", s.open, metadata=s.job_owner("mine"))),
        "only the controllers create a PodGroup of a BatchJob",
    ),
    "the PodGroup of a Deployment": (
        lambda s: s.eve.create(s.group("podgroup-2", s.open, metadata=_of_replica_set("2"))),
        "only the controllers create the PodGroup of a ReplicaSet",
    ),
    "a PodGroup of one's own as that of a Deployment": (
        lambda s: s.eve.patch("PodGroup", "podgroup-1", {"metadata": _of_replica_set("1")}),
        "only the controllers create the PodGroup of a ReplicaSet",
    ),
    "a PodGroup with the name of that of a Deployment": (
        lambda s: s.eve.create(s.group("podgroup-3d3f1f43-6a8e-4d4f-9d2b-5c9f7f1f0a11", s.open)),
        "only the controllers create a PodGroup whose name ends with a uid",
    ),
    # Past the scheduler.
    "a pod with `nodeName`": (
        lambda s: s.eve.create(s.pod("p", s.open, nodeName="node-1")),
        "pods are bound by the scheduler",
    ),
    "a job whose pods have `nodeName`": (
        lambda s: s.eve.create(_with_pod_spec(s.job("j", s.open), nodeName="node-1")),
        "pods are bound by the scheduler",
    ),
    "a Deployment whose pods have `nodeName`": (
        lambda s: s.replica_sets.create(s.pod("p", s.open, nodeName="node-1")),
        "pods are bound by the scheduler",
    ),
    "a Deployment whose pods have assigned GPUs": (
        lambda s: s.replica_sets.create(s.pod("p", s.open, annotations={CARDS: EXAMPLE_OF_CARDS})),
        "the scheduler assigns devices",
    ),
    "a Binding of a pod to a node": (
        lambda s: _bind(s, "waiting"),
        'cannot create resource "pods/binding"',
    ),
    "another scheduler for an existing pod": (
        lambda s: s.eve.patch("Pod", "waiting", {"spec": {"schedulerName": "default-scheduler"}}),
        "pod updates may not change fields other than",
    ),
    # Changes after the creation.
    "another queue of a pod": (lambda s: s.eve.patch("Pod", "small", _notes({QUEUE: s.fast})), "immutable: the queue"),
    "no queue of a pod": (lambda s: s.eve.patch("Pod", "small", _notes({QUEUE: None})), "immutable: the queue"),
    "another PodGroup of a pod": (
        lambda s: s.eve.patch("Pod", "small", _notes({GROUP: "bobs-group"})),
        "immutable: the queue",
    ),
    "another queue of a pod of a job": (
        lambda s: s.eve.patch("Pod", "mine-task-0", {"metadata": {"labels": {"volcanopy.io/queue-name": s.fast}}}),
        "label is set by the controllers",
    ),
    "another queue of a job": (lambda s: s.eve.patch("BatchJob", "mine", {"spec": {"queue": s.fast}}), "immutable"),
    "another queue of a PodGroup": (
        lambda s: s.eve.patch("PodGroup", "mine-group", {"spec": {"queue": s.fast}}),
        NOT_IN_FAST,
    ),
    "another queue of a job's PodGroup": (
        lambda s: s.eve.patch("PodGroup", s.group_of_job("mine"), {"spec": {"queue": s.wide}}),
        "that of the job",
    ),
    "smaller `minResources` of a job's PodGroup": (
        lambda s: s.eve.patch("PodGroup", s.group_of_job("mine"), {"spec": {"minResources": {"cpu": "1m"}}}),
        OF_CONTROLLERS,
    ),
    "another priority of a job's PodGroup": (
        lambda s: s.eve.patch(
            "PodGroup", s.group_of_job("mine"), {"spec": {"priorityClassName": "system-node-critical"}}
        ),
        OF_CONTROLLERS,
    ),
    "other annotations of a job's PodGroup": (
        lambda s: s.eve.patch("PodGroup", s.group_of_job("mine"), _notes({"volcanopy.io/sla-waiting-time": "1s"})),
        OF_CONTROLLERS,
    ),
    "no owner of a job's PodGroup": (
        lambda s: s.eve.patch("PodGroup", s.group_of_job("mine"), {"metadata": {"ownerReferences": None}}),
        OF_CONTROLLERS,
    ),
    "a job as the owner of a PodGroup": (
        lambda s: s.eve.patch("PodGroup", "mine-group", {"metadata": s.job_owner("bobs")}),
        "only the controllers create a PodGroup of a BatchJob",
    ),
    "another queue of the PodGroup of another user": (
        lambda s: s.eve.patch("PodGroup", "bobs-group", {"spec": {"queue": s.open}}),
        OTHERS,
    ),
    "other contents of the cron job of another user": (
        lambda s: s.eve.patch(
            "CronBatchJob", "bobs-cron", {"spec": {"jobTemplate": s.cron("c", s.open)["spec"]["jobTemplate"]}}
        ),
        OTHERS,
    ),
    "other contents of the template of another user": (
        lambda s: s.eve.patch("JobTemplate", "bobs-template", {"spec": {"minAvailable": 0}}),
        OTHERS,
    ),
    "another submitter of a pod": (
        lambda s: s.eve.patch("Pod", "small", _notes({SUBMITTER: "bob"})),
        "annotation is immutable: keep 'eve'",
    ),
    "another submitter of a PodGroup": (
        lambda s: s.eve.patch("PodGroup", "mine-group", _notes({SUBMITTER: "bob"})),
        "annotation is immutable: keep 'eve'",
    ),
    "another submitter of a job": (
        lambda s: s.eve.patch("BatchJob", "mine", _notes({GROUPS: '["physicists"]'})),
        "annotation is immutable: keep",
    ),
    "another author of a template": (
        lambda s: s.eve.patch("JobTemplate", "eves-template", _notes({SUBMITTER: "bob"})),
        "annotation is immutable: keep 'eve'",
    ),
    "more resources of a running pod, in a queue with limits": (
        lambda s: _resize(s.eve, "small", "7"),
        "requests of a pod cannot be increased",
    ),
    "the run time of earlier jobs in a PodGroup (`volcanopy.io/learnt-estimate`)": (
        lambda s: s.eve.patch("PodGroup", "mine-group", _notes({"volcanopy.io/learnt-estimate": "1s"})),
        "annotation is set by the controllers",
    ),
    "deletion of the PodGroup of running pods": (
        lambda s: s.eve.delete("PodGroup", "mine-group"),
        "pods of the PodGroup are running",
    ),
    "deletion of the PodGroup of a running job": (
        lambda s: s.eve.delete("PodGroup", s.group_of_job("mine")),
        "pods of the PodGroup are running",
    ),
    **ENTRANCES,
    **PROTECTIONS,
    # What the roles do not grant.
    "the status of a pod": (
        lambda s: s.eve.patch("Pod", "small", {"status": {"phase": "Succeeded"}}, "status"),
        "pods/status",
    ),
    "the status of a PodGroup": (
        lambda s: s.eve.patch("PodGroup", "mine-group", {"status": {"phase": "Running"}}, "status"),
        "podgroups/status",
    ),
    "the status of a job": (
        lambda s: s.eve.patch("BatchJob", "mine", {"status": {"running": 0}}, "status"),
        "batchjobs/status",
    ),
    "the status of a queue": (
        lambda s: s.eve.patch("Queue", s.open, {"status": {"state": "Closed"}}, "status"),
        "queues/status",
    ),
    "another capability of a queue": (
        lambda s: s.eve.patch("Queue", s.open, {"spec": {"capability": {"cpu": "99"}}}),
        "cannot patch resource",
    ),
    "the scale of a job": (
        lambda s: s.eve.patch("BatchJob", "mine", {"spec": {"replicas": 2}}, "scale"),
        "batchjobs/scale",
    ),
    "a queue whose resources are not reclaimed": (
        lambda s: s.eve.patch("Queue", s.open, {"spec": {"reclaimable": False}}),
        "cannot patch resource",
    ),
    "a queue of one's own": (
        lambda s: s.eve.create({**QUEUE_OBJECT, "metadata": {"name": "own"}}),
        "cannot create resource",
    ),
    "a PriorityClass of one's own": (
        lambda s: s.eve.create({**CLASS_OBJECT, "metadata": {"name": "own"}, "value": 1_000_000}),
        "cannot create resource",
    ),
    "a Command for a job of another user": (
        lambda s: s.guest.create(s.command("abort", "AbortJob", "BatchJob", "bobs")),
        "may not update BatchJob",
    ),
    "a Command that closes a queue": (
        lambda s: s.eve.create(s.command("stop", "CloseQueue", "Queue", s.fast)),
        "may not update Queue",
    ),
    "a Command that closes an administered queue": (
        lambda s: s.eve.create(s.command("stop", "CloseQueue", "Queue", s.open)),
        'administrators are user "head"',
    ),
}
"""What is tried, and a part of the answer."""

COUNTED: dict[str, str] = {
    "a pod in a permitted queue, without a PodGroup": "counted in full",
    "a PodGroup with `minResources` below what its pods request": "the requests of the pods are counted",
    "a job with a system priority": "permitted, as in Kubernetes; counted in full",
    "a job submitted with the annotations of another user": "counted for the authenticated user, rejected in queues of others",
    "an ephemeral container": "permitted; it cannot request resources",
    "more resources of a running pod, in a queue without limits": "counted in full",
    "a flow with a template for a queue of others, created after it": "its job is rejected",
    "the flow of a permitted user with a template of another author, created after it": "its job is rejected",
    "a flow that runs the template of a permitted user, created after it": "its job is rejected",
    "a Deployment with annotations of another queue and user": "counted in the queue of its pods, for its service account",
    "the deletion of PodGroups by an administrator": "the pods stay counted; the PodGroup of a job is created again",
}
"""What is permitted, and what becomes of it."""


def _notes(notes: dict[str, str | None]) -> Json:
    return {"metadata": {"annotations": notes}}


def _of_replica_set(uid: str) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": True}
    return {"ownerReferences": [owner]}


def _with_pod_spec(job: Json, **more: str) -> Json:
    job["spec"]["tasks"][0]["template"]["spec"] |= more
    return job


def resizable(scene: Scene, *pods: str) -> None:
    """Report the resources of the containers, as kubelets do that can resize them."""
    for name in pods:
        path = scene.eve.path("Pod", name)
        statuses = scene.eve.plane.request("GET", path)["status"]["containerStatuses"]
        for status in statuses:
            status["resources"] = {"requests": {"cpu": "1"}}
        patch = {"status": {"containerStatuses": statuses}}
        scene.eve.plane.request("PATCH", f"{path}/status", patch, "application/merge-patch+json")


def _without_cron(groups: list[Json]) -> list[Json]:
    """The PodGroups but for those of jobs that the cron job may have created before it was suspended."""
    return [group for group in groups if not group["metadata"]["name"].startswith("bobs-cron")]


def _is_running(group: Json) -> bool:
    return (group.get("status") or {}).get("phase") == "Running"


def _bind(scene: Scene, pod: str) -> str:
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    code, answer = scene.eve.request("POST", scene.eve.path("Pod", pod, "binding"), body)
    return f"{code} {answer.get('message')}"


def _resize(tenant: Tenant, pod: str, cpu: str) -> str:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    path, content = tenant.path("Pod", pod, "resize"), "application/strategic-merge-patch+json"
    code, body = tenant.request("PATCH", path, {"spec": {"containers": containers}}, content)
    return "" if code < 300 else f"{code} {body.get('message')}"


async def allocated(scene: Scene, queue: str, cpu: str) -> None:
    """Wait until the queue counts this amount."""

    def counts(queues: list[Json]) -> bool:
        return any(
            (each.get("status") or {}).get("allocated", {}).get("cpu") == cpu
            for each in queues
            if each["metadata"]["name"] == queue
        )

    await scene.world.all_of(QUEUES, counts)


async def running(scene: Scene, *names: str) -> None:
    """Wait until pods run, named by the beginning of their names."""

    def run(pods: list[Json]) -> bool:
        living = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]
        return all(any(pod.startswith(name) for pod in living) for name in names)

    await scene.world.all_of(PODS, run)


async def done(*attempts: Callable[[], str]) -> None:
    """Send requests one after another, which the services of this process answer meanwhile; all must be accepted."""
    answers = [await asyncio.to_thread(attempt) for attempt in attempts]
    assert answers == [""] * len(answers)


async def test_what_a_tenant_tries_is_refused(scene: Scene) -> None:
    eve, bob = scene.eve, scene.bob
    await done(
        lambda: bob.create(scene.job("bobs", scene.fast)),
        lambda: bob.create(scene.group("bobs-group", scene.fast)),
        lambda: bob.create(scene.template("bobs-template", scene.fast)),
        lambda: bob.create(scene.cron("bobs-cron", scene.fast)),
        lambda: eve.patch("CronBatchJob", "bobs-cron", {"spec": {"suspend": True}}),
        lambda: eve.create(scene.job("mine", scene.open)),
        lambda: eve.create(scene.group("mine-group", scene.open)),
        lambda: eve.create(scene.group("podgroup-1", scene.open)),
        lambda: eve.create(scene.pod("member", annotations={GROUP: "mine-group"})),
        lambda: eve.create(scene.pod("small", scene.open)),
        lambda: eve.create(scene.template("eves-template", scene.fast)),
        *protected_groups(scene),
    )
    await running(scene, "bobs", "mine", "member", "small", *map(name_of_group, RESERVED))
    await done(
        lambda: eve.create(scene.pod("waiting", scene.open, "7")),
        lambda: eve.create(scene.group("waiting-group", scene.held)),
    )
    await scene.world.all_of(
        POD_GROUPS, lambda groups: sum(map(_is_running, _without_cron(groups))) == 4 + len(RESERVED)
    )
    await asyncio.to_thread(resizable, scene, "small")
    answers = {what: await asyncio.to_thread(attempt, scene) for what, (attempt, _) in REFUSED.items()}
    wrong = {what: answer for what, answer in answers.items() if REFUSED[what][1] not in answer}
    assert not wrong, json.dumps(wrong, indent=2)


async def test_what_is_permitted_counts_in_full(scene: Scene) -> None:
    """In the queue where it runs, also if it is not the one that the user hoped for."""
    eve, bob, wide, fast = scene.eve, scene.bob, scene.wide, scene.fast
    shown: list[str] = []
    await done(
        lambda: eve.create(scene.pod("plain", wide)),
        lambda: eve.create(scene.group("little", wide, minResources={"cpu": "1m"})),
        lambda: eve.create(scene.pod("large", "", "2", annotations={GROUP: "little"})),
        lambda: eve.create(scene.job("important", wide, priorityClassName="system-node-critical")),
    )
    # Nobody submits as somebody else.
    forged: Json = {"name": "forged", "annotations": {SUBMITTER: "bob", GROUPS: '["system:masters"]'}}
    assert NOT_IN_FAST in await asyncio.to_thread(eve.create, scene.job("j", fast) | {"metadata": forged})
    held = scene.job("j", wide) | {"metadata": forged}
    held["spec"]["suspend"] = True
    await done(lambda: eve.create(held))
    await allocated(scene, wide, "4")
    shown += [
        "a pod in a permitted queue, without a PodGroup",
        "a PodGroup with `minResources` below what its pods request",
        "a job with a system priority",
        "a job submitted with the annotations of another user",
    ]

    # A container that is added later, and more resources: the sum of the new requests counts.
    debugger = {"name": "debug", "image": "busybox", "targetContainerName": "main"}
    await asyncio.to_thread(resizable, scene, "plain")
    added = {"spec": {"ephemeralContainers": [debugger]}}
    await done(
        lambda: eve.patch("Pod", "plain", added, "ephemeralcontainers"),
        lambda: _resize(eve, "plain", "3"),
    )
    await allocated(scene, wide, "6")
    shown += ["an ephemeral container", "more resources of a running pod, in a queue without limits"]

    # Jobs of flows and cron jobs run on behalf of the submitter, in queues that the author of the template may use as well. The
    # templates are created after the flows, which would be rejected with them.
    await done(
        lambda: eve.create(scene.flow("eves-flow", "eves-template")),
        lambda: bob.create(scene.flow("bobs-flow", "eves-template")),
        lambda: eve.create(scene.flow("borrowed", "bobs-template")),
        lambda: bob.create(scene.flow("own", "bobs-template")),
        lambda: eve.create(scene.template("eves-template", fast)),
        lambda: bob.create(scene.template("bobs-template", fast)),
    )
    await scene.world.job("own-bobs-template", "Running")
    refusals = {"eves-flow": "eve", "bobs-flow": "eve", "borrowed": "eve"}
    await scene.world.all_of(FLOWS, lambda flows: all(_refused(flows, name, user) for name, user in refusals.items()))
    jobs = (await scene.world.client.list(JOBS, scene.world.namespace)).items
    assert {job["metadata"]["name"]: job["metadata"]["annotations"][SUBMITTER] for job in jobs} == {
        "forged": "eve",
        "important": "eve",
        "own-bobs-template": "bob",
    }
    await allocated(scene, fast, "1")
    shown += [
        "a flow with a template for a queue of others, created after it",
        "the flow of a permitted user with a template of another author, created after it",
        "a flow that runs the template of a permitted user, created after it",
    ]

    # Pods of a workload run on behalf of their service account; annotations lead only to its queues.
    labels = {"app": "web"}
    template = scene.pod("web", wide, labels=labels)
    template["metadata"]["annotations"] |= {SUBMITTER: "bob"}
    workload = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "web", "annotations": {QUEUE: fast, SUBMITTER: "bob"}}
    await done(lambda: eve.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": workload}))
    await allocated(scene, wide, "7")
    await allocated(scene, fast, "1")
    shown += ["a Deployment with annotations of another queue and user"]

    # Nothing that was counted is lost with its PodGroup: the controller creates it again, the administrator removes it.
    group = scene.group_of_job
    uid = await asyncio.to_thread(group, "important")
    await scene.world.client.delete(POD_GROUPS, scene.world.namespace, uid)
    await scene.world.client.delete(POD_GROUPS, scene.world.namespace, "little")
    await scene.world.all_of(POD_GROUPS, lambda groups: any(each["metadata"]["name"] == uid for each in groups))
    await allocated(scene, wide, "7")
    shown += ["the deletion of PodGroups by an administrator"]
    assert shown == list(COUNTED)


def _refused(flows: list[Json], name: str, user: str) -> bool:
    return any(f'user "{user}" may not submit' in str(flow) for flow in flows if flow["metadata"]["name"] == name)
