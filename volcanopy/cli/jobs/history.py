"""``volcanopy job history`` and ``volcanopy usage``: what ended jobs did and used, from the JobHistories of the controller."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from volcanopy.api import names, quantity
from volcanopy.api.quantity import counted
from volcanopy.cli.framework.documents import print_report
from volcanopy.cli.framework.options import ClusterOptions
from volcanopy.cli.framework.tables import plain_table
from volcanopy.cli.jobs.options import By, ReportFormat
from volcanopy.client.durations import current_time, local_time, seconds, span
from volcanopy.client.errors import CommandError
from volcanopy.client.objects import list_objects
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOB_HISTORIES, JOBS

_NONE = "-"
_RECORD = ("admitted", "placed", "finished")


@dataclass(frozen=True)
class RecordedJob:
    """A job: the fields of its record, with its namespace and uid. One that has not ended has no ``finished``."""

    namespace: str
    uid: str
    fields: Json

    def time(self, field: str) -> datetime | None:
        """Return a time of the job; None if it did not come to that."""
        text = self.fields.get(field)
        return datetime.fromisoformat(text) if text else None

    def between(self, first: str, second: str) -> str:
        """Return the time between two moments of the job."""
        begin, end = self.time(first), self.time(second)
        return span((end - begin).total_seconds()) if begin is not None and end is not None else _NONE

    def evicted(self) -> int:
        """Return the number of evicted pods."""
        return sum(int(eviction.get("pods", 1)) for eviction in self.fields.get("evictions") or ())

    def used(self) -> dict[str, int]:
        """Return the resource-seconds in base units."""
        return quantity.amounts(self.fields.get("resourceSeconds") or {})

    def document(self) -> Json:
        """Return the job as JSON."""
        return {"namespace": self.namespace, "uid": self.uid, **self.fields}


async def history(
    cluster: ClusterOptions, namespace: str | None, everywhere: bool, name: str, since: str, output: ReportFormat
) -> None:
    """Print the history of jobs of a name, or of all jobs: those that have ended and those that exist."""
    async with cluster.client() as client:
        place = None if everywhere else namespace or client.connection.namespace
        entries = {entry.uid: entry for entry in map(existing_entry, await list_objects(client, JOBS, place))}
        entries |= {entry.uid: entry for entry in await recorded(client, place)}
    begin = _begin(since)
    chosen = [
        entry
        for entry in entries.values()
        if name in {"", entry.fields["name"]} and ((end := entry.time("finished")) is None or end >= begin)
    ]
    chosen.sort(key=lambda entry: (entry.fields.get("queued") or "", entry.namespace, entry.fields["name"]))
    if output is not ReportFormat.table:
        print_report({"kind": "JobHistory", "items": [entry.document() for entry in chosen]}, output)
    elif name and not chosen:
        raise CommandError(f'no record of a job "{name}"' + (f' in namespace "{place}"' if place else ""))
    elif name:
        print("\n\n".join(_described(entry) for entry in chosen))
    else:
        print(_table(chosen, everywhere=everywhere))


async def usage(cluster: ClusterOptions, namespace: str | None, by: By, since: str, output: ReportFormat) -> None:
    """Print what the jobs of a namespace, or of all, that ended within some time used, by user, queue or namespace."""
    async with cluster.client() as client:
        entries = await recorded(client, namespace)
    begin = _begin(since)
    entries = [entry for entry in entries if (end := entry.time("finished")) is not None and end >= begin]
    sums = summed(entries, by)
    if output is not ReportFormat.table:
        print_report({"kind": "Usage", "by": by.value, "items": sums}, output)
        return
    headings = (by.value.upper(), "JOBS", "COMPLETED", "FAILED", "RESTARTS", "EVICTED PODS", "CPU-HOURS")
    rows = [
        (
            str(row[by.value]) or "(unknown)",
            *(str(row[field]) for field in ("jobs", "completed", "failed", "restarts", "evictedPods")),
            _hours(quantity.amounts(row["resourceSeconds"]).get("cpu", 0) / 1000),
            _hours(int(row["gpuSeconds"])),
        )
        for row in sums
    ]
    print(plain_table((*headings, "GPU-HOURS"), rows))


def summed(entries: Iterable[RecordedJob], by: By) -> list[Json]:
    """Return the sums of jobs by user, queue or namespace, the greatest use of cpu first."""
    groups: dict[str, list[RecordedJob]] = {}
    for entry in entries:
        key = entry.namespace if by is By.namespace else str(entry.fields.get(by.value) or "")
        groups.setdefault(key, []).append(entry)
    rows: list[tuple[int, str, Json]] = []
    for key, group in groups.items():
        used = quantity.summed(entry.used() for entry in group)
        row: Json = {
            by.value: key,
            "jobs": len(group),
            "completed": sum(entry.fields.get("phase") == "Completed" for entry in group),
            "failed": sum(entry.fields.get("phase") == "Failed" for entry in group),
            "restarts": sum(int(entry.fields.get("restarts") or 0) for entry in group),
            "evictedPods": sum(entry.evicted() for entry in group),
            "resourceSeconds": quantity.texts(used),
            "gpuSeconds": str(_gpus(used)),
        }
        rows.append((-used.get("cpu", 0), key, row))
    return [row for _, _, row in sorted(rows, key=lambda entry: entry[:2])]


def _gpus(used: dict[str, int]) -> int:
    """Return the seconds of whole GPUs of every vendor."""
    return sum(units for name, units in used.items() if name.endswith(("/gpu", "/gpu-number", "/vgpu-number")))


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.2f}"


def _shown(time: str | None) -> str:
    """Return a time of a record for people."""
    return local_time(datetime.fromisoformat(time)) if time else _NONE


def _begin(since: str) -> datetime:
    if not since:
        return datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    try:
        return current_time() - timedelta(seconds=seconds("--since", since))
    except OverflowError:
        raise CommandError(f"--since: {since!r} is too long", 2) from None


async def recorded(client: Client, namespace: str | None) -> list[RecordedJob]:
    """Return the jobs that have ended; raises CommandError if the cluster has no job history."""
    histories = await list_objects(client, JOB_HISTORIES, namespace)
    return [
        RecordedJob(str(item["metadata"].get("namespace") or ""), uid, {"name": "", **fields})
        for item in histories
        for uid, fields in (item.get("records") or {}).items()
    ]


def existing_entry(job: Json) -> RecordedJob:
    """Return a job that exists, as far as it has come."""
    metadata, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    state = status.get("state") or {}
    fields = {
        "name": metadata["name"],
        "queue": spec.get("queue") or names.DEFAULT_QUEUE,
        "user": (metadata.get("annotations") or {}).get(names.SUBMITTED_BY),
        "phase": state.get("phase") or "Pending",
        "reason": state.get("reason"),
        "queued": metadata.get("creationTimestamp"),
        "admitted": status.get("admittedTime"),
        "placed": status.get("startTime"),
        "runningDuration": status.get("runningDuration"),
        "restarts": status.get("retryCount"),
        "evictions": status.get("evictions"),
        "pods": sum(int(task.get("replicas", 1)) for task in spec.get("tasks") or ()),
        "resourceSeconds": status.get("resourceSeconds"),
    }
    return RecordedJob(metadata["namespace"], metadata["uid"], {key: value for key, value in fields.items() if value})


def _table(entries: list[RecordedJob], *, everywhere: bool) -> str:
    headings = ("NAME", "PHASE", "QUEUE", "USER", "QUEUED", "WAITED", "RAN", "RESTARTS", "EVICTED PODS", "CPU-HOURS")
    rows = [
        (
            *((entry.namespace,) if everywhere else ()),
            entry.fields["name"],
            str(entry.fields.get("phase") or _NONE),
            str(entry.fields.get("queue") or _NONE),
            str(entry.fields.get("user") or _NONE),
            _shown(entry.fields.get("queued")),
            entry.between("queued", "placed"),
            entry.between("placed", "finished"),
            str(entry.fields.get("restarts") or 0),
            str(entry.evicted()),
            _hours(entry.used().get("cpu", 0) / 1000),
            _hours(_gpus(entry.used())),
        )
        for entry in entries
    ]
    return plain_table((*(("NAMESPACE",) if everywhere else ()), *headings, "GPU-HOURS"), rows)


def _described(entry: RecordedJob) -> str:
    """Return the course of a job, a line for each moment."""
    fields = entry.fields
    reason = f", {fields['reason']}" if fields.get("reason") else ""
    lines = [f"job {fields['name']} ({entry.uid}): {fields.get('phase') or 'unknown'}{reason}"]
    lines.append(f"  queue {fields.get('queue') or _NONE}, user {fields.get('user') or 'unknown'}")
    moments = [(str(fields.get("queued") or ""), "queued")]
    moments += [(str(fields[field]), field) for field in _RECORD if fields.get(field)]
    moments += [
        (str(eviction["time"]), f"{counted(eviction.get('pods', 1), 'pod')} evicted: {eviction.get('by') or 'unknown'}")
        for eviction in fields.get("evictions") or ()
    ]
    lines += [f"  {_shown(time)}  {text}" for time, text in sorted(moments, key=lambda moment: moment[0])]
    if fields.get("restarts"):
        lines.append(f"  {fields['restarts']} restarts")
    if fields.get("runningDuration"):
        lines.append(f"  running time {fields['runningDuration']}")
    used = {name: units / (1000 if name == "cpu" else 1) for name, units in sorted(entry.used().items())}
    lines.append(f"  resource-hours: {', '.join(f'{name} {_hours(used[name])}' for name in used) or 'none'}")
    return "\n".join(lines)
