"""extender: ask a program outside over HTTP, with Volcano's protocol."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

import msgspec
import numpy as np
from pydantic import Field, model_validator

from volcanopy.api.gates import Gate
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.extender_port import Answer
from volcanopy.scheduler.model.once import once_by
from volcanopy.scheduler.model.resources import Floats, Mask, Rows
from volcanopy.scheduler.model.task_status import PLACED
from volcanopy.scheduler.nodes import extender_wire as wire
from volcanopy.scheduler.policy import roles
from volcanopy.scheduler.policy.durations import above_zero, seconds
from volcanopy.scheduler.policy.plugin import ABSTAIN, PERMIT, Arguments, Names, NodeRejection, Plugin, Rejection, Vote
from volcanopy.scheduler.policy.plugin import reject as rejecting
from volcanopy.scheduler.policy.roles import Nodes, Purpose, Victims

T = TypeVar("T")
_LONGEST_REASON = 200
"""Most characters of a text of the extender in a message."""


class ExtenderArguments(Arguments):
    """Where the extender is, and the name of each of its verbs; a verb that is empty is not used."""

    url: str = Field("", alias="extender.urlPrefix")
    """The URL before the verbs, such as `http://127.0.0.1:8713`."""
    timeout: Annotated[str, above_zero("100ms or 1s")] = Field("1s", alias="extender.httpTimeout")
    """The longest time of each request."""
    session_open: str = Field("", alias="extender.onSessionOpenVerb")
    """Verb called when a session begins, with all jobs, nodes and queues."""
    session_close: str = Field("", alias="extender.onSessionCloseVerb")
    """Verb called when a session ends."""
    predicate: str = Field("", alias="extender.predicateVerb")
    """Verb: whether a node takes a task."""
    prioritize: str = Field("", alias="extender.prioritizeVerb")
    """Verb: the scores of the nodes that take a task."""
    preemptable: str = Field("", alias="extender.preemptableVerb")
    """Verb: which tasks of its queue a task may evict."""
    reclaimable: str = Field("", alias="extender.reclaimableVerb")
    """Verb: which tasks of other queues a task may evict."""
    overused: str = Field("", alias="extender.queueOverusedVerb")
    """Verb: whether a queue gets nothing more."""
    enqueueable: str = Field("", alias="extender.jobEnqueueableVerb")
    """Verb: whether a job may be enqueued."""
    enqueued: str = Field("", alias="extender.jobEnqueuedVerb")
    """Verb called when a job is enqueued."""
    ready: str = Field("", alias="extender.jobReadyVerb")
    """Verb: whether a job can start with the pods that are placed."""
    allocate: str = Field("", alias="extender.allocateFuncVerb")
    """Verb called when a task is placed on a node."""
    deallocate: str = Field("", alias="extender.deallocateFuncVerb")
    """Verb called when a task is evicted, or no longer placed."""
    ignorable: bool = Field(False, alias="extender.ignorable")
    """Whether the extender counts as having no opinion where it fails; else a failure rejects what was asked."""
    managed: Names = Field((), alias="extender.managedResources")
    """Only tasks that request one of these resources are the extender's concern; all if none is named."""

    @model_validator(mode="after")
    def _has_address(self) -> "ExtenderArguments":
        address = urlsplit(self.url)
        if self.url and (address.scheme not in ("http", "https") or not address.hostname):
            raise ValueError(f"extender.urlPrefix: must be a URL such as http://127.0.0.1:8713, not {self.url!r}")
        verbs = (field.alias for name, field in type(self).model_fields.items() if getattr(self, name))
        verb = next((alias for alias in verbs if alias and alias.endswith("Verb")), None)
        if verb and not self.url:
            raise ValueError(f"extender.urlPrefix must be set: {verb} names a verb of an extender without an address")
        return self


class _Answers:
    """The answers of the predicate verb about all nodes for equal tasks, and up to which change of nodes they are valid."""

    def __init__(self, nodes: int) -> None:
        self.seen = 0
        self.known: Mask = np.zeros(nodes, dtype=np.bool_)
        self.rejections: dict[int, tuple[str, bool]] = {}


