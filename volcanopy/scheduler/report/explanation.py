"""Explanations of waiting jobs: the first gate that a job does not pass, as a message with numbers.

Messages are made here, when the session has ended, for jobs that wait only, and once for equal reasons. The first gate that
rejects a job counts: what later gates would answer is not known yet.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from volcanopy.api import core
from volcanopy.api.gates import Gate
from volcanopy.api.quantity import counted
from volcanopy.api.queue_gate import is_gated
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.fit_error import Why
from volcanopy.scheduler.engine.rejections import Recorded
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.messages import Message, QuotaMessage, message_of, with_job_names
from volcanopy.scheduler.model.plan import Explain
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.plugin import Rejection

_CONTESTED = frozenset({Gate.OVERCOMMIT, Gate.SHARE, Gate.CAPABILITY, Gate.NODES})
"""The gates at which the jobs before a job in its queue compete with it."""
_AFTER_GANG = frozenset(tuple(Gate)[tuple(Gate).index(Gate.GANG) + 1 :])
"""The gates that a job passes after the one for its gang."""


class Explainer:
    """Explains the waiting jobs of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._limits: dict[QuotaMessage, Message] = {}
        self._quotas: dict[int, tuple[QuotaMessage, Gate, Message]] = {}
        """What follows from each quota, by the number of the object: many jobs share it."""
        self._unfit: dict[int, Why] = {}
        """Why no node takes a task, by its shape."""
        self._positions = _positions(session)

    # What follows is computed when the first job is explained: in most cycles none is.

    @cached_property
    def _pods_by_job(self) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
        session, table = self._session, self._session.snapshot.tasks
        rows = session.ledger.unsettled_tasks
        status = session.ledger.status[rows]
        rows = rows[((status == Status.PENDING.value) | (status == Status.ALLOCATED.value)) & (table.job[rows] != NONE)]
        gated = table.gated[rows]
        stops = session.snapshot.queues.terms.stops
        if stops is not None:  # the queue keeps their pods from starting, not a scheduling gate
            gated &= ~stops.held[session.snapshot.jobs.queue[table.job[rows]]]
        return _by_job(session, rows[~gated]), _by_job(session, rows[gated])

    @cached_property
    def waits_for_ends(self) -> frozenset[int]:
        """The jobs whose pods wait on nodes for pods that end by themselves: none was evicted or moved there, now or earlier."""
        session, table, ledger = self._session, self._session.snapshot.tasks, self._session.ledger
        rows = ledger.unsettled_tasks
        waiting = rows[np.isin(ledger.status[rows], (Status.PIPELINED.value, Status.ALLOCATED.value))]
        nodes, jobs = ledger.node[waiting], table.job[waiting]
        evicted = np.array(list(ledger.evictions), dtype=np.intp)
        reserved = (table.nominated[waiting] != NONE) | np.isin(nodes, ledger.node[evicted])
        behind = np.isin(nodes, ledger.node[ledger.status == Status.RELEASING])
        behind &= ledger.status[waiting] == Status.PIPELINED
        moved = (pod.job for pod in session.snapshot.moves.pods)
        return frozenset(jobs[behind].tolist()).difference(jobs[reserved].tolist(), moved)

    @cached_property
    def _pods(self) -> dict[int, list[str]]:
        """The pods that wait, by job, without gated ones."""
        return self._pods_by_job[0]

    @cached_property
    def _gated(self) -> dict[int, list[str]]:
        """The gated pods by job."""
        return self._pods_by_job[1]

    def explain(self, job: JobView) -> Explain | None:
        """Return why the job, or the rest of it, waits; None if it does not."""
        session = self._session
        rejection, unfit, fitted = session.rejections.reasons.get(job.row, Recorded(None, None, 0))
        admitted = job.phase != "Pending"
        if admitted and session.ledger.job_counts[Status.PIPELINED, job.row] and not job.is_ready and job.is_pipelined:
            return self._make(job, Gate.NODES, self._terminating(job))
        placeable = len(self._pods.get(job.row, ()))
        lacks_gated = job.row in self._gated and not job.is_ready and job.ready_count + placeable < job.min_available
        if admitted and lacks_gated:
            if rejected := [pod for pod in map(self._pod, sorted(self._gated[job.row])) if not is_gated(pod)]:
                return self._make(job, Gate.GANG, self._rejected_binds(rejected))
            if rejection is None or rejection.gate in _AFTER_GANG:
                return self._make(job, Gate.GANG, self._scheduling_gates(job))
        if rejection is not None:
            gate, message = self._rejected(rejection, job, fitted)
            is_full = gate == Gate.NODES and not fitted and not rejection.never_passes
            unfit = self._never_fits(job) if admitted and is_full else None
            if unfit is None:
                return self._make(job, gate, self._with_attempts(job, message), fitted)
        if unfit is not None:
            message = Message(unfit.sentence, {}, unfit.amounts, unfit.unblocked_by, unfit.blocked_by)
            return self._make(job, Gate.NODES, self._with_attempts(job, message), fitted, unfit.counts)
        if job.row in self._gated and not job.is_ready:
            return self._make(job, Gate.GANG, self._scheduling_gates(job))
        if job.row in self._pods and job.row in session.rejections.notes:
            return self._make(job, Gate.NODES, Message("; ".join(session.rejections.notes[job.row])))
        if job.row in self._pods or not admitted:
            return self._make(job, Gate.ACTIONS, _missing_action(session, admitted))
        return None

    def _never_fits(self, job: JobView) -> Why | None:
        """Why no node takes the waiting pods of a job whatever else ends, which a full cluster would hide; None if one does."""
        session = self._session
        if not session.cluster.queries.unplaceable()[job.row]:
            return None
        rows, infeasible = job.tasks(Status.PENDING), session.placement.infeasible_nodes
        _, first = np.unique(session.snapshot.tasks.shape[rows], return_index=True)
        tasks = [TaskView(session.ledger, row) for row in rows[first].tolist()]
        if not tasks or not len(session.snapshot.nodes) or not all(infeasible(task).all() for task in tasks):
            return None
        task = tasks[0] if len(tasks) == 1 else TaskView(session.ledger, int(session.ordered(rows)[0]))
        key = int(session.snapshot.tasks.shape[task.row])
        if key not in self._unfit:
            self._unfit[key] = session.placement.why_not(task)
        return self._unfit[key]

    def _make(
        self, job: JobView, gate: str, message: Message, fitted: int = 0, nodes: Mapping[str, int] | None = None
    ) -> Explain:
        needed = max(int(self._session.snapshot.jobs.min_available[job.row]), 1)
        text, numbers = message.text, {"needed": str(needed), "fit": str(fitted), **message.numbers}
        if fitted and not job.is_ready and not message.of_gang:
            text = f"{needed} pods must start together, {fitted} can be placed: {text}"
        considered = self._session.ledger.alternatives.get(job.row)
        if considered is not None:
            text = f'alternative "{considered[0].name}": {text}'
            numbers |= self._session.alternatives.numbers(job)
        text = with_job_names(text)
        blocked_by, position = message.blocked_by, self._positions.get(job.row)
        if blocked_by:
            own = f"queue {job.queue.name}"  # whose jobs are what it waits for, not the queue itself
            blocked_by = tuple([name for name in blocked_by if name != own])
        if position is not None:
            number, before = position
            numbers["position"] = str(number)
            if not blocked_by and before and gate in _CONTESTED:
                blocked_by = (f"job {before}",)
        if self._session.reservations is not None:
            numbers |= self._session.reservations.details(job) or {}
        return Explain(
            job=self._session.snapshot.jobs.keys[job.row],
            gate=gate,
            message=text,
            numbers=numbers,
            nodes={} if nodes is None else {with_job_names(reason): count for reason, count in nodes.items()},
            unblocked_by=with_job_names(message.unblocked_by),
            pods=dict.fromkeys(self._pods.get(job.row, ()), text),
            amounts=message.amounts,
            blocked_by=tuple(map(with_job_names, blocked_by)),
        )

    def _with_attempts(self, job: JobView, message: Message) -> Message:
        """The message with what else was tried for the job, and why it did not help."""
        attempts = self._session.rejections.notes.get(job.row)
        return replace(message, text="; ".join([message.text, *attempts])) if attempts else message

    def _rejected(self, rejection: Rejection, job: JobView, fitted: int) -> tuple[str, Message]:
        """The gate and message of a rejection; where a whole queue was rejected, for the request of the job's next pod."""
        reason = rejection.reason
        if not isinstance(reason, QuotaMessage):
            return rejection.gate, message_of(reason)
        quota = self._for_next_pod(reason, job, fitted)
        known = self._quotas.get(id(quota))
        if known is None:
            known = self._quotas[id(quota)] = quota, quota.gate, quota.as_message()
        _, gate, message = known
        return gate, self._limited(quota, job) if quota.kind == "limits" else message

    def _for_next_pod(self, quota: QuotaMessage, job: JobView, fitted: int) -> QuotaMessage:
        if quota.tentative_pods and job.is_ready:  # the pods that were placed before have been bound
            quota = quota.placed_tentatively(0, ())
        if quota.requested and not fitted:
            return quota
        ledger, waiting = self._session.ledger, self._session.ordered(job.tasks(Status.PENDING)).tolist()
        index = self._session.snapshot.axis.index
        places = [index[name] for name in quota.names]
        if not quota.requested:
            return quota._replace(requested=tuple(ledger.request(waiting[0])[places].tolist())) if waiting else quota
        others = fitted if job.is_ready else max(fitted, job.min_available - job.ready_count - 1)
        own = sum((ledger.request(row)[places] for row in waiting[:others]), start=np.zeros(len(places), np.int64))
        gang = len(waiting[:others]) + 1 if quota.tentative_pods else 0
        return quota._replace(own=tuple(own.tolist()), gang=gang)

    def _limited(self, quota: QuotaMessage, job: JobView) -> Message:
        """The message of a limit, with the other jobs that use it."""
        message, limits = self._limits.get(quota), self._session.limits
        if message is None:
            message = quota.as_message()
            if limits is not None:
                message = replace(message, blocked_by=limits.blocked_by(quota))
            self._limits[quota] = message
        own = f"job {job.key}"
        if own not in message.blocked_by:
            return message
        return replace(message, blocked_by=tuple(job for job in message.blocked_by if job != own))

    def _terminating(self, job: JobView) -> Message:
        """The job's pods have nodes, on which other pods still have to terminate."""
        session, ledger = self._session, self._session.ledger
        nodes = np.unique(ledger.node[job.tasks(Status.PIPELINED)])
        count = int((np.isin(ledger.node, nodes) & (ledger.status == Status.RELEASING)).sum())
        names = sorted(session.snapshot.nodes.names[node] for node in nodes.tolist())
        kind = "pod" if job.row in self.waits_for_ends else "evicted pod"
        text = f"waiting for {counted(count, kind)} to terminate"
        unblocked_by = f"termination of {counted(count, 'pod')} on {_some(names, 'node')}"
        if not count:  # placed after the actions that bind
            text, unblocked_by = f"starts in the next cycle on {_some(names, 'node')}", "the next cycle"
        return Message(text, {"waiting": str(job.waiting_count)}, {}, unblocked_by)

    def _scheduling_gates(self, job: JobView) -> Message:
        """Too few of the job's pods can be placed, as others have scheduling gates."""
        gated = sorted(self._gated[job.row])
        missing = job.min_available - job.ready_count - len(self._pods.get(job.row, ()))
        missing = min(max(missing, 1), len(gated))
        gates = sorted({gate.name for key in gated for gate in self._pod(key).spec.scheduling_gates})
        listed = f"scheduling gate{'s' if len(gates) > 1 else ''} " + ", ".join(f'"{gate}"' for gate in gates)
        names = [key.rpartition("/")[2] for key in gated]
        some = _some(names, "pod") if missing == len(gated) else f"{missing} of {_some(names, 'pod')}"
        return Message(
            f"{len(gated)} pods have {listed}" if len(gated) > 1 else f'pod "{names[0]}" has {listed}',
            {"gated": str(len(gated)), "missing": str(missing)},
            {},
            f"removal of {listed} from {some}",
        )

    def _pod(self, key: str) -> core.Pod:
        snapshot = self._session.snapshot
        row = snapshot.task_row(key)
        assert row is not None
        return snapshot.tasks.pods[row]

    @staticmethod
    def _rejected_binds(pods: list[core.Pod]) -> Message:
        """The API server has rejected the binds of these pods."""
        names, conditions = [pod.metadata.name for pod in pods], pods[0].status.conditions
        messages = [condition.message for condition in conditions if condition.reason == "SchedulerError"]
        why = messages[0] if messages else "the API server rejects the bind"
        return Message(
            f"{_some(names, 'pod')} {'wait' if len(names) > 1 else 'waits'} for the next attempt to bind: {why}",
            {"gated": str(len(names)), "missing": str(len(names))},
            {},
            "binds that the API server accepts",
        )


