"""gang: all members of a job's minimum, or none."""

from collections.abc import Sequence
from typing import ClassVar

from volcanopy.scheduler.plan import GroupCondition
from volcanopy.scheduler.plugin import PERMIT, Invalid, NoArguments, Plugin, Vote, reject
from volcanopy.scheduler.views import JobView, RoleView, TaskView


class Gang(Plugin[NoArguments]):
    """A job starts with its minimum of members together, and is not pushed below it."""

    name: ClassVar[str] = "gang"

    def job_valid(self, job: JobView) -> Invalid | None:
        """Enough members must exist."""
        for role in _bound_roles(job):
            if role.valid < role.minimum:
                return Invalid(
                    "NotEnoughPodsOfTask",
                    f"{role.valid} of the {role.minimum} pods that task {role.name} needs at least exist",
                )
        valid = job.valid_count
        if valid < job.min_available:
            return Invalid("NotEnoughTasks", f"{valid} of the {job.min_available} pods that the gang needs exist")
        return None

    def job_order(self, job: JobView) -> int:
        """Those that cannot start yet before those that run already."""
        return int(job.is_ready)

    def job_ready(self, job: JobView) -> bool:
        """Every role and the whole have their minimum."""
        return job.is_ready and all(role.ready >= role.minimum for role in _bound_roles(job))

    def shortfall(self, job: JobView) -> int:
        """The members that the minimum lacks."""
        return job.min_available - job.ready_count - job.best_effort_pending

    def job_pipelined(self, job: JobView) -> Vote:
        """Every role and the whole will have their minimum."""
        if job.is_pipelined and all(role.ready + role.pipelined >= role.minimum for role in _bound_roles(job)):
            return PERMIT
        return reject("gang", "the gang lacks members")

    def job_starving(self, job: JobView) -> bool:
        """While the minimum lacks members."""
        return job.is_starving

    def preemptable(self, preemptor: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Members beyond the minimum of their job."""
        spare: dict[int, int] = {}
        victims = []
        for candidate in candidates:
            job = candidate.job
            if job is None:
                continue
            left = spare.setdefault(job.row, job.ready_count - job.min_available)
            if left > 0:
                spare[job.row] = left - 1
                victims.append(candidate)
        return victims

    def reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Members beyond the minimum of their job."""
        return self.preemptable(reclaimer, candidates)

    def job_condition(self, job: JobView) -> GroupCondition | None:
        """Scheduled once the minimum has places, Unschedulable until then."""
        if not job.count():
            return None
        if job.is_ready:
            return GroupCondition("Scheduled", "GangReady", "the gang has the members that it needs")
        invalid = self.job_valid(job)
        return GroupCondition("Unschedulable", invalid.reason if invalid else "NotEnoughResources")


def _bound_roles(job: JobView) -> list[RoleView]:
    """The roles whose minimum binds: all, unless the job is content with fewer than their sum (Volcano's rule)."""
    roles = [role for role in job.roles if role.minimum > 0]
    return roles if job.min_available >= sum(role.minimum for role in roles) else []
