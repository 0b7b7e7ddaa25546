"""The JSON of Volcano's HTTP extender: requests from views of the session, and answers.

Field names are those of Volcano's Go types (``TaskInfo``, ``NodeInfo``, ``JobInfo``, ``QueueInfo``), which have no JSON tags.
Objects of Kubernetes in them have the fields that the scheduler reads. Amounts are as in Volcano: cpu and devices in thousandths,
memory in bytes.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import ON_NODE, Status

encode = msgspec.json.Encoder(order="deterministic").encode
"""Returns the bytes of a request or of a part of one."""
UNSCHEDULABLE = 2
"""The code of an answer for a node that evictions may make feasible; Volcano's others stand for the whole session."""


class PredicateAnswer(msgspec.Struct):
    """Whether a node takes a task: an empty ``status`` if it does."""

    status: str = ""
    code: int = 0


class PrioritizeAnswer(msgspec.Struct):
    """The scores of nodes."""

    nodeScore: dict[str, float] | None = None  # noqa: N815
    errorMessage: str = ""  # noqa: N815


class Victim(msgspec.Struct):
    """A task that may be evicted."""

    UID: str = ""


class VoteAnswer(msgspec.Struct):
    """Whether a job may be enqueued, or which tasks be evicted: ``status`` above 0 permits, 0 abstains, below 0 rejects."""

    status: int = 0
    victims: list[Victim] | None = None


class OverusedAnswer(msgspec.Struct):
    """Whether a queue gets nothing more."""

    overused: bool = False


class ReadyAnswer(msgspec.Struct):
    """Whether a job can start."""

    status: bool = False


class EventAnswer(msgspec.Struct):
    """What is wrong with an allocation."""

    errorMessage: str = ""  # noqa: N815


