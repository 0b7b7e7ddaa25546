"""gang: the members of a job's minimum are placed together or not at all."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from volcanopy.api.gates import Gate
from volcanopy.api.quantity import counted
from volcanopy.scheduler.ledger.subjob_views import SubJobView, lacking
from volcanopy.scheduler.ledger.views import JobView, RoleView, TaskView, with_jobs
from volcanopy.scheduler.model.plan import GroupCondition
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.task_status import HOLDING, READY, VALID, Status
from volcanopy.scheduler.policy.plugin import PERMIT, Invalid, NoArguments, Plugin, Vote, reject
from volcanopy.scheduler.policy.roles import Purpose, Victims


class Gang(Plugin[NoArguments], Victims):
    """A job starts with its minimum of members, and evictions do not bring it below that."""

    name: ClassVar[str] = "gang"

    def open(self) -> None:
        """Find the jobs that have roles with a minimum."""
        self._has_minima = self.cluster.snapshot.jobs.has_minima
        self._conditions: dict[object, GroupCondition | None] = {}
        """The conditions of jobs without such roles, by their minimum and counts."""

    def job_valid(self, jobs: Rows) -> dict[int, Invalid]:
        """Enough members must exist."""
        snapshot = self.cluster.snapshot
        short = self.cluster.ledger.job_counts[:, jobs][VALID].sum(axis=0) < snapshot.jobs.min_available[jobs]
        doubtful = short | snapshot.jobs.structured[jobs] | self._has_minima[jobs]
        answers = ((row, self.invalid(self.cluster.job(row))) for row in jobs[doubtful].tolist())
        return {row: invalid for row, invalid in answers if invalid is not None}

    def invalid(self, job: JobView) -> Invalid | None:
        """Return why the job has too few members, None if it has enough."""
        for role in self._bound(job):
            if role.valid < role.minimum:
                return Invalid(
                    "NotEnoughPodsOfTask",
                    f'task "{role.name}": {role.valid}/{role.minimum} required pods created',
                    f'creating {counted(role.minimum - role.valid, "more pod")} of task "{role.name}"',
                    {"exist": str(role.valid), "needed": str(role.minimum), "task": role.name},
                )
        missing = self._lacking(job, lambda _: True)
        if missing:
            return Invalid(
                "NotEnoughPodsOfTask", f'subGroupPolicy "{missing}": fewer sub-groups created than minSubGroups'
            )
        valid = job.valid_count
        if valid < job.min_available:
            numbers = {"exist": str(valid), "needed": str(job.min_available)}
            message = f"{valid}/{job.min_available} required pods created"
            remedy = f"creating {counted(job.min_available - valid, 'more pod')}"
            owner = job.group.metadata.controller
            if owner is not None and owner.kind == "StatefulSet":
                name = f'StatefulSet "{owner.name}"'
                message += f": {name} creates a pod when the one before is ready unless podManagementPolicy is Parallel"
                remedy = f"podManagementPolicy Parallel of {name}"
            return Invalid("NotEnoughTasks", message, remedy, numbers)
        return None

    def job_order(self, jobs: Rows) -> Mask:
        """Jobs that cannot start yet before those that are ready."""
        ledger = self.cluster.ledger
        counts = ledger.job_counts[:, jobs]
        runs = counts[HOLDING].any(axis=0) | (counts[Status.SUCCEEDED] == 0)
        keys: Mask = runs & (counts[READY].sum(axis=0) >= self.cluster.snapshot.jobs.min_available[jobs])
        return keys

    def job_ready(self, job: JobView) -> bool:
        """Every role and the whole have their minimum."""
        if not job.is_ready:
            return False
        if not self._has_minima[job.row] and not self.cluster.snapshot.jobs.structured[job.row]:
            return True
        return all(role.ready >= role.minimum for role in self._bound(job)) and not self._lacking(
            job, lambda part: part.is_ready
        )

    def shortfall(self, job: JobView) -> int:
        """The members that the minimum lacks."""
        return max(job.min_available - job.ready_count, int(not job.is_ready))

    def job_pipelined(self, job: JobView) -> Vote:
        """Every role and the whole will have their minimum."""
        if (
            job.is_pipelined
            and all(role.ready + role.pipelined >= role.minimum for role in self._bound(job))
            and not self._lacking(job, lambda part: part.is_pipelined)
        ):
            return PERMIT
        return reject(Gate.GANG, "gang is not ready: fewer pods placed than required")

    def subjob_order(self, part: SubJobView) -> int:
        """Those that cannot start yet before those that run already."""
        return int(part.is_ready)

    def subjob_ready(self, part: SubJobView) -> bool:
        """Its own minimum."""
        return part.is_ready

    def subjob_pipelined(self, part: SubJobView) -> Vote:
        """Its own minimum, counting pipelined members."""
        return (
            PERMIT
            if part.is_pipelined
            else reject(Gate.GANG, "sub-group is not ready: fewer pods placed than required")
        )

    def job_starving(self, job: JobView) -> bool:
        """While the minimum lacks members."""
        return job.is_starving

    def allows(self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose) -> Sequence[TaskView]:
        """Members above the minimum of their job; for a gang all candidates, since gangs are evicted whole, as bundles."""
        if purpose.is_for_gang:
            return candidates
        surplus: dict[int, int] = {}
        victims = []
        for candidate, job in with_jobs(candidates):
            left = surplus.get(job.row)
            if left is None:
                left = surplus[job.row] = job.ready_count - job.min_available
            if left > 0:
                surplus[job.row] = left - 1
                victims.append(candidate)
        return victims

    def job_condition(self, job: JobView) -> GroupCondition | None:
        """Scheduled once the minimum has nodes, Unschedulable until then."""
        if self._has_minima[job.row] or self.cluster.snapshot.jobs.structured[job.row]:
            return self._condition(job)
        tally = job.tally
        if tally not in self._conditions:
            self._conditions[tally] = self._condition(job)
        return self._conditions[tally]

    def _condition(self, job: JobView) -> GroupCondition | None:
        if not job.count():
            return None
        if job.is_ready and not self._lacking(job, lambda part: part.is_ready):
            return GroupCondition("Scheduled", "GangReady", "gang is ready: the required pods have nodes")
        if _is_terminating(job):
            return None
        invalid = self.invalid(job)
        if invalid is None:
            return GroupCondition("Unschedulable", "NotEnoughResources")
        return GroupCondition("Unschedulable", invalid.reason, invalid.message)

    def _lacking(self, job: JobView, counts: Callable[[SubJobView], bool]) -> str:
        """Return the name of a policy that has too few sub-groups that ``counts`` accepts, empty if there is none."""
        if not self.cluster.snapshot.jobs.structured[job.row] or not job.group.spec.sub_group_policy:
            return ""
        return lacking(job, self.cluster.parts(job), counts)

    def _bound(self, job: JobView) -> Sequence[RoleView]:
        """Return the roles whose minimum binds: all, unless the job needs fewer than their sum (Volcano's rule)."""
        if not self._has_minima[job.row]:
            return ()
        roles = [role for role in job.roles if role.minimum > 0]
        return roles if job.min_available >= sum(role.minimum for role in roles) else ()


def _is_terminating(job: JobView) -> bool:
    """Return whether the gang lacks members only because they terminate, and none is pending."""
    terminating, waiting = job.count(Status.RELEASING), job.count(Status.PENDING, Status.PIPELINED)
    return terminating > 0 and not waiting and job.scheduled_count + terminating >= job.min_available
