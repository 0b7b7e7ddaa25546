"""Progress of the jobs of `local run`: a live table on a terminal, changes of each interval in a pipe.

A flow is done in its final phase, a cron job when one of its jobs has completed. The run is over when everything is done, or
when only a change lets the other jobs start.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace
from rich.console import Console
from rich.live import Live

from volcanopy.api import names
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.flow_read import JobFlow
from volcanopy.cli.framework.tables import NAMESPACE, Column, TableForm, phase_style, print_table, reason_column
from volcanopy.cli.jobs.views import group_key
from volcanopy.cli.views.flows import phase as flow_phase
from volcanopy.client.explain.confirmed import UnreadableError, answers, cluster_state
from volcanopy.client.jobs.logs import end_of_log
from volcanopy.client.jobs.pods import pods_of
from volcanopy.client.jobs.status import (
    FINISHED,
    SUSPENDED,
    message,
    minimum,
    phase,
    queue,
    ready,
    reason,
    shown_phase,
    starts_soon,
    summary,
    total,
)
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.errors import ApiError
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.printable import printable
from volcanopy.kube.client.raw_kinds import CRON_JOBS, FLOWS, JOBS
from volcanopy.scheduler.model import pod_fields
from volcanopy.whatif.answer import JobAnswer
from volcanopy.whatif.starts import Start

T = TypeVar("T")
ENDED = FINISHED | {SUSPENDED}
"""Phases of a job in which nothing of it runs."""
_TICK = 0.5
"""Seconds between updates of the table when nothing changes but the ages."""
_INTERVAL = 10.0
"""Seconds between the changes that are printed in a pipe."""
_SEARCH_SECONDS = 5.0
"""Time for the search for remedies."""


def seconds(job: BatchJob, now: datetime) -> float:
    """Return the age of a job, or its duration once it has ended."""
    state, created = job.status.state, job.metadata.creation_timestamp
    end = state.last_transition_time if phase(job) in ENDED else None
    return max(0.0, ((end or now) - (created or now)).total_seconds())


_COLUMNS = (
    Column("JOB", lambda job, _: job.metadata.name),
    Column("PHASE", lambda job, _: shown_phase(job), style=phase_style),
    Column("READY", lambda job, _: str(ready(job))),
    Column("MIN", lambda job, _: str(minimum(job))),
    Column("TOTAL", lambda job, _: str(total(job))),
    Column("QUEUE", lambda job, _: queue(job)),
    Column("TIME", lambda job, now: f"{seconds(job, now):.0f}s"),
)


def table(jobs: Sequence[BatchJob], explained: Collection[str] = ()) -> TableForm:
    """Return the columns for jobs: with namespaces if there are several, and with reasons except for `explained` jobs."""
    namespaces = (NAMESPACE,) if len({job.metadata.namespace for job in jobs}) > 1 else ()
    keys = {job.metadata.key for job in jobs if reason(job)} - set(explained)
    reasons = (reason_column(lambda job: reason(job) if job.metadata.key in keys else ""),) if keys else ()
    return TableForm((*namespaces, *_COLUMNS, *reasons))


class Progress:
    """Shows every job of a cluster until all have ended, whichever of the served APIs it is of."""

    def __init__(self, client: Client, console: Console, api: str = names.API) -> None:
        self._client, views = client, list(api_views(client, api))
        self._watches = {view: Reflector(view, JOBS.of(BatchJob)) for view in views}
        self._flows = [Reflector(view, FLOWS.of(JobFlow)) for view in views]
        self._crons = [Reflector(view, CRON_JOBS) for view in views]
        self._console = console
        self._jobs: dict[tuple[str, str], tuple[Client, BatchJob]] = {}
        self._printed: dict[str, str] = {}
        self._changed = asyncio.Event()
        self.blocked: list[JobAnswer] = []
        """What the scheduler answers about the jobs with which the run was over before they started."""

    async def follow(self) -> None:
        """Show the jobs that exist and those created meanwhile, until the run is over."""
        owners: tuple[Reflector[Any], ...] = (*self._flows, *self._crons)
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(owner.run(lambda _: self._changed.set())) for owner in owners]
            watching += [tasks.create_task(jobs.run(partial(self._take, view))) for view, jobs in self._watches.items()]
            for reflector in (*owners, *self._watches.values()):
                await reflector.synced.wait()
            showing = asyncio.create_task(self._show_live() if self._console.is_terminal else self._print_changes())
            try:
                while not await self._is_over():
                    await self._changed.wait()
                    self._changed.clear()
            finally:
                showing.cancel()
                await asyncio.wait((showing,))
            for task in watching:
                task.cancel()

    def show_end(self) -> None:
        """Print the final table of all jobs; the reasons of blocked jobs are for their own lines."""
        explained = {f"{answer.target.namespace}/{answer.target.name}" for answer in self.blocked}
        print_table(table(self._rows(), explained), self._rows(), datetime.now(UTC))

    def jobs(self) -> list[tuple[Client, BatchJob]]:
        """Return the jobs by name, each with the view of its API."""
        return [self._jobs[key] for key in sorted(self._jobs)]

    def unfinished(self) -> str:
        """Return the jobs that have not ended with their messages, as a clause."""
        jobs = _listed(job for job in self._rows() if phase(job) not in ENDED)
        flows, crons = self._unfinished_owners()
        return "; ".join([*map(_flow_state, flows), *map(_cron_state, crons), *jobs]) or "all jobs are done"

    def failed(self) -> str:
        """Return the jobs that have ended without success, with their messages, as a clause; empty if there are none."""
        failed = [_flow_state(flow) for flow in _objects(self._flows) if flow_phase(flow) == "Failed"]
        jobs = _listed(job for job in self._rows() if phase(job) in ENDED - {"Completed"})
        return "; ".join([*failed, *jobs])

    async def _is_over(self) -> bool:
        """Return whether everything is done, or only a change lets the rest start."""
        unfinished = [job for job in self._rows() if phase(job) not in ENDED]
        flows, crons = self._unfinished_owners()
        if not (unfinished or flows or crons):
            return True
        if crons or not all(map(is_explained, unfinished)) or not all(is_blocked(flow, self._rows()) for flow in flows):
            return False
        blocked = await blocked_jobs(self._client, unfinished)
        if not self._changed.is_set():
            self.blocked = blocked
        return bool(self.blocked)

    async def _show_live(self) -> None:
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(table(self._rows()).rich(self._rows(), datetime.now(UTC)), refresh=True)
                await asyncio.sleep(_TICK)

    async def _print_changes(self) -> None:
        """Print after each interval the jobs that have changed in it."""
        while True:
            await asyncio.sleep(_INTERVAL)
            for job in self._rows():
                key, change = job.metadata.key, f"{job.metadata.key} {summary(job)}"
                if self._printed.get(key) != change:
                    self._printed[key] = change
                    print(change, file=self._console.file, flush=True)

    def _take(self, view: Client, changes: Sequence[Change[BatchJob]]) -> None:
        for change in changes:
            job = _deleted(change.object) if change.type is ChangeType.DELETED else change.object
            self._jobs[job.metadata.key, view.api] = (view, job)
        self._changed.set()

    def _rows(self) -> list[BatchJob]:
        return [job for _, job in self.jobs()]

    def _unfinished_owners(self) -> tuple[list[JobFlow], list[Json]]:
        """Return the flows that are not done, and the cron jobs without a completed job."""
        flows = [flow for flow in _objects(self._flows) if flow_phase(flow) not in {"Succeed", "Failed"}]
        return flows, [
            cron for cron in _objects(self._crons) if not (cron.get("status") or {}).get("lastSuccessfulTime")
        ]


def _objects(watches: Iterable[Reflector[T]]) -> Iterator[T]:
    return (item for watch in watches for item in watch.objects.values())


def _flow_state(flow: JobFlow) -> str:
    return _clause(f"flow {flow.metadata.name} is {flow_phase(flow)}", flow.status.state.message)


def _cron_state(cron: Json) -> str:
    return _clause(
        f"cron job {cron['metadata']['name']} has no completed job", (cron.get("status") or {}).get("message", "")
    )


def _listed(jobs: Iterable[BatchJob]) -> list[str]:
    return [_clause(f"{job.metadata.key} is {phase(job)}", message(job)) for job in jobs]


def _clause(text: str, reason: str) -> str:
    return f"{text} ({reason})" if reason else text


def _deleted(job: BatchJob) -> BatchJob:
    """Return a deleted job: as it ended, or as terminated."""
    if phase(job) in ENDED:
        return job
    state = replace(job.status.state, phase="Terminated", message="the job was deleted")
    return replace(job, status=replace(job.status, state=state))


def is_explained(job: BatchJob) -> bool:
    """Return whether a job waits for a reason that the scheduler has given."""
    return phase(job) == "Pending" and not starts_soon(job)


def is_blocked(flow: JobFlow, jobs: Sequence[BatchJob]) -> bool:
    """Return whether a flow creates no further job before one of its unfinished jobs, all that are given, has completed."""
    steps = {f"{flow.metadata.name}-{step.name}": step for step in flow.spec.flows}
    own = {job.metadata.name: job for job in jobs if job.metadata.namespace == flow.metadata.namespace}
    completed = {name for name, job in own.items() if phase(job) == "Completed"}
    missing = [step for name, step in steps.items() if name not in own]
    targets = [step.depends_on.targets if step.depends_on is not None else () for step in missing]
    creates = any(all(f"{flow.metadata.name}-{target}" in completed for target in names) for names in targets)
    return not creates and any(is_explained(own[name]) for name in steps if name in own)


async def blocked_jobs(client: Client, jobs: Sequence[BatchJob]) -> list[JobAnswer]:
    """Return why these jobs, which are all that have not ended, do not start, and what lets them start.

    Empty if one of them may start without a change: now, or when what runs has ended.
    """
    try:
        state = await cluster_state(client)
    except UnreadableError:
        return []
    job_answers = await answers(state, [group_key(job) for job in jobs], _SEARCH_SECONDS)
    pods = state.cluster.of_kind("Pod").values()
    idle = not any(pod.spec.node_name and not pod_fields.is_over(pod) for pod in pods)
    blocked = [
        answer
        for answer in job_answers.values()
        if answer.start is Start.NEVER or (idle and answer.start is Start.AFTER)
    ]
    return blocked if len(blocked) == len(jobs) else []


async def print_last_lines(jobs: Sequence[tuple[Client, BatchJob]], count: int) -> None:
    """Print the last lines of the first container of every pod of jobs, each given with the view of its API."""
    for client, job in jobs:
        for pod in await pods_of(client, job):
            try:
                text = await end_of_log(client, pod, count)
            except ApiError:
                continue  # it has not started, or was deleted meanwhile
            for line in text.splitlines():
                print(f"{pod.metadata.name} | {printable(line)}")
