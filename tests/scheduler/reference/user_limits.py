"""Reference implementation of limits of users, groups and jobs, over every queue, entry and job."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from volcanopy.api import core, quantity


@dataclass(frozen=True)
class AssignedPod:
    """A job for limits: its queue, submitter, whether it counts as admitted, and its allocation."""

    queue: str
    user: str = ""
    groups: frozenset[str] = frozenset()
    admitted: bool = False
    held: Mapping[str, int] = field(default_factory=dict)


def line(queues: Mapping[str, core.Queue], name: str) -> list[core.Queue]:
    """A queue and those above it."""
    result: list[core.Queue] = []
    while name in queues and queues[name] not in result:
        result.append(queues[name])
        if name == "root":
            break
        name = queues[name].spec.parent or "root"
    return result


def entry_of_user(queue: core.Queue, user: str) -> core.QueueLimit | None:
    """Return the first entry that names the user, or else the first for all users."""
    for entry in queue.spec.limits:
        if user and user in entry.users:
            return entry
    for entry in queue.spec.limits:
        if "*" in entry.users:
            return entry
    return None


def group_of(queue: core.Queue, groups: frozenset[str]) -> tuple[str, core.QueueLimit | None]:
    """Return the first entry that names one of the groups, with that group."""
    for entry in queue.spec.limits:
        for name in entry.groups:
            if name in groups:
                return name, entry
    return "", None


def applying(
    queues: Mapping[str, core.Queue], candidate: AssignedPod, jobs: Sequence[AssignedPod]
) -> Iterator[tuple[core.QueueLimit, list[AssignedPod]]]:
    """Yield every limit that applies to a job, with the jobs that it counts."""
    for queue in line(queues, candidate.queue):
        inside = [job for job in jobs if queue in line(queues, job.queue)]
        if queue.spec.max_running_jobs is not None:
            yield core.QueueLimit(max_running_jobs=queue.spec.max_running_jobs), inside
        entry = entry_of_user(queue, candidate.user)
        if entry is not None:
            yield entry, [job for job in inside if job.user == candidate.user]
        name, entry = group_of(queue, candidate.groups)
        if entry is not None:
            yield entry, [job for job in inside if group_of(queue, job.groups)[0] == name]


def may_be_admitted(queues: Mapping[str, core.Queue], candidate: AssignedPod, jobs: Sequence[AssignedPod]) -> bool:
    """Whether a job may be admitted."""
    return candidate.admitted or all(
        entry.max_running_jobs is None or sum(job.admitted for job in sharing) < entry.max_running_jobs
        for entry, sharing in applying(queues, candidate, jobs)
    )


def may_hold(
    queues: Mapping[str, core.Queue],
    candidate: AssignedPod,
    jobs: Sequence[AssignedPod],
    more: Mapping[str, int],
    count: int,
) -> bool:
    """Whether a job may have so many more pods of a request."""
    return all(
        sum(job.held.get(name, 0) for job in sharing) + more[name] * count <= most
        for entry, sharing in applying(queues, candidate, jobs)
        for name, most in quantity.amounts(entry.resources).items()
        if more.get(name, 0)
    )