class Encoder:
    """Encodes views of one session; what does not change is encoded once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods: dict[int, msgspec.Raw] = {}
        self._nodes: dict[int, tuple[int, msgspec.Raw]] = {}
        self._seen: dict[int, int] = {}
        self._synced = 0

    def task(self, task: TaskView) -> dict[str, Any]:
        """Return a TaskInfo."""
        pod = task.pod
        if task.row not in self._pods:
            self._pods[task.row] = msgspec.Raw(encode(pod))
        names, amounts = self._cluster.snapshot.nodes.names, self._resource(task.request.values)
        job = task.job
        return {
            "UID": pod.metadata.uid,
            "Job": "" if job is None else job.key,
            "Name": pod.metadata.name,
            "Namespace": pod.metadata.namespace,
            "TaskRole": "" if task.role == NONE else self._cluster.snapshot.roles.names[task.role],
            "Resreq": amounts,
            "InitResreq": amounts,
            "NodeName": "" if task.node == NONE else names[task.node],
            "Status": _status(task.status),
            "Priority": task.priority,
            "Preemptable": task.preemptable,
            "BestEffort": task.best_effort,
            "SchGated": task.gated,
            "Pod": self._pods[task.row],
            "PodAnnotations": pod.metadata.annotations,
        }

    def node(self, row: int) -> msgspec.Raw:
        """Return a NodeInfo with the tasks on the node, as they are now."""
        ledger = self._cluster.ledger
        for touched in ledger.touched_since(self._synced).tolist():
            self._seen[touched] = self._seen.get(touched, 0) + 1
        self._synced = ledger.changes
        version = self._seen.get(row, 0)
        known = self._nodes.get(row)
        if known is None or known[0] != version:
            known = self._nodes[row] = (version, msgspec.Raw(encode(self._node(row))))
        return known[1]

    def _node(self, row: int) -> dict[str, Any]:
        ledger, nodes = self._cluster.ledger, self._cluster.snapshot.nodes
        pipelined = np.flatnonzero((ledger.node == row) & (ledger.status == Status.PIPELINED))
        there = np.flatnonzero((ledger.node == row) & (ON_NODE[ledger.status] | (ledger.status == Status.PIPELINED)))
        allocatable = self._resource(nodes.allocatable.values[:, row])
        idle, future = ledger.idle[:, row], ledger.future[:, row]
        waiting = self._summed(pipelined)
        return {
            "Name": nodes.names[row],
            "Node": nodes.traits.objects[row],
            "State": {"Phase": 1, "Reason": ""},
            "Releasing": self._resource(future - idle + waiting),
            "Pipelined": self._resource(waiting),
            "Idle": self._resource(idle),
            "Used": self._resource(ledger.used[:, row]),
            "Allocatable": allocatable,
            "Capacity": allocatable,
            "Tasks": {task.pod.metadata.uid: self.task(task) for task in map(self._cluster.task, there.tolist())},
        }

    def job(self, job: JobView) -> dict[str, Any]:
        """Return a JobInfo."""
        group, tasks = job.group, [self._cluster.task(row) for row in job.tasks().tolist()]
        return {
            "UID": job.key,
            "PgUID": group.metadata.uid,
            "Name": group.metadata.name,
            "Namespace": group.metadata.namespace,
            "Queue": job.queue.name,
            "Priority": job.priority,
            "MinAvailable": job.min_available,
            "Tasks": {task.pod.metadata.uid: self.task(task) for task in tasks},
            "TaskMinAvailable": {role.name: role.minimum for role in job.roles},
            "TaskMinAvailableTotal": sum(role.minimum for role in job.roles),
            "Allocated": self._resource(job.allocated.values),
            "TotalRequest": self._resource(self._summed(job.tasks())),
            "CreationTimestamp": group.metadata.creation_timestamp,
            "PodGroup": group,
            "Preemptable": job.preemptable,
        }

    def queue(self, queue: QueueView) -> dict[str, Any]:
        """Return a QueueInfo."""
        return {
            "UID": queue.name,
            "Name": queue.name,
            "Weight": int(self._cluster.snapshot.queues.weight[queue.row]),
            "Queue": queue.object,
        }

    def session(self) -> dict[str, Any]:
        """Return the body of the request that opens a session: all jobs, nodes and queues."""
        cluster, names = self._cluster, self._cluster.snapshot.nodes.names
        queues = [cluster.queue(row) for row in range(len(cluster.snapshot.queues))]
        return {
            "Jobs": {job.key: self.job(job) for job in cluster.jobs()},
            "Nodes": {name: self.node(row) for row, name in enumerate(names)},
            "Queues": {queue.name: self.queue(queue) for queue in queues if queue.object is not None},
            "NamespaceInfo": {},
            "RevocableNodes": {},
            "NodeList": list(names),
        }

    def _summed(self, tasks: Rows) -> Ints:
        return self._cluster.snapshot.requests(tasks).sum(axis=1)

    def _resource(self, amounts: Ints) -> dict[str, Any]:
        """Return a Resource: cpu in thousandths, memory in bytes, devices in thousandths."""
        units = dict(zip(self._cluster.axis.names, amounts.tolist(), strict=True))
        cpu, memory = units.pop("cpu", 0), units.pop("memory", 0)
        scalars = {name: amount if name == "pods" else amount * 1000 for name, amount in units.items() if amount}
        return {"MilliCPU": cpu, "Memory": memory, "ScalarResources": scalars, "MaxTaskNum": units.get("pods", 0)}


def _status(status: Status) -> int:
    """Return Volcano's number of a status: one bit each, in the same order."""
    return 1 << min(int(status), int(Status.UNKNOWN))


def requests_any(resources: Iterable[str], task: TaskView) -> bool:
    """Whether a container of the task's pod requests one of these resources, or has a limit on it."""
    named = set(resources)
    containers = (*task.spec.containers, *task.spec.init_containers)
    return any(
        not named.isdisjoint(part) for each in containers for part in (each.resources.requests, each.resources.limits)
    )
