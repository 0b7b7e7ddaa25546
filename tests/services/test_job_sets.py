"""A JobSet that is one gang, on an API server: the pods of all its Jobs join one PodGroup."""

import contextlib

from tests.services.service_cluster import CRDS, Cluster, controller
from tests.services.test_pod_groups import KUBERNETES_JOBS, create, group_of, pod
from volcanopy.api import names
from volcanopy.jobcontroller.jobset_podgroups import UID_LABEL
from volcanopy.kube.cache.followed_kinds import POD_GROUPS
from volcanopy.kube.client.errors import AlreadyExists
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.services.controllers.user_kinds import wait_for_kinds

JOB_SETS: Kind[Json] = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", True, dict)

OURS = {"managedBy": "example.com/test"}
"""Keeps the Job controller of the real control plane from Jobs whose pods the test makes."""


def definition() -> Json:
    """The definition of the kind, with any fields."""
    version = {"name": "v1alpha2", "served": True, "storage": True}
    version |= {"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    kind = {"kind": "JobSet", "plural": "jobsets", "singular": "jobset"}
    spec = {"group": JOB_SETS.group, "names": kind, "scope": "Namespaced", "versions": [version]}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": "jobsets.jobset.x-k8s.io"},
        "spec": spec,
    }


async def test_the_pods_of_all_jobs_of_a_job_set_join_one_group_which_is_created_again(cluster: Cluster) -> None:
    """The pods know their Job only; the JobSet is found through it."""
    cluster.plays = False
    with contextlib.suppress(AlreadyExists):
        await cluster.client.create(CRDS, None, definition())
    await wait_for_kinds(cluster.client, (JOB_SETS,))
    template: Json = {"template": {"spec": pod("x")["spec"] | {"restartPolicy": "Never"}}}
    jobs = [{"name": name, "template": {"spec": template}} for name in ("driver", "workers")]
    metadata: Json = {"name": "train", "annotations": {names.GROUP_MIN_MEMBER: "all"}}
    body = {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": jobs},
    }
    async with controller(cluster):
        made = await cluster.client.create(JOB_SETS, cluster.namespace, body)
        owner = {key: body[key] for key in ("apiVersion", "kind")} | {"name": "train", "uid": made["metadata"]["uid"]}
        for name in ("train-driver-0", "train-workers-0"):
            metadata = {"name": name, "ownerReferences": [owner | {"controller": True}]}
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template | OURS}
            uid = (await cluster.client.create(KUBERNETES_JOBS, cluster.namespace, job))["metadata"]["uid"]
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
            member = pod(f"{name}-a", reference)
            member["metadata"]["labels"] = {UID_LABEL: owner["uid"]}
            await create(cluster, member)
        group = f"podgroup-{owner['uid']}"
        await cluster.until(lambda: [group_of(each) for each in cluster.pods.values()] == [group, group])
        before = (await cluster.group("train"))["metadata"]["uid"]
        await cluster.client.delete(POD_GROUPS, cluster.namespace, group)
        await cluster.until(
            lambda: cluster.groups.get("train", {"metadata": {"uid": before}})["metadata"]["uid"] != before
        )
    assert cluster.groups.keys() == {"train"}
    assert cluster.groups["train"]["spec"]["minMember"] == 2
