"""Progress of the jobs of `local run`: a live table on a terminal, a line for each change in a pipe.

A flow is done in its final phase, a cron job when one of its jobs has completed.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live

from volcanopy.api import names
from volcanopy.cli.render import ENDED, HEADINGS, JobRow, job_row, job_table, plain_table
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind

JOBS: Kind[Json] = Kind(names.BATCH, "v1alpha1", "BatchJob", "batchjobs", True, dict)
FLOWS: Kind[Json] = Kind(names.FLOW, "v1alpha1", "JobFlow", "jobflows", True, dict)
CRON_JOBS: Kind[Json] = Kind(names.BATCH, "v1alpha1", "CronBatchJob", "cronbatchjobs", True, dict)
_TICK = 0.5
"""Seconds between updates of the table when nothing changes but the ages."""


class Progress:
    """Shows every job of a cluster until all have ended."""

    def __init__(self, client: Client, console: Console) -> None:
        self._reflector = Reflector(client, JOBS)
        self._owners = (Reflector(client, FLOWS), Reflector(client, CRON_JOBS))
        self._console = console
        self._jobs: dict[str, Json] = {}
        self._printed: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Show the jobs that exist and those created meanwhile, until all have ended."""
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(owner.run(lambda _: self._changed.set())) for owner in self._owners]
            watching.append(tasks.create_task(self._reflector.run(self._take)))
            for reflector in (*self._owners, self._reflector):
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
        rows = self._rows()
        if self._console.is_terminal:
            self._console.print(job_table(rows))
        else:
            self._print(plain_table(HEADINGS, [row.cells for row in rows]))

    def unfinished(self) -> str:
        """Return the jobs that have not ended with their messages, as a clause."""
        owners = [_state(owner) for owner in self._unfinished_owners()]
        jobs = _listed(row for row in self._rows() if not row.ended)
        return "; ".join([*owners, *([jobs] if jobs else [])]) or "all jobs are done"

    def failed(self) -> str:
        """Return the jobs that have not completed with their messages, as a clause; empty if there are none."""
        flows, _ = self._owners
        failed = [_state(flow) for flow in flows.objects.values() if _flow_phase(flow) == "Failed"]
        jobs = _listed(row for row in self._rows() if row.ended and row.phase != "Completed")
        return "; ".join([*failed, *([jobs] if jobs else [])])

    async def _follow_live(self) -> None:
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(job_table(self._rows()), refresh=True)
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

    def _take(self, changes: Sequence[Change[Json]]) -> None:
        for change in changes:
            key = f"{change.object['metadata']['namespace']}/{change.object['metadata']['name']}"
            self._jobs[key] = _deleted(change.object) if change.type is ChangeType.DELETED else change.object
            if not self._console.is_terminal:
                self._print_change(key)
        self._changed.set()

    def _print_change(self, key: str) -> None:
        """Print a job whose phase is new, or that is pending for another reason."""
        row = job_row(self._jobs[key], datetime.now(UTC))
        change = f"{row.phase} {row.reason}" if row.phase == "Pending" else row.phase
        if row.reason and self._printed.get(key) != change:
            self._printed[key] = change
            self._print(row.line)

    def _print(self, text: str) -> None:
        print(text, file=self._console.file, flush=True)

    def _rows(self) -> list[JobRow]:
        now = datetime.now(UTC)
        return [job_row(self._jobs[key], now) for key in sorted(self._jobs)]

    def _all_ended(self) -> bool:
        return not self._unfinished_owners() and all(row.ended for row in self._rows())

    def _unfinished_owners(self) -> list[Json]:
        """Return the flows that are not done, and the cron jobs without a completed job."""
        flows, crons = self._owners
        unfinished = [flow for flow in flows.objects.values() if _flow_phase(flow) not in {"Succeed", "Failed"}]
        return unfinished + [
            cron for cron in crons.objects.values() if not (cron.get("status") or {}).get("lastSuccessfulTime")
        ]


def _flow_phase(flow: Json) -> str:
    return str(((flow.get("status") or {}).get("state") or {}).get("phase", ""))


def _state(owner: Json) -> str:
    """Return the state of a flow or cron job as a clause."""
    meta, status = owner["metadata"], owner.get("status") or {}
    message = (status.get("state") or {}).get("message") or status.get("message")
    what = f"flow {meta['name']} is {_flow_phase(owner) or 'Pending'}" if owner["kind"] == FLOWS.kind else ""
    return (what or f"cron job {meta['name']} has no completed job") + (f" ({message})" if message else "")


def _listed(rows: Iterable[JobRow]) -> str:
    return "; ".join(f"{row.job} is {row.phase}" + (f" ({row.message})" if row.message else "") for row in rows)


def _deleted(job: Json) -> Json:
    """Return a deleted job: as it ended, or as terminated."""
    state = (job.get("status") or {}).get("state") or {}
    if state.get("phase") in ENDED:
        return job
    ended = {**state, "phase": "Terminated", "message": "the job was deleted"}
    return {**job, "status": {**(job.get("status") or {}), "state": ended}}
