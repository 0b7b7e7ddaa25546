"""Records of ended jobs: what they contain, in which JobHistory they are, and which are dropped.

A record follows from the job alone, and its key is the uid of the job: written twice, it is there once. Records of one
namespace and day are in objects of at most :data:`RECORDS` records; the oldest objects are deleted when there are too many.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.history import JobRecord
from volcanopy.api.model import Json
from volcanopy.jobcontroller.phases import FINISHED

RECORDS = 200
"""The most records of an object: about 100 kB."""
OF_NAMESPACE = 50
"""The most objects of a namespace: 10,000 jobs."""
IN_ALL = 500
"""The most objects of all namespaces: 100,000 jobs, about 50 MB."""
DELETED = "Deleted"
"""The phase in the record of a job that was deleted before its end."""


class HistoryObject(NamedTuple):
    """A JobHistory. They are ordered by age."""

    day: str
    """The date, ``2026-01-31``."""
    part: int
    namespace: str

    @property
    def name(self) -> str:
        """The name of the object."""
        return f"{self.day}-{self.part}"


def place_of(namespace: str, name: str) -> HistoryObject | None:
    """Return the place of an object by its name; None if the name is not one of this module."""
    day, _, part = name.rpartition("-")
    return HistoryObject(day, int(part), namespace) if len(day) == len("2026-01-31") and part.isdecimal() else None


def has_ended(job: BatchJob) -> bool:
    """Whether a job is in a phase that it never leaves."""
    return job.status.state.phase in FINISHED


def record(job: BatchJob, deleted: datetime | None = None) -> JobRecord:
    """Return the record of a job that has ended, or that was ``deleted`` before."""
    status, spec = job.status, job.spec
    state = status.state
    return JobRecord(
        name=job.metadata.name,
        queue=spec.queue,
        user=(job.metadata.annotations or {}).get(names.SUBMITTED_BY, ""),
        phase=DELETED if deleted else str(state.phase or ""),
        reason=state.reason,
        queued=job.metadata.creation_timestamp,
        admitted=status.admitted_time,
        placed=status.start_time,
        finished=deleted or state.last_transition_time,
        running_duration=status.running_duration,
        restarts=status.retry_count,
        evictions=status.evictions,
        pods=spec.replicas,
        resource_seconds=status.resource_seconds,
    )


def record_json(job_record: JobRecord) -> Json:
    """Return a record as JSON, without empty values."""
    return {key: value for key, value in job_record.write().items() if value not in ("", [], {}, 0)}


def place_for(namespace: str, finished: datetime, sizes: Mapping[HistoryObject, int]) -> HistoryObject:
    """Return where the record of a job that ended at this time is added: to the last object of the day, or a new one."""
    day = finished.date().isoformat()
    parts = [place for place in sizes if place.namespace == namespace and place.day == day]
    last = max(parts, default=HistoryObject(day, 0, namespace))
    return last if sizes.get(last, 0) < RECORDS else HistoryObject(day, last.part + 1, namespace)


def superfluous(places: Iterable[HistoryObject]) -> list[HistoryObject]:
    """Return the objects to delete: the oldest of each namespace with too many, then the oldest of all."""
    ordered = sorted(places, reverse=True)
    kept: list[HistoryObject] = []
    counts: dict[str, int] = {}
    for place in ordered:
        counts[place.namespace] = counts.get(place.namespace, 0) + 1
        if counts[place.namespace] <= OF_NAMESPACE and len(kept) < IN_ALL:
            kept.append(place)
    return sorted(set(ordered) - set(kept))


def is_dropped(place: HistoryObject, places: Iterable[HistoryObject]) -> bool:
    """Whether a new object here would be deleted at once: the records of its day were dropped."""
    return place in superfluous({*places, place})
