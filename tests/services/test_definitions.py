"""Schema validation works on both API servers, without a webhook or a controller."""

import copy
from typing import Any

import pytest

from tests.services.service_cluster import Cluster, task
from volcanopy.api import names
from volcanopy.kube.client.errors import ApiError
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import JOBS

PARTED = {"totalPartitions": 2, "partitionSize": 2}


def policy(action: str = "RestartJob", **fields: Any) -> Json:
    """A lifecycle policy."""
    return {"action": action, **fields}


async def submit(cluster: Cluster, spec: Json, name: str = "j") -> None:
    """Create a job as kubectl does: unknown fields are rejected."""
    manifest = {"apiVersion": JOBS.api_version, "kind": "BatchJob", "metadata": {"name": name}, "spec": spec}
    await cluster.client.post_raw(JOBS.path(cluster.namespace) + "?fieldValidation=Strict&dryRun=All", manifest)


WRONG: list[tuple[Json, str]] = [
    ({"tasks": []}, "spec.tasks"),
    ({"minSuccess": 0}, "spec.minSuccess"),
    ({"maxRetry": "3"}, "spec.maxRetry"),
    ({"minAvailble": 1}, 'unknown field "spec.minAvailble"'),
    ({"tasks": [task("a"), task("a")]}, "spec.tasks[1]: Duplicate value"),
    ({"tasks": [task("A")]}, "spec.tasks[0].name"),
    ({"tasks": [task(topologyPolicy="sometimes")]}, "spec.tasks[0].topologyPolicy"),
    ({"policies": [policy()]}, "exactly one of exitCode and event (or events) must be set"),
    (
        {"policies": [policy(event="PodFailed", exitCode=3)]},
        "exactly one of exitCode and event (or events) must be set",
    ),
    ({"policies": [policy(exitCode=0)]}, "spec.policies[0].exitCode: Invalid value: must not be 0"),
    ({"policies": [policy(exitCode=3), policy(exitCode=3)]}, "an exit code must not occur in more than one policy"),
    ({"policies": [policy(event="PodFailed"), policy(events=["PodFailed"])]}, "an event must not occur"),
    ({"policies": [policy(event="*"), policy(event="PodFailed")]}, "`*` matches every event"),
    ({"policies": [policy(events=["*", "PodFailed"])]}, "`*` matches every event"),
    ({"policies": [policy(event="PodPending")]}, "timeout is required for event PodPending"),
    ({"policies": [policy(event="PodRunning")]}, "spec.policies[0].event"),
    ({"policies": [policy(event="OutOfSync")]}, "spec.policies[0].event"),
    ({"policies": [policy(events=["CommandIssued"])]}, "spec.policies[0].events[0]"),
    ({"policies": [policy("Foo", exitCode=3)]}, "spec.policies[0].action"),
    ({"policies": [policy("SyncJob", event="PodFailed")]}, "spec.policies[0].action"),
    ({"tasks": [task(policies=[policy(event="PodFailed"), policy(event="PodFailed")])]}, "an event must not occur"),
    ({"tasks": [task(policies=[policy()])]}, "spec.tasks[0].policies[0]: Invalid value: exactly one of exitCode"),
    ({"policies": [policy("Foo", event="PodFailed")]}, "spec.policies[0].action"),
    ({"policies": [policy(event="PodFailed", timeout="soon")]}, "spec.policies[0].timeout"),
    ({"volumes": [{"mountPath": "/a"}]}, "exactly one of volumeClaimName and volumeClaim"),
    ({"volumes": [{"mountPath": "/a", "volumeClaimName": "x"}] * 2}, "spec.volumes[1]: Duplicate value"),
    (
        {"volumes": [{"mountPath": "/a", "volumeClaimName": "x", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]},
        "exactly one of volumeClaimName and volumeClaim",
    ),
    ({"volumes": [{"mountPath": "", "volumeClaimName": "x"}]}, "spec.volumes[0].mountPath"),
    ({"volumes": [{"volumeClaimName": "x"}]}, "spec.volumes[0].mountPath"),
    (
        {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "x"}},
        "highestTierAllowed and highestTierName are mutually",
    ),
    ({"queue": "Not A Name"}, "spec.queue"),
]


