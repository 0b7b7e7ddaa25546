"""Progress of the jobs of `local run`: a live table on a terminal, a line for each change in a pipe.

A flow is done in its final phase, a cron job when one of its jobs has completed.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace
from rich.console import Console
from rich.live import Live

from volcanopy.api.batch_read import BatchJob, CronBatchJob, JobFlow
from volcanopy.api.bindings import VOLCANOPY, Binding
from volcanopy.cli.framework.tables import Column, TableForm, phase_style, reason_column
from volcanopy.cli.jobs.status import FINISHED, SUSPENDED, message, phase, queue, shown_phase, summary, total
from volcanopy.cli.views.flows import phase as flow_phase
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.raw_kinds import CRON_JOBS, FLOWS, JOBS, bound

T = TypeVar("T")
ENDED = FINISHED | {SUSPENDED}
"""Phases of a job in which nothing of it runs."""
_TICK = 0.5
"""Seconds between updates of the table when nothing changes but the ages."""


def seconds(job: BatchJob, now: datetime) -> float:
    """Return the age of a job, or its duration once it has ended."""
    state, created = job.status.state, job.metadata.creation_timestamp
    end = state.last_transition_time if phase(job) in ENDED else None
    return max(0.0, ((end or now) - (created or now)).total_seconds())


TABLE = TableForm(
    (
        Column("JOB", lambda job, _: job.metadata.key),
        Column("PHASE", lambda job, _: shown_phase(job), style=phase_style),
        Column("RUNNING", lambda job, _: str(job.status.running)),
        Column("SUCCEEDED", lambda job, _: str(job.status.succeeded)),
        Column("FAILED", lambda job, _: str(job.status.failed)),
        Column("PODS", lambda job, _: str(total(job))),
        Column("QUEUE", lambda job, _: queue(job)),
        Column("TIME", lambda job, now: f"{seconds(job, now):.0f}s"),
        reason_column(message),
    )
)


class Progress:
    """Shows every job of a cluster until all have ended, whichever of the served APIs it is of."""

    def __init__(self, client: Client, console: Console, apis: Sequence[Binding] = (VOLCANOPY,)) -> None:
        self._watches = {api: Reflector(client, bound(JOBS, api).of(BatchJob)) for api in apis}
        self._flows = [Reflector(client, bound(FLOWS, api).of(JobFlow)) for api in apis]
        self._crons = [Reflector(client, bound(CRON_JOBS, api).of(CronBatchJob)) for api in apis]
        self._console = console
        self._jobs: dict[tuple[str, str], tuple[Binding, BatchJob]] = {}
        self._printed: dict[tuple[str, str], str] = {}
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Show the jobs that exist and those created meanwhile, until all have ended."""
        owners: tuple[Reflector[Any], ...] = (*self._flows, *self._crons)
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(owner.run(lambda _: self._changed.set())) for owner in owners]
            watching += [tasks.create_task(jobs.run(partial(self._take, api))) for api, jobs in self._watches.items()]
            for reflector in (*owners, *self._watches.values()):
                await reflector.synced.wait()
            if self._console.is_terminal:
                await self._follow_live()
            else:
                while not self._all_ended():
                    await self._next_change()
            for task in watching:
                task.cancel()

    def show_end(self) -> None:
        """Print the final table of all jobs."""
        if self._console.is_terminal:
            self._console.print(TABLE.rich(self._rows(), datetime.now(UTC)))
        else:
            self._print(TABLE.plain(self._rows(), datetime.now(UTC)))

    def jobs(self) -> list[tuple[Binding, BatchJob]]:
        """Return the jobs by name, each with its API."""
        return [self._jobs[key] for key in sorted(self._jobs)]

    def unfinished(self) -> str:
        """Return the jobs that have not ended with their messages, as a clause."""
        jobs = _listed(job for job in self._rows() if phase(job) not in ENDED)
        return "; ".join([*self._unfinished_owners(), *jobs]) or "all jobs are done"

    def failed(self) -> str:
        """Return the jobs that have not completed with their messages, as a clause; empty if there are none."""
        failed = [_flow_state(flow) for flow in _objects(self._flows) if flow_phase(flow) == "Failed"]
        jobs = _listed(job for job in self._rows() if phase(job) in ENDED - {"Completed"})
        return "; ".join([*failed, *jobs])

    async def _follow_live(self) -> None:
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(TABLE.rich(self._rows(), datetime.now(UTC)), refresh=True)
                if self._all_ended():
                    return
                await self._next_change(_TICK)

    async def _next_change(self, timeout: float | None = None) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return

    def _take(self, api: Binding, changes: Sequence[Change[BatchJob]]) -> None:
        for change in changes:
            job = _deleted(change.object) if change.type is ChangeType.DELETED else change.object
            key = (job.metadata.key, api.name)
            self._jobs[key] = (api, job)
            if not self._console.is_terminal:
                self._print_change(key, job)
        self._changed.set()

    def _print_change(self, key: tuple[str, str], job: BatchJob) -> None:
        """Print a job whose phase is new, or that is pending for another reason."""
        reason = job.status.state.reason
        change = f"{phase(job)} {reason}" if phase(job) == "Pending" else phase(job)
        if reason and self._printed.get(key) != change:
            self._printed[key] = change
            self._print(f"{job.metadata.key} {summary(job)}")

    def _print(self, text: str) -> None:
        print(text, file=self._console.file, flush=True)

    def _rows(self) -> list[BatchJob]:
        return [job for _, job in self.jobs()]

    def _all_ended(self) -> bool:
        return not self._unfinished_owners() and all(phase(job) in ENDED for job in self._rows())

    def _unfinished_owners(self) -> list[str]:
        """Return the flows that are not done, and the cron jobs without a completed job, as clauses."""
        flows = [flow for flow in _objects(self._flows) if flow_phase(flow) not in {"Succeed", "Failed"}]
        crons = [cron for cron in _objects(self._crons) if cron.status.last_successful_time is None]
        return [*map(_flow_state, flows), *map(_cron_state, crons)]


def _objects(watches: Iterable[Reflector[T]]) -> Iterator[T]:
    return (item for watch in watches for item in watch.objects.values())


def _flow_state(flow: JobFlow) -> str:
    return _clause(f"flow {flow.metadata.name} is {flow_phase(flow)}", flow.status.state.message)


def _cron_state(cron: CronBatchJob) -> str:
    return _clause(f"cron job {cron.metadata.name} has no completed job", cron.status.message)


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
