"""Labels of the configuration name the queue of objects that name none: those of Kueue and KAI, for example."""

import base64
import json
from typing import Any

import jsonpatch
import pytest

from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import mutate
from volcanopy.api import core, names
from volcanopy.jobcontroller.workload_podgroups import GroupObserved, Owner, WorkloadPod, reconcile_group
from volcanopy.services.controllers.pod_groups import Workload, WorkloadOwners

Json = dict[str, Any]
KUEUE, KAI = "kueue.x-k8s.io/queue-name", "kai.scheduler/queue"
POLICY = AdmissionPolicy(queue_labels=[KUEUE, KAI])


def stored(kind: str, labels: Json, namespace: core.Namespace | None = None, policy: AdmissionPolicy = POLICY) -> Json:
    """A new object as admission stores it."""
    versions = {"BatchJob": "batch.volcanopy.io/v1alpha1", "PodGroup": "scheduling.volcanopy.io/v1beta1", "Pod": "v1"}
    group, _, version = versions[kind].rpartition("/")
    spec: Json = {"schedulerName": "volcanopy"} if kind == "Pod" else {}
    manifest = {"apiVersion": versions[kind], "kind": kind, "metadata": {"name": "x", "labels": labels}, "spec": spec}
    about = {"group": group, "version": version, "kind": kind}
    request = {"uid": "1", "kind": about, "operation": "CREATE", "namespace": "team", "object": manifest}
    context = Context(policy=policy, namespaces={"team": namespace} if namespace else {})
    response = mutate({"request": request}, context)["response"]
    changed: Json = jsonpatch.apply_patch(manifest, json.loads(base64.b64decode(response.get("patch", "W10="))))
    return changed


def queue_of(manifest: Json) -> str | None:
    if manifest["kind"] == "Pod":
        queue = manifest["metadata"].get("annotations", {}).get(names.POD_QUEUE_NAME)
    else:
        queue = manifest["spec"].get("queue")
    return None if queue is None else str(queue)


@pytest.mark.parametrize("kind", ["BatchJob", "PodGroup", "Pod"])
def test_a_label_names_the_queue_and_the_first_one_counts(kind: str) -> None:
    assert queue_of(stored(kind, {KUEUE: "research"})) == "research"
    assert queue_of(stored(kind, {KAI: "teaching", KUEUE: "research"})) == "research"
    assert queue_of(stored(kind, {KAI: "teaching"})) == "teaching"
    assert queue_of(stored(kind, {"other": "research"})) == (None if kind == "Pod" else "default")


@pytest.mark.parametrize("kind", ["BatchJob", "PodGroup", "Pod"])
def test_labels_count_only_where_they_are_configured(kind: str) -> None:
    without = stored(kind, {KUEUE: "research"}, policy=AdmissionPolicy())
    assert queue_of(without) == (None if kind == "Pod" else "default")


def test_a_label_of_the_namespace_counts_after_its_annotation_and_the_labels_of_the_object() -> None:
    labelled = core.Namespace(metadata=core.Meta(name="team", labels={KUEUE: "namespace"}))
    annotated = core.Namespace(
        metadata=core.Meta(name="team", labels={KUEUE: "namespace"}, annotations={names.POD_QUEUE_NAME: "annotated"})
    )
    assert queue_of(stored("BatchJob", {}, labelled)) == "namespace"
    assert queue_of(stored("BatchJob", {}, annotated)) == "annotated"
    assert queue_of(stored("BatchJob", {KUEUE: "object"}, annotated)) == "object"


def test_the_label_of_a_workload_names_the_queue_of_its_pod_group() -> None:
    owners = WorkloadOwners(None, lambda _, __: None, queue_labels=(KUEUE,))  # type: ignore[arg-type]
    job = Workload(
        metadata=core.Meta(name="train", labels={KUEUE: "research"}, annotations={names.GROUP_MIN_MEMBER: "3"})
    )
    reference = core.OwnerReference(api_version="batch/v1", kind="Job", name="train", uid="u", controller=True)
    pod = WorkloadPod(metadata=core.Meta(name="train-1", namespace="team", owner_references=(reference,)))
    owner = Owner(owners.slim(job).metadata.annotations, 3)
    [created, _] = reconcile_group(GroupObserved((pod,), owner))
    spec = created.manifest["spec"]  # type: ignore[union-attr]
    assert (spec["queue"], spec["minMember"]) == ("research", 3)
