"""Workloads that use every function of the services once, to record the permissions that they need.

Each function is one thing that people do, followed to where the services have done their part. They run side by side in
one namespace; only :func:`preemption` needs the cluster for itself.
"""

import asyncio
from typing import Any

import pytest

from tests.e2e.test_bare_pods import pod
from tests.e2e.test_volumes import claim, storage_class, volume, with_volume
from tests.e2e.world import CRON_JOBS, FLOWS, JOBS, POD_GROUPS, PODS, QUEUES, World, batch_job, condition, phase_of
from volcanopy.api import names
from volcanopy.client.manifests import CreateError
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import HYPER_NODES, NODES

CLAIMS: Kind[Json] = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, dict)
COMMANDS: Kind[Json] = Kind("bus.volcanopy.io", "v1alpha1", "Command", "commands", True, dict)
CONFIG_MAPS: Kind[Json] = Kind("", "v1", "ConfigMap", "configmaps", True, dict)
DAEMON_SETS: Kind[Json] = Kind("apps", "v1", "DaemonSet", "daemonsets", True, dict)
RACK = "example.com/rack"
BUSY = {"image": "busybox", "resources": {"requests": {"cpu": "100m"}}}
ALL_PLUGINS: dict[str, list[str]] = {"env": [], "svc": [], "ssh": []}


async def run_concurrently(world: World) -> None:
    """All but :func:`preemption`."""
    lives = (
        job_with_all_plugins,
        job_with_conflicting_names,
        job_is_scaled_and_terminated,
        flow_fails,
        flow_with_an_existing_job,
        cron_job_creates_jobs,
        queue_is_closed_and_opened,
        bare_and_workload_pods,
        volumes,
        devices,
        hypernode_is_validated,
        hypernodes_are_discovered,
        pod_waits_for_its_queue,
        job_for_a_missing_queue,
        pod_for_a_missing_group,
    )
    async with asyncio.TaskGroup() as tasks:
        for life in lives:
            tasks.create_task(life(world), name=life.__name__)


def command(name: str, action: str, kind: Kind[Json], target: Json) -> Json:
    """A Command for a job or a queue."""
    meta = target["metadata"]
    return {
        "apiVersion": COMMANDS.api_version,
        "kind": "Command",
        "metadata": {"name": name},
        "action": action,
        "target": {"apiVersion": kind.api_version, "kind": kind.kind, "name": meta["name"], "uid": meta["uid"]},
    }


async def job_with_all_plugins(world: World) -> None:
    """Plugins, a volume of its own, a time after which it goes: what was made for it is cleared away."""
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Mi"}}}
    # The claim never gets a volume, and its pods wait: what else there is has a job of its own.
    await world.create(batch_job("stored", 1, "100m", volumes=[{"mountPath": "/data", "volumeClaim": spec}]))
    await world.create(batch_job("whole", 2, "100m", duration="200ms", plugins=ALL_PLUGINS))
    await world.create(batch_job("brief", 1, "100m", duration="100ms", ttlSecondsAfterFinished=1))
    await world.all_of(CLAIMS, lambda claims: any(claim["metadata"]["name"].startswith("stored") for claim in claims))
    await world.job("whole", "Completed")
    await world.all_of(
        CONFIG_MAPS,
        lambda config_maps: not any(config_map["metadata"]["name"].startswith("whole") for config_map in config_maps),
    )
    await world.all_of(JOBS, lambda jobs: all(job["metadata"]["name"] != "brief" for job in jobs))


async def job_with_conflicting_names(world: World) -> None:
    """Its pod's name is taken: it says so, and goes on when the name is free."""
    taken = {"metadata": {"name": "late-task-0"}, "spec": {"containers": [{"name": "main", **BUSY}]}}
    await world.client.create(PODS, world.namespace, {"apiVersion": "v1", "kind": "Pod", **taken})
    await world.create(batch_job("late", 1, "100m", duration="100ms"))
    await world.all_of(JOBS, lambda jobs: "exists" in str([job for job in jobs if job["metadata"]["name"] == "late"]))
    await world.client.delete(PODS, world.namespace, "late-task-0", grace=0)
    await world.job("late", "Completed")


