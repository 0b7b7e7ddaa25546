"""The independent observer: it sees every write of the API server's store and keeps count with definitions of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from embedded_apiserver.store.object_store import Bucket, Event

JOBS, GROUPS = "batchjobs.batch.volcanopy.io", "podgroups.scheduling.volcanopy.io"
ENDED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
OVER = frozenset({"Succeeded", "Failed"})
STARTING = 120.0
"""Seconds for which part of a gang may run alone when nothing goes wrong."""


class Observer:
    """Counts what happens to pods, nodes and jobs; ``faults`` has a sentence for each broken rule."""

    def __init__(self, clock: Callable[[], float], capabilities: dict[str, int], *, fail_closed: bool = False) -> None:
        self.faults: list[str] = []
        self._clock, self._capabilities, self._fail_closed = clock, capabilities, fail_closed
        self.deleted: set[str] = set()
        """The names of jobs and pods that users delete."""
        self.invalid: set[str] = set()
        """The names of jobs that admission must refuse."""
        self.created = 0
        """Pods so far."""
        self._succeeded: dict[str, dict[str, tuple[str, str]]] = {}
        """By uid of the job: the pods that have succeeded by name, with the version of the job and the uid of the pod."""
        self.is_known: Callable[[str], bool] = lambda _: True
        """Whether every controller has seen that the pod of this uid has succeeded."""
        self.pods: dict[str, dict[str, Any]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, int] = {}
        self.binds: Counter[str] = Counter()
        self._node_of: dict[str, str] = {}
        self._ended: dict[str, str] = {}
        self._partial: dict[str, float] = {}
        self.calm_since = 0.0

    def fault(self, text: str) -> None:
        """Note a broken rule."""
        self.faults.append(f"{self._clock():.3f} s: {text}")

    def seen(self, bucket: Bucket, event: Event) -> None:
        """Take a write."""
        body = event.entry.body
        gone = event.type == "DELETED"
        if bucket.name == "pods":
            self._pod(body, gone)
        elif bucket.name == "nodes":
            self._node(body, gone)
        elif bucket.name == JOBS:
            self._job(body, gone)

    def _node(self, body: dict[str, Any], gone: bool) -> None:
        name, allocatable = body["metadata"]["name"], (body.get("status") or {}).get("allocatable")
        if gone or not allocatable:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = int(allocatable["cpu"])

    def _pod(self, body: dict[str, Any], gone: bool) -> None:
        metadata = body["metadata"]
        uid, key = metadata["uid"], f"{metadata['namespace']}/{metadata['name']}"
        node, bound_to = body["spec"].get("nodeName", ""), self._node_of.get(uid, "")
        if bound_to and node != bound_to:
            self.fault(f"pod {key} is bound to {node} after {bound_to}")
        if gone:
            self.pods.pop(uid, None)
            self._node_of.pop(uid, None)
        else:
            self.created += uid not in self.pods
            self.pods[uid] = body
            self._runs(body)
        if node and not bound_to and not gone:
            self._node_of[uid] = node
            self.binds[uid] += 1
            self._fits(node, key)
            self._within_limit(body)
        self._gang(body)

    def _runs(self, pod: dict[str, Any]) -> None:
        """Note which tasks have succeeded; none may run again, unless its pod was deleted by hand or the job restarts.

        It may if its pod succeeded and was deleted, with its node, while a controller could not watch: there are no finalizers.
        """
        metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
        owner = next(iter(metadata.get("ownerReferences") or ()), None)
        if owner is None or phase not in {"Running", "Succeeded"}:
            return
        succeeded = self._succeeded.setdefault(owner["uid"], {})
        name, version = metadata["name"], metadata["annotations"].get("volcanopy.io/job-version", "0")
        if phase == "Succeeded":
            succeeded[name] = version, metadata["uid"]
            return
        before, uid = succeeded.get(name, ("", ""))
        if before == version and name not in self.deleted and (self.is_known(uid) or self._is_recorded(pod)):
            self.fault(f"pod {name} runs again after its success")

    def _is_recorded(self, pod: dict[str, Any]) -> bool:
        """Whether the status of its job says that the pod of this task and index has succeeded."""
        labels, job = pod["metadata"]["labels"], self._job_of(pod) or {}
        recorded = ((job.get("status") or {}).get("completedIndexes") or {}).get(labels["volcanopy.io/task-spec"], "")
        ranges = [part.partition("-") for part in recorded.split(",") if part]
        index = int(labels["volcanopy.io/task-index"])
        return any(int(first) <= index <= int(last or first) for first, _, last in ranges)

    def _requests(self, of: Callable[[dict[str, Any]], bool]) -> int:
        """Return the cpus of the pods that use a node, and for which a condition holds."""
        return sum(
            int(container["resources"]["requests"]["cpu"])
            for pod in self.pods.values()
            if pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") not in OVER and of(pod)
            for container in pod["spec"]["containers"]
        )

    def _fits(self, node: str, key: str) -> None:
        used = self._requests(lambda pod: pod["spec"]["nodeName"] == node)
        if node in self.nodes and used > self.nodes[node]:
            self.fault(f"node {node} has {self.nodes[node]} cpu and its pods request {used} with {key}")

    def _within_limit(self, pod: dict[str, Any]) -> None:
        queue = self._queue_of(pod)
        limit = self._capabilities.get(queue)
        if limit is not None:
            # As in Volcano, what pods that are being deleted still use is no longer allocated to their queue.
            used = self._requests(
                lambda other: self._queue_of(other) == queue and "deletionTimestamp" not in other["metadata"]
            )
            if used > limit:
                self.fault(f"queue {queue} has a capability of {limit} cpu and its pods request {used}")

    def _queue_of(self, pod: dict[str, Any]) -> str:
        job = self._job_of(pod)
        return str(job["spec"].get("queue", "default")) if job is not None else ""

    def _job_of(self, pod: dict[str, Any]) -> dict[str, Any] | None:
        owners = pod["metadata"].get("ownerReferences") or ()
        return next((self.jobs[owner["uid"]] for owner in owners if owner["uid"] in self.jobs), None)

    def _job(self, body: dict[str, Any], gone: bool) -> None:
        uid, name = body["metadata"]["uid"], body["metadata"]["name"]
        phase = str(((body.get("status") or {}).get("state") or {}).get("phase", ""))
        if gone:
            self.jobs.pop(uid, None)
            self._succeeded.pop(uid, None)
            if name not in self.deleted:
                self.fault(f"job {name} is lost: nobody has deleted it")
            return
        if uid not in self.jobs and name in self.invalid and self._fail_closed:
            self.fault(f"job {name} was created, which admission refuses")
        self.jobs[uid] = body
        before = self._ended.get(uid, "")
        if before in {"Completed", "Failed", "Terminated"} and phase != before:
            self.fault(f"job {name} is {phase} after {before}")
        if phase in ENDED:
            self._ended[uid] = phase
        succeeded = len(self._succeeded.get(uid, ()))
        if phase == "Completed" != before and succeeded < int(body["spec"].get("minAvailable", 0)):
            self.fault(f"job {name} is Completed with {succeeded} successful pods")

    def _gang(self, member: dict[str, Any]) -> None:
        """Note since when part of a gang runs alone."""
        job = self._job_of(member)
        if job is None:
            return
        uid, least = job["metadata"]["uid"], int(job["spec"].get("minAvailable", 0))
        pods = [pod for pod in self.pods.values() if self._job_of(pod) is job]
        phases = Counter(pod.get("status", {}).get("phase", "Pending") for pod in pods)
        part = phases["Running"] > 0 and phases["Running"] + phases["Succeeded"] + phases["Failed"] < least
        if part:
            self._partial.setdefault(uid, self._clock())
        elif (since := self._partial.pop(uid, None)) is not None:
            self._judge_part(job, since)

    def _judge_part(self, job: dict[str, Any], since: float) -> None:
        alone = self._clock() - max(since, self.calm_since)
        if alone > STARTING:
            self.fault(f"part of the gang of job {job['metadata']['name']} ran alone for {alone:.0f} s")

    def finish(self) -> None:
        """Judge what is still so at the end."""
        for uid, since in self._partial.items():
            if uid in self.jobs:
                self._judge_part(self.jobs[uid], since)

    def uid_of(self, job: str) -> str:
        """Return the uid of a job, empty if it does not exist."""
        return next((uid for uid, body in self.jobs.items() if body["metadata"]["name"] == job), "")

    def unfinished(self) -> list[str]:
        """Return the jobs without an end, with their phases."""
        phases = {
            body["metadata"]["name"]: str(((body.get("status") or {}).get("state") or {}).get("phase", ""))
            for body in self.jobs.values()
        }
        return [f"{name} {phase or 'without phase'}" for name, phase in sorted(phases.items()) if phase not in ENDED]