async def test_an_invalid_job_is_rejected_with_path_and_rule(cluster: Cluster) -> None:
    cluster.plays = False
    for fields, says in WRONG:
        with pytest.raises(ApiError) as caught:
            await submit(cluster, {"tasks": [task(replicas=2)], **fields})
        assert says in str(caught.value), fields


async def test_a_pod_template_is_validated_like_a_pod(cluster: Cluster) -> None:
    cases: list[tuple[tuple[str | int, ...], Any, str]] = [
        (
            ("containers", 0, "imagePullpolicy"),
            "x",
            'unknown field "spec.tasks[0].template.spec.containers[0].imagePullpolicy"',
        ),
        (("containers", 0, "image"), 3, "spec.tasks[0].template.spec.containers[0].image"),
        (("containers", 0, "ports"), [{"containerPort": "x"}], "template.spec.containers[0].ports[0].containerPort"),
        (
            ("containers", 0, "resources"),
            {"limits": {"cpu": "1 core"}},
            "template.spec.containers[0].resources.limits.cpu",
        ),
        (("containers",), [], "spec.tasks[0].template.spec.containers"),
        (("tolerations",), {"key": "x"}, "spec.tasks[0].template.spec.tolerations"),
    ]
    for path, value, says in cases:
        made = copy.deepcopy(task())
        at: Any = made["template"]["spec"]
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value
        with pytest.raises(ApiError) as caught:
            await submit(cluster, {"tasks": [made]})
        assert says in str(caught.value), path


async def test_valid_jobs_are_accepted(cluster: Cluster) -> None:
    privileged = task()
    privileged["template"]["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    good: list[Json] = [
        {"tasks": [privileged]},
        {"tasks": [task(replicas=0)]},
        {"tasks": [task(replicas=4, partitionPolicy={**PARTED, "minPartitions": 1}, minAvailable=2)]},
        {"tasks": [task("a"), task("b", dependsOn={"name": ["a"], "iteration": "any"})], "minAvailable": 1},
        {
            "policies": [
                policy(events=["PodFailed", "PodFailed"]),
                policy(exitCode=3),
                policy(event="PodPending", timeout="1h5m"),
            ]
        },
        {"plugins": {"svc": [], "ssh": ["--ssh-port=2022"]}, "ttlSecondsAfterFinished": 0, "minSuccess": 1},
        {
            "volumes": [
                {"mountPath": "/a", "volumeClaimName": "x"},
                {"mountPath": "/b", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
            ]
        },
    ]
    for fields in good:
        await submit(cluster, {"tasks": [task(replicas=2)], **fields})


BOTH = {"highestTierAllowed": 1, "highestTierName": "rack"}


def flow(*steps: Json) -> Json:
    """A flow."""
    return {
        "apiVersion": f"{names.FLOW}/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "f"},
        "spec": {"flows": [*steps]},
    }


def cron(name: str = "c", schedule: str = "@daily") -> Json:
    """A cron job."""
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"tasks": [task()]}}}
    return {"apiVersion": names.BATCH_V1ALPHA1, "kind": "CronBatchJob", "metadata": {"name": name}, "spec": spec}


async def test_the_jobs_of_a_flow_are_immutable(cluster: Cluster) -> None:
    flows: Kind[Json] = Kind(names.FLOW, "v1alpha1", "JobFlow", "jobflows", True, dict)
    await cluster.client.create(flows, cluster.namespace, flow({"name": "a"}))
    with pytest.raises(ApiError, match="field is immutable: create a new flow"):
        await cluster.client.patch(flows, cluster.namespace, "f", {"spec": {"flows": [{"name": "b"}]}})


