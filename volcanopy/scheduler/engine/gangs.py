"""Gangs: when a job has enough members to take part, to start, or to wait for evicted pods.

The plugin ``gang`` of the configuration file turns these rules on, and its switches turn single ones off. Without it, each job
has enough members at any time. Gates (:class:`volcanopy.scheduler.policy.roles.Gate`) may reject a start besides.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from volcanopy.api.quantity import counted
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.messages import Message
from volcanopy.scheduler.model.plan import GroupCondition
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.task_status import VALID, Status
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.dispatch import Hooks
from volcanopy.scheduler.policy.plugin import Invalid
from volcanopy.scheduler.policy.roles import Moment

T = TypeVar("T")

_SUBJOB_KEYS: Mapping[str, Callable[[SubJobView], Any]] = {
    "gang": lambda part: part.is_ready,
    "priority": lambda part: -part.priority,
}
"""By plugin, the sort key of a sub-group within its job: those that cannot start yet first, or the highest priority."""
_STARVING: Mapping[str, Callable[[JobView, bool], bool]] = {
    "gang": lambda job, more: job.lacking > 0 or (more and job.count(Status.SUCCEEDED) > 0),
    "priority": lambda job, _: job.unplaced_count > 0,
    "tdm": lambda job, more: not job.preemptable and (more or job.count(Status.PENDING) > 0),
}
"""By plugin, for which jobs pods may be evicted: those that lack members of their minimum, with any task that is not placed, or
that cannot be revoked. With ``more``, for which they may be once more of their tasks are pending.
"""


class Gangs:
    """The minima of the jobs of a session."""

    def __init__(self, cluster: Cluster, config: SchedulerConfig, hooks: Hooks) -> None:
        self._cluster, self._hooks = cluster, hooks
        self._jobs = cluster.snapshot.jobs
        self._enabled = config.enables("gang")
        self.starts_whole = config.enables("gang", "enableJobReady")  # Whether a job starts with its minimum at least.
        self._waits_whole = config.enables("gang", "enableJobPipelined")
        self._parts_start_whole = config.enables("gang", "enabledSubJobReady")
        self._parts_wait_whole = config.enables("gang", "enabledSubJobPipelined")
        self._config = config
        self._conditions: dict[object, GroupCondition | None] = {}
        """The conditions of jobs without roles that have a minimum, by their minimum and counts."""

    @cached_property
    def _subjob_keys(self) -> tuple[Callable[[SubJobView], Any], ...]:
        return sum(_enabled(self._config, _SUBJOB_KEYS, "enabledSubJobOrder"), ())

    @cached_property
    def _starving(self) -> tuple[Callable[[JobView, bool], bool], ...]:
        return next(filter(None, _enabled(self._config, _STARVING, "enableJobStarving")), ())

    # Members that exist

    def invalid_jobs(self, jobs: Rows) -> dict[int, Invalid]:
        """Return which of the (M,) job rows have too few members to take part in this cycle, and why."""
        if not self._enabled:
            return {}
        jobs_table = self._jobs
        short = self._cluster.ledger.job_counts[:, jobs][VALID].sum(axis=0) < jobs_table.min_available[jobs]
        doubtful = short | jobs_table.structured[jobs] | jobs_table.has_minima[jobs]
        answers = ((row, self.invalid(self._cluster.job(row))) for row in jobs[doubtful].tolist())
        return {row: invalid for row, invalid in answers if invalid is not None}

    def invalid(self, job: JobView) -> Invalid | None:
        """Return why the job has too few members, None if it has enough."""
        for role in job.binding_roles:
            if role.valid < role.minimum:
                text = f'task "{role.name}": {role.valid}/{role.minimum} required pods created'
                numbers = {"exist": str(role.valid), "needed": str(role.minimum), "task": role.name}
                remedy = f'creating {counted(role.minimum - role.valid, "more pod")} of task "{role.name}"'
                return Invalid("NotEnoughPodsOfTask", Message(text, numbers, unblocked_by=remedy))
        missing = self._lacking(job, lambda _: True)
        if missing:
            text = f'subGroupPolicy "{missing}": fewer sub-groups created than minSubGroups'
            return Invalid("NotEnoughPodsOfTask", Message(text))
        valid = job.valid_count
        if valid < job.min_available:
            numbers = {"exist": str(valid), "needed": str(job.min_available)}
            text = f"{valid}/{job.min_available} required pods created"
            remedy = f"creating {counted(job.min_available - valid, 'more pod')}"
            owner = job.group.metadata.controller
            if owner is not None and owner.kind == "StatefulSet":
                name = f'StatefulSet "{owner.name}"'
                text += f": {name} creates a pod when the one before is ready unless podManagementPolicy is Parallel"
                remedy = f"podManagementPolicy Parallel of {name}"
            return Invalid("NotEnoughTasks", Message(text, numbers, unblocked_by=remedy))
        return None

    # Members with nodes

    # With a sub-group ``part`` these methods answer for it alone; a part that is all of its job stands for the job.

    def is_ready(self, job: JobView, part: SubJobView | None = None) -> bool:
        """Return whether the job can start: every role and the whole have their minimum, and no gate rejects it."""
        if part is not None and not part.is_whole:
            return part.is_ready or not self._parts_start_whole
        if self.starts_whole and not self._has_minimum(job):
            return False
        return self._hooks.verdict(job, Moment.READY).value >= 0

    def shortfall(self, job: JobView, part: SubJobView | None = None) -> int:
        """Return the least number of further tasks that must be placed before the job can start."""
        if part is not None and not part.is_whole:
            return part.shortfall
        return max(job.shortfall, 0) if self.starts_whole else 0

    def placements_needed(self, part: SubJobView) -> int:
        """Return the least number of tasks that must get a node, now or later, before a part of a job can start."""
        of_job, of_part = self.starts_whole and self._waits_whole, self._parts_start_whole and self._parts_wait_whole
        return max(1, part.lacking) if (of_job if part.is_whole else of_part) else 1

    def is_pipelined(self, job: JobView, part: SubJobView | None = None) -> bool:
        """Return whether the job can start once the evicted pods have terminated."""
        if part is not None and not part.is_whole:
            return part.is_pipelined or not self._parts_wait_whole
        if self._waits_whole and not (
            job.is_pipelined
            and all(role.ready + role.pipelined >= role.minimum for role in job.binding_roles)
            and not self._lacking(job, lambda part: part.is_pipelined)
        ):
            return False
        return self._hooks.verdict(job, Moment.PIPELINED).value >= 0

    def will_start(self, job: JobView) -> bool:
        """Return whether the minimum of a job has nodes once evicted pods have terminated, and nothing rejects that."""
        return self.shortfall(job) <= job.waiting_count and self.is_pipelined(job)

    def is_starving(self, job: JobView, more: bool = False) -> bool:
        """Return whether pods may be evicted for the pending tasks of the job: the first tier with such a rule decides.

        ``more``: or whether they may be once tasks that are evicted now are pending.
        """
        for rule in self._starving:  # a generator takes as long as the rules
            if not rule(job, more):
                return False
        return bool(self._starving)

    def subjob_key(self, part: SubJobView) -> tuple[Any, ...]:
        """Return the sort key of a sub-group within a job."""
        return tuple([key(part) for key in self._subjob_keys])

    def pending_parts(
        self, job: JobView, tasks: Sequence[int], is_whole: Callable[[SubJobView], bool]
    ) -> list[tuple[SubJobView, list[int], bool]]:
        """Return the sub-groups that some of these tasks are in, in order, each with these and whether the job needs it.

        It needs those with which, besides the ones that are whole, each policy has enough.
        """
        parts = sorted(self._cluster.parts(job), key=lambda part: (self.subjob_key(part), part.order, part.key))
        whole = {part.key for part in parts if is_whole(part)}
        lacking = {
            number: policy.min_sub_groups - sum(part.number == number and part.key in whole for part in parts)
            for number, policy in enumerate(job.group.spec.sub_group_policy)
        }
        result = []
        for part in parts:
            is_needed = part.key not in whole and lacking.get(part.number, 0) > 0
            if is_needed:
                lacking[part.number] -= 1
            members = set(part.rows.tolist())
            if rows := [row for row in tasks if row in members]:
                result.append((part, rows, is_needed))
        return result

    def condition(self, job: JobView) -> GroupCondition | None:
        """Return the condition of the pod group: Scheduled once the minimum has nodes, Unschedulable until then.

        An empty message stands for that of the explanation.
        """
        if not self._enabled:
            return None
        if self._jobs.has_minima[job.row] or self._jobs.structured[job.row]:
            return self._condition(job)
        tally = job.tally
        if tally not in self._conditions:
            self._conditions[tally] = self._condition(job)
        return self._conditions[tally]

    def _has_minimum(self, job: JobView) -> bool:
        if not job.is_ready:
            return False
        if not self._jobs.has_minima[job.row] and not self._jobs.structured[job.row]:
            return True
        return all(role.ready >= role.minimum for role in job.binding_roles) and not self._lacking(
            job, lambda part: part.is_ready
        )

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
        return GroupCondition("Unschedulable", invalid.reason, invalid.message.text)

    def _lacking(self, job: JobView, counts: Callable[[SubJobView], bool]) -> str:
        """Return the name of a policy that has too few sub-groups that ``counts`` accepts, empty if there is none."""
        policies = job.group.spec.sub_group_policy if self._jobs.structured[job.row] else ()
        for number, policy in enumerate(policies):
            least = policy.min_sub_groups or 0
            if least and sum(part.number == number and counts(part) for part in self._cluster.parts(job)) < least:
                return policy.name or f"number {number}"
        return ""


def _enabled(config: SchedulerConfig, rules: Mapping[str, T], switch: str) -> tuple[tuple[T, ...], ...]:
    """Return the rules of the configured plugins for which a switch is not off, by tier."""
    return tuple(
        tuple(rules[entry.name] for entry in tier if entry.name in rules and switch not in entry.off)
        for tier in config.tiers
    )


def _is_terminating(job: JobView) -> bool:
    """Return whether the gang lacks members only because they terminate, and none is pending."""
    terminating, waiting = job.count(Status.RELEASING), job.count(Status.PENDING, Status.PIPELINED)
    return terminating > 0 and not waiting and job.scheduled_count + terminating >= job.min_available