async def job_is_scaled_and_terminated(world: World) -> None:
    """Its gang changes with its size; it is suspended, goes on, and loses its pods."""
    await world.create(batch_job("grown", 1, "100m", duration="forever", minAvailable=1))
    job = await world.job("grown", "Running")
    await _resize(world, "grown", 2)
    await world.create(command("stop-grown", "AbortJob", JOBS, job))
    await world.job("grown", "Aborted")


async def flow_fails(world: World) -> None:
    """One of two jobs fails: the other is told to end, and the template knows both."""
    spec = batch_job("x", 1, "100m", duration="forever")["spec"]
    broken = batch_job("x", 1, "100m", duration="100ms", exit_code="1")["spec"]
    both = (("calm", spec), ("wild", broken))
    await world.create(*(_template(name, item) for name, item in both), _flow("river", *(name for name, _ in both)))
    await world.all_of(FLOWS, lambda flows: any(_named(flow, "river") and phase_of(flow) == "Failed" for flow in flows))
    await world.job("river-calm", "Terminated")


async def flow_with_an_existing_job(world: World) -> None:
    """The job that a flow is to make exists, and is somebody else's."""
    await world.create(batch_job("brook-calmer", 1, "100m", duration="100ms"))
    await world.create(
        _template("calmer", batch_job("x", 1, "100m", duration="100ms")["spec"]), _flow("brook", "calmer")
    )
    await world.all_of(FLOWS, lambda flows: any("exists" in str(flow) for flow in flows if _named(flow, "brook")))


async def cron_job_creates_jobs(world: World) -> None:
    """Makes jobs, and forgets the oldest."""
    template = {"spec": batch_job("x", 1, "50m", duration="100ms")["spec"]}
    spec = {"schedule": "@every 1s", "successfulJobsHistoryLimit": 1, "jobTemplate": template}
    await world.create(
        {"apiVersion": CRON_JOBS.api_version, "kind": "CronBatchJob", "metadata": {"name": "tick"}, "spec": spec}
    )
    made: set[str] = set()

    def seen(jobs: list[Json]) -> bool:
        living = {job["metadata"]["name"] for job in jobs if job["metadata"]["name"].startswith("tick-")}
        made.update(living)
        return len(made - living) > 0

    await world.all_of(JOBS, seen)


async def queue_is_closed_and_opened(world: World) -> None:
    """By Commands, with the queue below it; which is deleted although a PodGroup without pods names it."""
    parent, child = f"above-{world.namespace}", f"below-{world.namespace}"
    for name, above in ((parent, "root"), (child, parent)):
        await world.create(
            {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": {"parent": above}}
        )
    queue = await world.client.get(QUEUES, None, parent)
    await world.create(command("close-it", "CloseQueue", QUEUES, queue))
    await world.all_of(QUEUES, lambda queues: _states(queues, parent, child) == ["Closed", "Closed"])
    await world.create(command("open-it", "OpenQueue", QUEUES, queue))
    await world.all_of(QUEUES, lambda queues: _states(queues, parent, child) == ["Open", "Open"])
    about = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "left"}}
    await world.create({**about, "spec": {"minMember": 1, "queue": child}})
    await world.client.delete(QUEUES, None, child)


