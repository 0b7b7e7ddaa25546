"""Names and metadata of the objects that are created for a job, a flow or a cron job."""

from volcanopy.api import names
from volcanopy.api.batch import BatchJob, TaskSpec
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobFlow
from volcanopy.api.model import Json, ObjectMeta

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def pod_name(job: BatchJob, task: TaskSpec, index: int, replacement: int = 0) -> str:
    """``<job>-<task>-<index>``; with ``-r<number>`` for a pod that replaces one that still terminates."""
    name = f"{job.metadata.name}-{task.name}-{index}"
    return f"{name}-r{replacement}" if replacement else name


def pod_group_name(job: BatchJob) -> str:
    """``<job>-<uid of the job>``: a later job of the same name has another group."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def owner_reference(owner: BatchJob | JobFlow | CronBatchJob) -> Json:
    """Return the reference by which the owner controls an object, which is deleted with it."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def inherited_annotations(metadata: ObjectMeta | None) -> dict[str, str]:
    """Return the annotations that a created object inherits: all but the one that kubectl maintains."""
    annotations = (metadata.annotations if metadata else None) or {}
    return {key: value for key, value in annotations.items() if key != _LAST_APPLIED}


def job_manifest(
    owner: JobFlow | CronBatchJob, name: str, labels: dict[str, str], annotations: dict[str, str], spec: Json
) -> Json:
    """Return a job of a flow or cron job, whose submitter it inherits."""
    return {
        "apiVersion": names.BATCH_V1ALPHA1,
        "kind": names.JOB_KIND,
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": labels,
            "annotations": names.with_submitter_of(annotations, owner.metadata.annotations),
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": spec,
    }