class Extender(Plugin[ExtenderArguments], Nodes, Victims, roles.Gate):
    """Ask a program outside, with Volcano's protocol.

    A question is asked once for equal tasks of a role of a job, and again for nodes that changed. Nodes whose free resources are
    insufficient are not asked about. When the extender cannot be reached, it is not asked again in the cycle.
    """

    name: ClassVar[str] = "extender"
    moments: ClassVar[frozenset[roles.Moment]] = frozenset(
        {roles.Moment.ENQUEUE, roles.Moment.ENQUEUED, roles.Moment.READY}
    )
    arguments: ClassVar[type[Arguments]] = ExtenderArguments

    def open(self) -> None:
        """Report the begin of the session."""
        self._down = ""
        self._wire = wire.Encoder(self.cluster)
        self._rejections: dict[Hashable, _Answers] = {}
        self._ready: dict[Hashable, bool] = {}
        self._overused: dict[Hashable, Rejection | None] = {}
        self._reported, self._allocated = 0, PLACED[self.cluster.snapshot.tasks.status]
        self._rejected: dict[int, str] = {}
        self._role = self.task_value(self._role_of)
        if self.args.session_open and self.cluster.extender is not None:
            (answer,) = self._ask(self.args.session_open, [wire.encode(self._wire.session())])
            if answer.error and not self.args.ignorable:
                self._down = answer.error

    def couples_nodes(self, task: TaskView) -> bool:
        """Scores compare all nodes with each other."""
        return bool(self.args.prioritize) and self._concerns(task)

    def reject(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """The nodes that the extender rejects, of those with enough free resources."""
        if not self.args.predicate or not self._concerns(task):
            return []
        self._report()
        answers = self._answers(task)
        rows = nodes.rows
        request = task.request.values
        dims = np.flatnonzero(request)
        enough = (self.cluster.ledger.future[np.ix_(dims, rows)] >= request[dims, None]).all(axis=0)
        unknown = np.unique(rows[enough & ~answers.known[rows]])
        if len(unknown):
            self._ask_about(task, unknown, answers)
        reasons: dict[tuple[str, bool], Mask] = {}
        for position, row in enumerate(rows.tolist()):
            if row in answers.rejections:
                mask = reasons.setdefault(answers.rejections[row], np.zeros(len(rows), dtype=np.bool_))
                mask[position] = True
        return [NodeRejection(reason, mask, final=final) for (reason, final), mask in reasons.items()]

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """The scores of the extender; 0 for nodes that it does not name."""
        if not self.args.prioritize:
            return np.zeros((len(tasks), 1))
        return tasks.each(lambda task: self._scores(task, nodes))

    def _scores(self, task: TaskView, nodes: NodesView) -> Floats:
        scores = np.zeros(len(nodes), dtype=np.float64)
        if not self._concerns(task):
            return scores
        self._report()
        names, rows = self.cluster.snapshot.nodes.names, nodes.rows.tolist()
        body = {"task": self._wire.task(task.representative), "nodes": [self._wire.node(row) for row in rows]}
        answer, _ = self._question(self.args.prioritize, body, wire.PrioritizeAnswer)
        if answer is None or answer.errorMessage or not answer.nodeScore:
            return scores
        scores[:] = [answer.nodeScore.get(names[row], 0.0) for row in rows]
        return np.where(np.isfinite(scores), scores, 0.0)

    def allows(
        self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView] | None:
        """The candidates that the extender names."""
        verb = {Purpose.PREEMPT: self.args.preemptable, Purpose.RECLAIM: self.args.reclaimable}.get(purpose, "")
        if not verb or not self._concerns(preemptor):
            return None
        self._report()
        body = {"evictor": self._wire.task(preemptor), "evictees": [self._wire.task(each) for each in candidates]}
        answer, error = self._question(verb, body, wire.VoteAnswer)
        if error:
            return None if self.args.ignorable else []
        if answer is None or not answer.status:
            return None
        named = {victim.UID for victim in answer.victims or ()}
        return [each for each in candidates if answer.status > 0 and each.pod.metadata.uid in named]

    def verdict(self, job: JobView, moment: roles.Moment) -> Vote:
        """Pass on the vote of the extender on an admission or start, and report the admission."""
        if moment is roles.Moment.ENQUEUE:
            return self._admission(job)
        return self._admitted(job) if moment is roles.Moment.ENQUEUED else self._start(job)

    def _admission(self, job: JobView) -> Vote:
        if not self.args.enqueueable:
            return ABSTAIN
        body = {"job": self._wire.job(job)}
        answer, error = self._question(self.args.enqueueable, body, wire.VoteAnswer)
        if error:
            return ABSTAIN if self.args.ignorable else rejecting(Gate.OVERCOMMIT, error)
        if answer is None or not answer.status:
            return ABSTAIN
        return PERMIT if answer.status > 0 else rejecting(Gate.OVERCOMMIT, f"extender {self.args.url} rejects the job")

    def _admitted(self, job: JobView) -> Vote:
        """Report the admission of a job."""
        if self.args.enqueued:
            self._question(self.args.enqueued, {"job": self._wire.job(job)}, wire.EventAnswer)
        return ABSTAIN

    def queue_verdict(self, queue: QueueView) -> Rejection | None:
        """Why the queue is overused, if the extender answers so."""
        if not self.args.overused or queue.object is None:
            return None
        key = (queue.row, queue.allocated.values.tobytes())
        if key not in self._overused:
            body = {"queue": self._wire.queue(queue)}
            answer, error = self._question(self.args.overused, body, wire.OverusedAnswer)
            reason = "" if self.args.ignorable else error
            if answer is not None and answer.overused:
                reason = f'extender {self.args.url}: queue "{queue.name}" is overused'
            self._overused[key] = Rejection(Gate.SHARE, reason) if reason else None
        return self._overused[key]

    def _start(self, job: JobView) -> Vote:
        """Reject the start of a job if the extender does, or if it rejected any of the job's placements."""
        return ABSTAIN if self._agrees(job) else rejecting(Gate.GANG, f"extender {self.args.url} rejects the start")

    def _agrees(self, job: JobView) -> bool:
        self._report()
        if self._rejected and any(row in self._rejected for row in job.tasks().tolist()):
            return False
        if not self.args.ready:
            return True
        key = (job.row, job.tally)
        if key not in self._ready:
            body = {"job": self._wire.job(job)}
            answer, error = self._question(self.args.ready, body, wire.ReadyAnswer)
            self._ready[key] = (self.args.ignorable or not error) if answer is None else answer.status
        return self._ready[key]

    def close(self) -> None:
        """Report the last placements, and the end of the session."""
        self._report()
        if self.args.session_close:
            self._ask(self.args.session_close, [b"{}"])

    # Nodes

    def _role_of(self, task: TaskView) -> tuple[int | None, int] | None:
        """Tasks of one shape and role of a job differ in their names only."""
        if not self._concerns(task) or not (self.args.predicate or self.args.prioritize):
            return None
        job = task.job
        return (None if job is None else job.row, task.role)

    def _answers(self, task: TaskView) -> _Answers:
        key, ledger = (task.shape, self._role(task)), self.cluster.ledger
        answers = self._rejections.get(key)
        if answers is None:
            answers = self._rejections[key] = _Answers(len(self.cluster.snapshot.nodes))
        for row in np.unique(ledger.touched_since(answers.seen)).tolist():
            answers.known[row] = False
            answers.rejections.pop(row, None)
        answers.seen = ledger.changes
        return answers

    def _ask_about(self, task: TaskView, rows: Rows, answers: _Answers) -> None:
        body = self._wire.task(task.representative)
        requests = [wire.encode({"task": body, "node": self._wire.node(row)}) for row in rows.tolist()]
        for row, answer in zip(rows.tolist(), self._ask(self.args.predicate, requests), strict=True):
            verdict, error = self._read(self.args.predicate, answer, wire.PredicateAnswer)
            answers.known[row] = True
            if error and not self.args.ignorable:
                answers.rejections[row] = (error, True)
            elif verdict is not None and verdict.status:
                reason = f"extender: {_short(verdict.status)}"
                answers.rejections[row] = (reason, verdict.code != wire.UNSCHEDULABLE)

    @once_by("shape")
    def _concerns(self, task: TaskView) -> bool:
        if self.cluster.extender is None:
            return False
        return not self.args.managed or wire.requests_any(self.args.managed, task)

    # Placements

    def _report(self) -> None:
        """Report the tasks that were placed, evicted or taken back since the last report."""
        if not (self.args.allocate or self.args.deallocate) or self.cluster.extender is None:
            return
        ledger = self.cluster.ledger
        rows = np.unique(ledger.moved_since(self._reported))
        self._reported = ledger.moves
        for row in rows.tolist():
            is_allocated = bool(PLACED[ledger.status[row]])
            if is_allocated == bool(self._allocated[row]):
                continue
            self._allocated[row] = is_allocated
            self._rejected.pop(row, None)
            task = self.cluster.task(row)
            verb = self.args.allocate if is_allocated else self.args.deallocate
            if verb and self._concerns(task):
                body = {"task": self._wire.task(task)}
                answer, error = self._question(verb, body, wire.EventAnswer)
                error_message = answer.errorMessage if answer is not None else "" if self.args.ignorable else error
                if is_allocated and error_message:
                    self._rejected[row] = error_message

    # Requests

    def _question(self, verb: str, content: dict[str, Any], kind: type[T]) -> tuple[T | None, str]:
        """Ask one question; return the answer, or the error; neither where the answer is not known."""
        (answer,) = self._ask(verb, [wire.encode(content)])
        return self._read(verb, answer, kind)

    def _ask(self, verb: str, requests: Sequence[bytes]) -> Sequence[Answer]:
        extender = self.cluster.extender
        if self._down or extender is None:
            return [Answer(error=self._down)] * len(requests)
        answers = extender.ask(f"{self.args.url.rstrip('/')}/{verb}", seconds(self.args.timeout), requests)
        self._down = next((answer.error for answer in answers if answer.down), "")
        return answers

    def _read(self, verb: str, answer: Answer, kind: type[T]) -> tuple[T | None, str]:
        if answer.error or answer.body is None:
            return None, answer.error
        try:
            return msgspec.json.decode(answer.body, type=kind), ""
        except (msgspec.DecodeError, ValueError) as error:
            return None, f"extender {self.args.url} returned an invalid answer to {verb}: {_short(str(error))}"


def _short(text: str) -> str:
    """Return a text of the extender as part of one line."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"