async def bare_and_workload_pods(world: World) -> None:
    """One alone; those of workloads, which say how many belong together; and a group that goes when its pods have ended."""
    await world.create(pod("alone", "100m", duration="100ms"))
    labels = {"app": "daemon"}
    daemon = {"metadata": {"labels": labels}, "spec": pod("x", "100m")["spec"] | {"restartPolicy": "Always"}}
    spec = {"selector": {"matchLabels": labels}, "template": daemon}
    metadata = {"name": "set", "annotations": {names.GROUP_MIN_MEMBER: "2"}}
    manifest = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}
    made = await world.client.create(DAEMON_SETS, world.namespace, manifest)  # no controller fills it here
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "set", "controller": True}
    reference |= {"uid": made["metadata"]["uid"]}
    await world.create(*(pod(f"of-set-{number}", "100m", reference) for number in range(2)))
    template = {"metadata": {"labels": {"app": "y"}}, "spec": pod("y", "100m")["spec"] | {"restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "plain"}, "spec": {"template": template}}
    await world.create(job)
    await world.all_of(
        PODS,
        lambda pods: sum(bool(pod["spec"].get("nodeName")) for pod in pods if _is_loose(pod)) == 4,
    )
    (group,) = [
        pod_group
        for pod_group in (await world.client.list(POD_GROUPS, world.namespace)).items
        if [owner["kind"] for owner in pod_group["metadata"].get("ownerReferences", ())] == ["DaemonSet"]
    ]
    # What its owner says changes: nobody tells, it is asked again when its pods change.
    await world.client.delete(PODS, world.namespace, "alone", grace=0)
    await world.client.patch(
        DAEMON_SETS, world.namespace, "set", {"metadata": {"annotations": {names.GROUP_MIN_MEMBER: "1"}}}
    )
    assert group["spec"]["minMember"] == 2


async def volumes(world: World) -> None:
    """One that is there and is given away, and one that is to be made for the node."""
    own = world.namespace
    await world.create(storage_class(f"local-{own}"), volume(f"disk-{own}", "node-3", f"local-{own}"))
    await world.create(claim("disk", f"local-{own}"), storage_class(f"made-{own}", "disks.example.com"))
    await world.create(claim("made", f"made-{own}"))
    for name in ("disk", "made"):
        source = {"persistentVolumeClaim": {"claimName": name}}
        await world.create(with_volume(batch_job(f"user-of-{name}", 1, "100m", duration="100ms"), **source))
    await world.job("user-of-disk", "Completed")
    selected = "volume.kubernetes.io/selected-node"
    await world.all_of(
        CLAIMS, lambda claims: any(selected in (claim["metadata"].get("annotations") or {}) for claim in claims)
    )


async def devices(world: World) -> None:
    """A device is given to a claim, and used."""
    own = world.namespace
    driver = f"{own}.example.com"
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    request = {"name": "card", "exactly": {"deviceClassName": f"card-{own}"}}
    pool = {"name": f"pool-{own}", "generation": 1, "resourceSliceCount": 1}
    offered: Json = {"driver": driver, "pool": pool, "nodeName": "node-2", "devices": [{"name": "card-0"}]}
    kinds: dict[str, Any] = {
        "DeviceClass": {"selectors": [selector]},
        "ResourceSlice": offered,
        "ResourceClaim": {"devices": {"requests": [request]}},
    }
    for kind, spec in kinds.items():
        await world.create(
            {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": f"card-{own}"}, "spec": spec}
        )
    job = batch_job("cards", 1, "100m", duration="100ms")
    spec = job["spec"]["tasks"][0]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "mine", "resourceClaimName": f"card-{own}"}]
    spec["containers"][0]["resources"]["claims"] = [{"name": "mine"}]
    await world.create(job)
    await world.job("cards", "Completed")


async def hypernode_is_validated(world: World) -> None:
    """A hypernode is judged and followed."""
    members = [{"type": "Node", "selector": {"exactMatch": {"name": "node-1"}}}]
    await world.create(
        {
            "apiVersion": "topology.volcanopy.io/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": f"rack-{world.namespace}"},
            "spec": {"tier": 1, "members": members},
        }
    )


async def hypernodes_are_discovered(world: World) -> None:
    """Labels of nodes make HyperNodes, change them, and delete them."""

    async def labelled(node: str, rack: str | None, expected: dict[str, int]) -> None:
        """Label a node, and wait for the numbers of nodes by rack."""
        await world.client.patch(NODES, None, node, {"metadata": {"labels": {RACK: rack}}})
        await world.all_of(HYPER_NODES, lambda items: _racks(items) == expected)

    await labelled("node-2", "a", {"a": 1})
    await labelled("node-3", "a", {"a": 2})
    await labelled("node-2", "b", {"a": 1, "b": 1})
    await labelled("node-2", None, {"a": 1})


