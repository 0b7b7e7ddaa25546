"""The PodGroup of a JobSet (``jobset.x-k8s.io``) that is one gang: for the pods of all its Jobs.

The annotation with the size of the gang is on the JobSet. The pods belong to Jobs, and each of these finds the JobSet as its own
controller; the first creates the PodGroup, which the JobSet owns. Everything in it follows from the JobSet alone, so that Jobs
with unequal pods do not contradict each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import field

from volcanopy.api import names
from volcanopy.api.core import Labels, Meta, OwnerReference, ReadModel
from volcanopy.api.model import Json
from volcanopy.jobcontroller.job_podgroup import pod_usage, written

GROUP = "jobset.x-k8s.io"
UID_LABEL = "jobset.sigs.k8s.io/jobset-uid"
"""Label of the pods of a JobSet. Anyone can set it: it shows which pods are affected by a PodGroup, not who may join it."""
_ALL = "all"


class PodTemplate(ReadModel, frozen=True, kw_only=True, gc=False):
    """The pods of a replicated Job; the spec as it is written."""

    metadata: Meta = Meta()
    spec: dict[str, Any] = field(default_factory=dict)


class ReplicatedJobSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """The numbers of pods of each Job."""

    parallelism: int | None = None
    completions: int | None = None
    template: PodTemplate = PodTemplate()

    @property
    def at_once(self) -> int:
        """The pods that a Job runs at once."""
        parallelism = 1 if self.parallelism is None else self.parallelism
        return parallelism if self.completions is None else min(parallelism, self.completions)


class ReplicatedJobTemplate(ReadModel, frozen=True, kw_only=True, gc=False):
    """The template of a Job."""

    spec: ReplicatedJobSpec = ReplicatedJobSpec()


class ReplicatedJob(ReadModel, frozen=True, kw_only=True, gc=False):
    """Several equal Jobs of a JobSet."""

    name: str = ""
    replicas: int = 1
    depends_on: tuple[dict[str, Any], ...] = ()
    template: ReplicatedJobTemplate = ReplicatedJobTemplate()


class StartupPolicy(ReadModel, frozen=True, kw_only=True, gc=False):
    """The order in which the replicated Jobs start."""

    startup_policy_order: str = "AnyOrder"


class JobSetSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """The Jobs of a JobSet."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    startup_policy: StartupPolicy = StartupPolicy()


class JobSet(ReadModel, frozen=True, kw_only=True, gc=False):
    """The fields of a JobSet that determine its PodGroup."""

    metadata: Meta
    spec: JobSetSpec = JobSetSpec()


@dataclass(frozen=True)
class JobSetGang:
    """The PodGroup of a JobSet.

    ``problem``: why the JobSet cannot have it, empty if it can. Then each of its Jobs has a PodGroup of its own.
    """

    manifest: Json
    problem: str = ""

    @property
    def name(self) -> str:
        """The name of the PodGroup."""
        return str(self.manifest["metadata"]["name"])


def is_job_set(reference: OwnerReference) -> bool:
    """Whether the controller of a Job is a JobSet."""
    return reference.kind == "JobSet" and reference.api_version.startswith(f"{GROUP}/")


def gang_of_job_set(job_set: JobSet, reference: OwnerReference, annotations: Mapping[str, str]) -> JobSetGang | None:
    """Return the gang of a JobSet with these annotations about PodGroups; None without the size of a gang."""
    size = annotations.get(names.GROUP_MIN_MEMBER)
    if size is None:
        return None
    return JobSetGang(_manifest(job_set, reference, annotations), _problem(job_set.spec, size))


def _problem(spec: JobSetSpec, size: str) -> str:
    number = size.isascii() and size.isdecimal() and 0 < int(size) < 2**31
    if size != _ALL and not number:
        return f'annotation {names.GROUP_MIN_MEMBER} of the JobSet: Invalid value: "{size}": must be a positive integer, or "all"'
    ordered = spec.startup_policy.startup_policy_order == "InOrder" or any(
        job.depends_on for job in spec.replicated_jobs
    )
    if ordered:
        return (
            f"annotation {names.GROUP_MIN_MEMBER} of the JobSet: not possible with spec.startupPolicy InOrder or dependsOn: Jobs "
            "that start later have no pods yet, so the gang would wait for ever; set the annotation on the Job templates"
        )
    total = sum(job.replicas * job.template.spec.at_once for job in spec.replicated_jobs)
    if number and int(size) > total:
        return f"annotation {names.GROUP_MIN_MEMBER} of the JobSet: {size} exceeds the pods that its Jobs run at once: {total}"
    return ""


def _manifest(job_set: JobSet, reference: OwnerReference, annotations: Mapping[str, str]) -> Json:
    jobs = job_set.spec.replicated_jobs
    size = annotations[names.GROUP_MIN_MEMBER]
    total = sum(job.replicas * job.template.spec.at_once for job in jobs)
    member = left = max(1, int(size) if size.isascii() and size.isdecimal() else total)
    usage: dict[str, int] = {}
    for job in jobs:
        count = min(left, job.replicas * job.template.spec.at_once)
        left -= count
        for name, units in pod_usage(job.template.spec.template.spec).items():
            usage[name] = usage.get(name, 0) + units * count
    spec: Json = {"minMember": member, "minResources": written({name: n for name, n in usage.items() if n})}
    pods = [job.template.spec.template for job in jobs]
    if priority := next((str(pod.spec["priorityClassName"]) for pod in pods if pod.spec.get("priorityClassName")), ""):
        spec["priorityClassName"] = priority
    queues = (annotations, *(pod.metadata.annotations for pod in pods))
    if queue := next((notes[names.POD_QUEUE_NAME] for notes in queues if notes.get(names.POD_QUEUE_NAME)), ""):
        spec["queue"] = queue
    notes: Labels = {key: value for key, value in annotations.items() if key.startswith(names.OWN_PREFIX)}
    owner = {"apiVersion": reference.api_version, "kind": reference.kind, "name": reference.name, "uid": reference.uid}
    return {
        "apiVersion": names.SCHEDULING_V1BETA1,
        "kind": "PodGroup",
        "metadata": {
            "name": names.workload_group(reference.uid),
            "namespace": job_set.metadata.namespace,
            "labels": {},
            "annotations": notes,
            "ownerReferences": [owner | {"controller": True}],
        },
        "spec": spec,
    }