def _positions(session: Session) -> dict[int, tuple[int, str]]:
    """The position of each waiting job in its queue, from 1, and the job before it: admitted jobs first, as they were tried."""
    rows = list(session.rejections.order)
    if not rows:
        return {}
    queues = session.snapshot.jobs.queue[rows].tolist()
    phases = session.ledger.phase[rows].tolist()
    keys = session.snapshot.jobs.keys
    last: dict[int, tuple[int, str]] = {}
    positions: dict[int, tuple[int, str]] = {}
    for admitted in (True, False):
        for row, queue, phase in zip(rows, queues, phases, strict=True):
            if (phase != "Pending") is admitted:
                number, before = last.get(queue, (0, ""))
                positions[row] = (number + 1, before)
                last[queue] = (number + 1, str(keys[row]))
    return positions


def _by_job(session: Session, rows: Rows) -> dict[int, list[str]]:
    """The keys of tasks by their job, in order."""
    table = session.snapshot.tasks
    tasks: dict[int, list[str]] = {}
    for job, key in zip(table.job[rows].tolist(), table.keys[rows].tolist(), strict=True):
        tasks.setdefault(job, []).append(key)
    for keys in tasks.values():
        keys.sort()
    return tasks


def _some(names: list[str], kind: str) -> str:
    """Up to three names, and how many more there are."""
    more = len(names) - defaults.NAMED_PODS
    listed = ", ".join(f'"{name}"' for name in names[: defaults.NAMED_PODS])
    return f"{kind}{'s' if len(names) > 1 else ''} {listed}" + (f" and {more} more" if more > 0 else "")


def _missing_action(session: Session, admitted: bool) -> Message:
    """No configured action enqueues the job, or places its pods."""
    actions = ", ".join(session.config.actions)
    task, missing = (
        ("places its pods", "actions allocate and backfill") if admitted else ("enqueues it", "action enqueue")
    )
    text = f"none of the configured actions ({actions}) {task}"
    return Message(text, {}, {}, f"adding the {missing} to the scheduler configuration")