def _racks(hyper_nodes: list[Json]) -> dict[str, int]:
    made = [item for item in hyper_nodes if RACK in (item["metadata"].get("labels") or {})]
    return {item["metadata"]["labels"][RACK]: (item.get("status") or {}).get("nodeCount", 0) for item in made}


async def pod_waits_for_its_queue(world: World) -> None:
    """The scheduling gate of a pod is removed when it is placed."""
    manifest = batch_job("gated", 1, "100m", duration="100ms")
    manifest["spec"]["tasks"][0]["template"]["metadata"]["annotations"][names.QUEUE_ALLOCATION_GATE] = "true"
    await world.create(manifest)
    await world.job("gated", "Completed")


async def job_for_a_missing_queue(world: World) -> None:
    """A job for a queue that nobody has made: it is looked for once more before it is said not to be."""
    with pytest.raises(CreateError, match=r'Not found: queue "nowhere"'):
        await world.create(batch_job("lost", 1, "100m", queue="nowhere"))


async def pod_for_a_missing_group(world: World) -> None:
    """A pod in a PodGroup that nobody has made: it is looked for once more."""
    await world.create(
        pod("lonely", "100m") | {"metadata": {"name": "lonely", "annotations": {names.GROUP_NAME: "none"}}}
    )


async def preemption(world: World) -> None:
    """The cluster is full of what may be pushed out; what is more important comes; and somebody is told twice why he waits."""
    low = batch_job("low", 3, "7", duration="forever", priorityClassName="volcanopy-low", minAvailable=1)
    await world.create(low)
    await world.job("low", "Running")
    await world.create(batch_job("high", 2, "7", duration="8s", priorityClassName="volcanopy-high"))
    await world.job("high", "Running", seconds=60)
    await world.create(batch_job("huge", 2, "100"))
    await world.all_of(
        POD_GROUPS,
        lambda groups: any(
            condition(group, "Unschedulable").get("status") == "True" for group in groups if "huge" in str(group)
        ),
    )


def _named(manifest: Json, name: str) -> bool:
    return bool(manifest["metadata"]["name"] == name)


def _states(queues: list[Json], *wanted: str) -> list[str]:
    return [
        str((queue.get("status") or {}).get("state", "")) for queue in queues if queue["metadata"]["name"] in wanted
    ]


def _is_loose(manifest: Json) -> bool:
    owners = manifest["metadata"].get("ownerReferences") or [{"kind": ""}]
    return owners[0]["kind"] in {"", "DaemonSet", "Job"} and manifest["spec"]["schedulerName"] == "volcanopy"


def _template(name: str, spec: Json) -> Json:
    return {"apiVersion": FLOWS.api_version, "kind": "JobTemplate", "metadata": {"name": name}, "spec": spec}


def _flow(name: str, *steps: str) -> Json:
    spec = {"flows": [{"name": step} for step in steps], "failurePolicy": "terminate"}
    return {"apiVersion": FLOWS.api_version, "kind": "JobFlow", "metadata": {"name": name}, "spec": spec}


async def start_before_restart(world: World) -> None:
    """A job that will be at work when another controller comes."""
    await world.create(batch_job("staying", 1, "100m", duration="forever", minAvailable=1, plugins=ALL_PLUGINS))
    await world.job("staying", "Running")


async def scale_after_restart(world: World) -> None:
    """What the job has is found, and brought up to date with its new size."""
    await _resize(world, "staying", 2)


async def _resize(world: World, name: str, count: int) -> None:
    job = await world.job(name, "Running")
    patch: Json = {"spec": {"minAvailable": count, "tasks": job["spec"]["tasks"]}}
    patch["spec"]["tasks"][0]["replicas"] = count
    await world.client.patch(JOBS, world.namespace, name, patch)
    await world.all_of(
        JOBS,
        lambda jobs: any((item.get("status") or {}).get("running") == count for item in jobs if _named(item, name)),
    )
