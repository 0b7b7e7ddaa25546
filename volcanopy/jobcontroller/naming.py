"""Names and owner references of the objects of a job."""

from volcanopy.api.batch import BatchJob, TaskSpec
from volcanopy.api.model import Json


def pod_name(job: BatchJob, task: TaskSpec, index: int) -> str:
    """``<job>-<task>-<index>``."""
    return f"{job.metadata.name}-{task.name}-{index}"


def pod_group_name(job: BatchJob) -> str:
    """``<job>-<uid of the job>``: a later job of the same name has another group."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def owner_reference(job: BatchJob) -> Json:
    """What makes an object belong to the job, and go with it."""
    return {
        "apiVersion": job.api_version,
        "kind": job.kind,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
