"""The PodGroup and the pods of simulated jobs, as admission and the job controller make them.

Both run once for each kind of job (equal but for names, times and annotations) on a BatchJob of its own, and the objects of
each job of the kind are copies with its name: thousands of events a second leave no time to review each job anew.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from volcanopy.admission.request import User
from volcanopy.api import core, names
from volcanopy.api.model import Json
from volcanopy.whatif.admission import SUPERUSER, admit
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.controllers import JobControllers
from volcanopy.whatif.kinds import created
from volcanopy_lab.simulate.workload import Job

TASK = "main"
_SAMPLE = "volcanopy-simulated-job"
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Rejected:
    """A job that admission rejects, and why."""

    message: str


@dataclass(frozen=True, slots=True)
class JobObjects:
    """The objects of a kind of job: its PodGroup in phase Pending, and its pods."""

    group: core.PodGroup
    pods: Mapping[str, tuple[core.Pod, ...]]
    """By alternative, with an empty name for a job without any."""

    def podgroup(
        self, job: Job, now: datetime, annotations: dict[str, str], estimates: Mapping[str, str] = _NONE
    ) -> core.PodGroup:
        """Return the PodGroup of a job; ``annotations`` are added to those of its kind, ``estimates`` are of alternatives."""
        alternatives = tuple(
            replace(each, running_estimate=estimates.get(each.name, "")) for each in self.group.spec.alternatives
        )
        metadata = self.group.metadata
        metadata = self._named(metadata, job, job.name, now, _named(metadata.labels, job.name), {})
        submitter = {names.SUBMITTED_BY: job.user, names.SUBMITTER_GROUPS: "[]"} if job.user else {}
        return replace(
            self.group,
            metadata=replace(metadata, annotations=metadata.annotations | submitter | annotations),
            spec=replace(self.group.spec, alternatives=alternatives) if alternatives else self.group.spec,
        )

    def pods_of(self, job: Job, now: datetime, alternative: str = "") -> list[core.Pod]:
        """Return the pods of a job with an alternative."""
        annotations: dict[int, core.Labels] = {}
        labels = _named(self.pods[alternative][0].metadata.labels, job.name)  # the same of all pods
        return [
            replace(
                pod, metadata=self._named(pod.metadata, job, f"{job.name}-{TASK}-{number}", now, labels, annotations)
            )
            for number, pod in enumerate(self.pods[alternative])
        ]

    def _named(
        self,
        metadata: core.Meta,
        job: Job,
        name: str,
        now: datetime,
        labels: core.Labels,
        annotations: dict[int, core.Labels],
    ) -> core.Meta:
        """Return metadata with other names; ``labels`` name the job.

        ``annotations`` are those of other objects of the job, by those of the sample.
        """
        known = annotations.get(id(metadata.annotations))
        if known is None:
            known = metadata.annotations | _named(metadata.annotations, job.name)
            annotations[id(metadata.annotations)] = known
        return replace(
            metadata,
            name=name,
            namespace=job.namespace,
            uid=name,
            creation_timestamp=now,
            labels=metadata.labels | labels,
            annotations=known,
            owner_references=(),
        )


def _named(texts: core.Labels, name: str) -> dict[str, str]:
    """Return those labels or annotations that name the sample, with the name of a job."""
    return {key: name for key, text in texts.items() if text.startswith(_SAMPLE)}


def _with_shared_parts(pods: Sequence[core.Pod]) -> tuple[core.Pod, ...]:
    """Return the pods of a job, of which those with equal annotations or specifications share them."""
    result = []
    for pod in pods:
        metadata, first = pod.metadata, pods[0]
        if metadata.annotations == first.metadata.annotations:
            metadata = replace(metadata, annotations=first.metadata.annotations)
        result.append(replace(pod, metadata=metadata, spec=first.spec if pod.spec == first.spec else pod.spec))
    return tuple(result)


class JobObjectCache:
    """The objects of each kind of job, made when the first of the kind is submitted."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_user = any(queue.spec.submitters is not None for queue in cluster.state.queues.values())
        self._known: dict[Hashable, JobObjects | Rejected] = {}

    def of(self, job: Job, now: datetime) -> JobObjects | Rejected:
        """Return the objects of the kind of a job, or why admission rejects it."""
        key = (
            job.pods,
            job.minimum,
            job.queue,
            job.user if self._by_user else "",
            job.priority,
            job.preemptable,
            job.namespace,
            tuple(job.requests.items()),
            tuple(job.node_selector.items()),
            tuple(job.annotations.items()),
            msgspec.json.encode((job.affinity, job.topology)),
            tuple(
                (each.name, tuple(each.requests.items()), tuple(each.node_selector.items()))
                for each in job.alternatives
            ),
        )
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = objects_of(self._cluster, job, now)
        return known