async def test_the_other_kinds_are_validated(cluster: Cluster) -> None:
    def named(api_version: str, kind: str, **fields: Any) -> Json:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **fields}

    queues = f"/apis/{names.SCHEDULING_V1BETA1}/queues"
    groups = f"/apis/{names.SCHEDULING_V1BETA1}/namespaces/{cluster.namespace}/podgroups"
    commands = f"/apis/{names.BUS_V1ALPHA1}/namespaces/{cluster.namespace}/commands"
    nodes = f"/apis/{names.TOPOLOGY_V1ALPHA1}/hypernodes"
    crons = f"/apis/{names.BATCH_V1ALPHA1}/namespaces/{cluster.namespace}/cronbatchjobs"
    flows = f"/apis/{names.FLOW}/v1alpha1/namespaces/{cluster.namespace}/jobflows"
    target = {"apiVersion": JOBS.api_version, "kind": "BatchJob", "name": "j", "uid": "u"}

    def held(kind: str = "Node", **selector: Any) -> Json:
        members = [{"type": kind, "selector": selector}]
        return named(names.TOPOLOGY_V1ALPHA1, "HyperNode", spec={"tier": 1, "members": members})

    wrong = [
        (queues, named(names.SCHEDULING_V1BETA1, "Queue", spec={"weight": 0}), "spec.weight"),
        (queues, named(names.SCHEDULING_V1BETA1, "Queue", spec={"weight": 65536}), "spec.weight"),
        (queues, named(names.SCHEDULING_V1BETA1, "Queue", spec={"parent": "x"}), "must not be its own parent"),
        (
            queues,
            named(names.SCHEDULING_V1BETA1, "Queue", spec={"capability": {"cpu": "1 core"}}),
            "spec.capability.cpu",
        ),
        (queues, named(names.SCHEDULING_V1BETA1, "Queue", spec={"dequeueStrategy": "lifo"}), "spec.dequeueStrategy"),
        (queues, named(names.SCHEDULING_V1BETA1, "Queue", spec={"jobOrder": "random"}), "spec.jobOrder"),
        (groups, named(names.SCHEDULING_V1BETA1, "PodGroup", spec={"minMember": -1}), "spec.minMember"),
        (groups, named(names.SCHEDULING_V1BETA1, "PodGroup", spec={"networkTopology": BOTH}), "mutually exclusive"),
        (nodes, named(names.TOPOLOGY_V1ALPHA1, "HyperNode", spec={"tier": 1, "members": []}), "spec.members"),
        (nodes, held(exactMatch={"name": "n"}, regexMatch={"pattern": "n"}), "exactly one of exactMatch"),
        (
            nodes,
            held("HyperNode", regexMatch={"pattern": "n"}),
            "members of type HyperNode must be selected by exactMatch",
        ),
        (nodes, held("HyperNode", exactMatch={"name": "x"}), "must not contain the HyperNode itself"),
        (crons, cron(schedule="TZ=UTC @daily"), "must not contain a time zone"),
        (crons, cron("c" * 53), "the name of a cron job must have at most 52 characters"),
        (flows, flow({"name": "a", "dependsOn": {"targets": ["a"]}}), "must not contain the job itself"),
        (
            flows,
            flow({"name": "a", "dependsOn": {"targets": ["z"]}}),
            "dependsOn must contain names of jobs of the flow",
        ),
        (flows, flow({"name": "a" * 60}), "job names (<flow>-<name>) must have at most 60 characters"),
        (commands, named(names.BUS_V1ALPHA1, "Command", action="Dance", target=target), "action"),
        (commands, named(names.BUS_V1ALPHA1, "Command", action="AbortJob"), "target"),
    ]
    for path, manifest, says in wrong:
        with pytest.raises(ApiError) as caught:
            await cluster.client.post_raw(path + "?fieldValidation=Strict&dryRun=All", manifest)
        assert says in str(caught.value), manifest
