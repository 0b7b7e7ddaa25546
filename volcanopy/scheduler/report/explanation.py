"""Why a job waits: what the session found out about it, as one sentence and in numbers.

Sentences are made here and nowhere else, once a session has ended, and only for jobs that wait: for equal reasons once.
The first gate counts that a job does not pass; what later gates would say of it is not known yet.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from volcanopy.scheduler.framework.plugin import Rejection
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.limit_messages import Overlimit
from volcanopy.scheduler.model.messages import Shortage, Words, by_name, say
from volcanopy.scheduler.model.plan import Explain
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session

_CONTESTED = frozenset({"overcommit", "share", "capability", "nodes"})
"""The gates that those ahead in the line have to do with."""
_NAMED = 3
"""So many pods or nodes are named one by one."""


class _Line(NamedTuple):
    """A job's place in the line of its queue, from 1, and the job right before it."""

    place: int
    before: str


class Explainer:
    """What is to be said of the jobs of one session that wait."""

    def __init__(self, session: Session) -> None:
        self._session = session
        table = session.snapshot.tasks
        status = session.ledger.status
        rows = np.flatnonzero(((status == Status.PENDING) | (status == Status.ALLOCATED)) & (table.job != NONE))
        gated = table.gated[rows]
        stops = session.snapshot.queues.terms.stops
        if stops is not None:  # their pods are held back by no gate of their own
            gated &= ~stops.held[session.snapshot.jobs.queue[table.job[rows]]]
        self._pods = _by_job(session, rows[~gated])
        self._gated = _by_job(session, rows[gated])
        self._words: dict[int, Words] = {}
        self._limits: dict[Overlimit, Words] = {}
        self._pipelined: list[int] = session.ledger.job_counts[Status.PIPELINED].tolist()
        self._least: list[int] = session.snapshot.jobs.min_available.tolist()
        self._keys: list[str] = session.snapshot.jobs.keys.tolist()
        self._keeps_room = "reservation" not in session.hooks.unanswered
        self._lines = self._places()

    def explain(self, job: JobView) -> Explain | None:
        """Why the job, or what is left of it, waits; None if it does not."""
        session = self._session
        denial, found = session.rejections.by_job.get(job.row), session.rejections.fit_errors.get(job.row)
        admitted = job.phase != "Pending"
        if admitted and self._pipelined[job.row] and not job.is_ready and job.is_pipelined:
            return self._make(job, "nodes", self._freed(job))
        if denial is not None:
            fitted = session.rejections.placed.get(job.row, 0)
            gate, words = self._said(denial, job, fitted)
            return self._make(job, gate, self._beside(job, words), fitted)
        if found is not None:
            why, fitted = found
            known = self._words.get(id(why))
            if known is None:
                known = self._words[id(why)] = Words(why.sentence, {}, why.amounts, why.unblock, why.ahead)
            return self._make(job, "nodes", self._beside(job, known), fitted, why.counts)
        if job.row in self._gated and not job.is_ready:
            return self._make(job, "gang", self._held_back(job))
        if job.row in self._pods and job.row in session.rejections.notes:
            return self._make(job, "nodes", Words("; ".join(session.rejections.notes[job.row])))
        if job.row in self._pods or not admitted:
            return self._make(job, "actions", _unasked(session, admitted))
        return None

    def _make(
        self, job: JobView, gate: str, words: Words, fitted: int = 0, nodes: Mapping[str, int] | None = None
    ) -> Explain:
        needed = max(self._least[job.row], 1)
        message, numbers = words.message, {"needed": str(needed), "fit": str(fitted), **words.numbers}
        if fitted and not job.is_ready:
            message = f"{needed} pods must start together, {fitted} of them fit: for the next, {message}"
        message = by_name(message)
        ahead, line = words.ahead, self._lines.get(job.row)
        if line is not None:
            numbers["place"] = str(line.place)
            if not ahead and line.before and gate in _CONTESTED:
                ahead = (f"job {line.before}",)
        if self._keeps_room:
            numbers |= self._session.hooks.reservation(job) or {}
        return Explain(
            job=self._keys[job.row],
            gate=gate,
            message=message,
            numbers=numbers,
            nodes={} if nodes is None else {by_name(reason): count for reason, count in nodes.items()},
            unblock=by_name(words.unblock),
            pods=dict.fromkeys(self._pods.get(job.row, ()), message),
            amounts=words.amounts,
            ahead=tuple(map(by_name, ahead)),
        )

    def _beside(self, job: JobView, words: Words) -> Words:
        """The words with what else was tried for the job, and why that did not help either."""
        asides = self._session.rejections.notes.get(job.row)
        return replace(words, message="; ".join([words.message, *asides])) if asides else words

    def _said(self, denial: Rejection, job: JobView, fitted: int) -> tuple[str, Words]:
        """The gate and words of a denial; where a queue as a whole was denied, of what the job's next pod asks for."""
        reason = denial.reason
        if isinstance(reason, Shortage) and (fitted or not reason.wanted):
            ledger, waiting = self._session.ledger, self._session.ordered(job.tasks(Status.PENDING)).tolist()
            if waiting and not reason.wanted:
                reason = reason.asked_by(tuple(ledger.request(waiting[0]).tolist()))
            elif fitted:
                beside = fitted if job.is_ready else max(fitted, self._least[job.row] - job.ready_count - 1)
                own = sum(
                    (ledger.request(row) for row in waiting[:beside]), start=np.zeros(len(reason.names), np.int64)
                )
                reason = reason._replace(own=tuple(own.tolist()))
        if isinstance(reason, Overlimit):
            return denial.gate, self._limited(reason, job, fitted)
        return reason.gate if isinstance(reason, Shortage) else denial.gate, say(reason)

    def _limited(self, reason: Overlimit, job: JobView, fitted: int) -> Words:
        """The words of a limit, and who has used it up."""
        if fitted and reason.names and not job.is_ready:
            ledger, waiting = self._session.ledger, self._session.ordered(job.tasks(Status.PENDING)).tolist()
            others = waiting[: max(job.min_available - job.ready_count, fitted + 1) - 1]
            places = [self._session.snapshot.axis.index[name] for name in reason.names]
            reason = reason._replace(
                own=tuple(sum(int(ledger.request(row)[place]) for row in others) for place in places)
            )
        words, limits = self._limits.get(reason), self._session.limits
        if words is None:
            words = reason.words()
            self._limits[reason] = words = replace(words, ahead=limits.blocked_by(reason)) if limits else words
        me = f"job {self._keys[job.row]}"
        return replace(words, ahead=tuple(one for one in words.ahead if one != me)) if me in words.ahead else words

    def _freed(self, job: JobView) -> Words:
        """The job has its places; pods that leave still hold some of the room."""
        session = self._session
        rows = job.tasks(Status.PIPELINED)
        where = sorted({session.snapshot.nodes.names[session.ledger.node[row]] for row in rows.tolist()})
        leaving = "the pods that leave it" if len(where) == 1 else "the pods that leave them"
        return Words(
            f"waits for room that is being freed for {job.waiting_count} of its pods",
            {"waiting": str(job.waiting_count)},
            {},
            f"{_some(where, 'node')}: {leaving} must be gone",
        )

    def _held_back(self, job: JobView) -> Words:
        """Too few of the job's pods may be placed: scheduling gates hold the others back."""
        gated = sorted(self._gated[job.row])
        missing = job.min_available - job.ready_count - len(self._pods.get(job.row, ()))
        missing = min(max(missing, 1), len(gated))
        pods = self._session.snapshot.tasks.pods
        index = self._session.snapshot.task_rows
        gates = sorted({gate.name for key in gated for gate in pods[index[key]].spec.scheduling_gates})
        names = [key.rpartition("/")[2] for key in gated]
        removed = f"scheduling gate {gates[0]}" if len(gates) == 1 else f"scheduling gates {', '.join(gates)}"
        what = _some(names, "pod") if missing == len(gated) else f"{missing} of {_some(names, 'pod')}"
        return Words(
            f"{len(gated)} of the job's pods are held back by {removed}"
            if len(gated) > 1
            else f"pod {names[0]} is held back by {removed}",
            {"gated": str(len(gated)), "missing": str(missing)},
            {},
            f"{removed} must be removed from {what}",
        )

    def _places(self) -> dict[int, _Line]:
        """Where jobs stand in the line of their queue: those admitted first, each in the order of their turns."""
        session = self._session
        rows = list(session.rejections.order)
        if not rows:
            return {}
        queues = session.snapshot.jobs.queue[rows].tolist()
        phases = session.ledger.phase[rows].tolist()
        keys = session.snapshot.jobs.keys
        last: dict[int, tuple[int, str]] = {}
        places: dict[int, _Line] = {}
        for admitted in (True, False):
            for row, queue, phase in zip(rows, queues, phases, strict=True):
                if (phase != "Pending") is admitted:
                    place, before = last.get(queue, (0, ""))
                    places[row] = _Line(place + 1, before)
                    last[queue] = (place + 1, str(keys[row]))
        return places


def _by_job(session: Session, rows: Rows) -> dict[int, list[str]]:
    """The keys of tasks by their job, in order."""
    table = session.snapshot.tasks
    found: dict[int, list[str]] = {}
    for job, key in zip(table.job[rows].tolist(), table.keys[rows].tolist(), strict=True):
        found.setdefault(job, []).append(key)
    for keys in found.values():
        keys.sort()
    return found


def _some(names: list[str], kind: str) -> str:
    """Up to three names, and how many more there are."""
    if len(names) == 1:
        return f"{kind} {names[0]}"
    more = len(names) - _NAMED
    return f"{kind}s {', '.join(names[:_NAMED])}" + (f" and {more} more" if more > 0 else "")


def _unasked(session: Session, admitted: bool) -> Words:
    """No configured action looked at the job, or none that could have placed what it has."""
    action = "allocate and backfill" if admitted else "enqueue"
    there = ", ".join(session.config.actions)
    return Words(
        f"none of the configured actions ({there}) places what it has" if admitted else f"nobody admits it: {there}",
        {},
        {},
        f"the scheduler's configuration must name the actions {action}"
        if admitted
        else f"the scheduler's configuration must name the action {action}",
    )