def objects_of(cluster: Cluster, job: Job, now: datetime) -> JobObjects | Rejected:
    """Return the objects of a kind of job: what the controller creates before admission to the queue, and after it."""
    with cluster.trial():
        admitted = admit(cluster, manifest(job, _SAMPLE), User(job.user) if job.user else SUPERUSER)
        if admitted.problems:
            return Rejected("; ".join(admitted.problems))
        cluster.changed_jobs.clear()
        cluster.put_workload(created(admitted.body, now))
        controllers = JobControllers(cluster, now)
        mark = cluster.mark()
        controllers.step()
        if controllers.troubles:
            return Rejected("; ".join(controllers.troubles.values()))
        key = next(name for kind, name in cluster.changes_since(mark) if kind == "PodGroup")
        group, pods = cluster.objects["PodGroup", key], dict[str, tuple[core.Pod, ...]]()
        for alternative in [each.name for each in job.alternatives] or [""]:
            selected = core.SelectedAlternative(name=alternative) if alternative else None
            with cluster.trial():
                cluster.put(replace(group, status=core.PodGroupStatus(phase="Inqueue", alternative=selected)))
                controllers = JobControllers(cluster, now)
                controllers.step()
                if controllers.troubles:
                    return Rejected("; ".join(controllers.troubles.values()))
                made = cluster.pods_of_group(key)
            pods[alternative] = _with_shared_parts(
                sorted(made, key=lambda pod: int(pod.metadata.labels[names.TASK_INDEX]))
            )
        return JobObjects(group, pods)


def manifest(job: Job, name: str) -> Json:
    """Return a job as a BatchJob. The requests of a job with alternatives are those of the alternatives alone."""
    spec = {} if job.alternatives else _pod_spec(job.requests, job.node_selector)
    spec["containers"] = [{"name": TASK, "image": "simulated"} | (spec.get("containers") or [{}])[0]]
    alternatives = [
        {
            "name": each.name,
            "tasks": [{"name": TASK, "template": {"spec": _pod_spec(each.requests, each.node_selector)}}],
        }
        for each in job.alternatives
    ]
    if job.affinity is not None:
        spec["affinity"] = msgspec.to_builtins(job.affinity)
    annotations = dict(job.annotations) | ({names.PREEMPTABLE: "true"} if job.preemptable else {})
    return {
        "apiVersion": names.BATCH_V1ALPHA1,
        "kind": "BatchJob",
        "metadata": {"name": name, "namespace": job.namespace, "annotations": annotations},
        "spec": {
            "queue": job.queue,
            "minAvailable": job.least,
            "priorityClassName": priority_class(job.priority) if job.priority else "",
            "tasks": [{"name": TASK, "replicas": job.pods, "template": {"spec": spec}}],
        }
        | ({"networkTopology": msgspec.to_builtins(job.topology)} if job.topology is not None else {})
        | ({"alternatives": alternatives} if alternatives else {}),
    }


def _pod_spec(requests: Mapping[str, str], node_selector: Mapping[str, str]) -> dict[str, Any]:
    extended = {unit: text for unit, text in requests.items() if "/" in unit}
    resources = {"requests": dict(requests)} | ({"limits": extended} if extended else {})
    spec: dict[str, Any] = {"containers": [{"name": TASK, "resources": resources}]}
    return spec | ({"nodeSelector": dict(node_selector)} if node_selector else {})


def priority_class(priority: int) -> str:
    """Return the name of the PriorityClass of a priority."""
    return f"priority-{priority}" if priority >= 0 else f"priority-minus-{-priority}"
