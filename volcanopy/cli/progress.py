"""How the jobs of a run fare: a live table on a terminal, a line for each change in a pipe.

A flow is done when it says so; a cron job, which is never done, when one of its jobs has come to a good end.
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
"""Seconds between two renewals of the table when nothing happens: the times in it go on."""


class Progress:
    """Follows every job of a cluster until all have ended."""

    def __init__(self, client: Client, console: Console) -> None:
        self._reflector = Reflector(client, JOBS)
        self._makers = (Reflector(client, FLOWS), Reflector(client, CRON_JOBS))
        self._console = console
        self._jobs: dict[str, Json] = {}
        self._said: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Show the jobs until all have ended; those that exist now count, and those that come meanwhile."""
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(one.run(lambda _: self._changed.set())) for one in self._makers]
            watching.append(tasks.create_task(self._reflector.run(self._take)))
            for reflector in (*self._makers, self._reflector):
                await reflector.synced.wait()
            if self._console.is_terminal:
                await self._follow_live()
            else:
                while not self._all_ended():
                    await self._next_change()
            for one in watching:
                one.cancel()

    def show_end(self) -> None:
        """Print the table of how all jobs stand, after which nothing more is shown."""
        rows = self._rows()
        if self._console.is_terminal:
            self._console.print(job_table(rows))
        else:
            self._print(plain_table(HEADINGS, [row.cells for row in rows]))

    def unfinished(self) -> str:
        """The jobs that have not ended and why, as a clause."""
        makers = [_stands(one) for one in self._unfinished_makers()]
        jobs = _listed(row for row in self._rows() if not row.ended)
        return "; ".join([*makers, *([jobs] if jobs else [])]) or "all jobs are done"

    def failed(self) -> str:
        """The jobs that ended otherwise than well and why, as a clause; empty if there are none."""
        flows, _ = self._makers
        failed = [_stands(one) for one in flows.objects.values() if _flow_phase(one) == "Failed"]
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
                self._say(key)
        self._changed.set()

    def _say(self, key: str) -> None:
        """A line, where the phase is new, or a job that waits does so for another reason."""
        row = job_row(self._jobs[key], datetime.now(UTC))
        news = f"{row.phase} {row.reason}" if row.phase == "Pending" else row.phase
        if row.reason and self._said.get(key) != news:
            self._said[key] = news
            self._print(row.line)

    def _print(self, text: str) -> None:
        print(text, file=self._console.file, flush=True)

    def _rows(self) -> list[JobRow]:
        now = datetime.now(UTC)
        return [job_row(self._jobs[key], now) for key in sorted(self._jobs)]

    def _all_ended(self) -> bool:
        return not self._unfinished_makers() and all(row.ended for row in self._rows())

    def _unfinished_makers(self) -> list[Json]:
        """Flows that are not done, and cron jobs of which no job has come to a good end yet."""
        flows, crons = self._makers
        going = [one for one in flows.objects.values() if _flow_phase(one) not in {"Succeed", "Failed"}]
        return going + [
            one for one in crons.objects.values() if not (one.get("status") or {}).get("lastSuccessfulTime")
        ]


def _flow_phase(flow: Json) -> str:
    return str(((flow.get("status") or {}).get("state") or {}).get("phase", ""))


def _stands(maker: Json) -> str:
    """How a flow or a cron job stands, as a clause."""
    meta, status = maker["metadata"], maker.get("status") or {}
    said = (status.get("state") or {}).get("message") or status.get("message")
    what = f"flow {meta['name']} is {_flow_phase(maker) or 'Pending'}" if maker["kind"] == FLOWS.kind else ""
    return (what or f"cron job {meta['name']} has had no complete job") + (f" ({said})" if said else "")


def _listed(rows: Iterable[JobRow]) -> str:
    return "; ".join(f"{row.job} is {row.phase}" + (f" ({row.why})" if row.why else "") for row in rows)


def _deleted(job: Json) -> Json:
    """A job that is gone: as it ended, or else as one that somebody stopped."""
    state = (job.get("status") or {}).get("state") or {}
    if state.get("phase") in ENDED:
        return job
    ended = {**state, "phase": "Terminated", "message": "the job was deleted"}
    return {**job, "status": {**(job.get("status") or {}), "state": ended}}
