"""Reconciliation of a job.

1. Suspend or resume the job as its spec states, and execute Commands.
2. Apply lifecycle policies to events, and delayed actions that are due.
3. Derive the phase from the pods and the deadline.
4. Create missing objects and delete superfluous ones.

All decisions are part of the new status, which determines the objects that should exist. A change of the status is the first
effect; the others are executed only if it is accepted, so that each decision is made once even after a crash.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from volcanopy.api.alternatives import SelectedAlternative
from volcanopy.api.batch import BatchJob, BatchJobStatus, Phase
from volcanopy.api.container_states import FAILED_SYNC
from volcanopy.api.core import PodGroup
from volcanopy.api.job_alternatives import with_alternative
from volcanopy.api.scheduling import EstimatedStart
from volcanopy.api.times import format_time
from volcanopy.jobcontroller import deadline
from volcanopy.jobcontroller.accounting import accounted
from volcanopy.jobcontroller.decision import Decision
from volcanopy.jobcontroller.job_podgroup import annotation_changes, changes, pod_group, pod_group_spec, without_removed
from volcanopy.jobcontroller.naming import pod_group_name
from volcanopy.jobcontroller.observed import JobPod, Observed, is_of_version, oldest_first, unfinished
from volcanopy.jobcontroller.phases import FINISHED, LIVE, STOPPED
from volcanopy.jobcontroller.plan import (
    ApplyObject,
    CreatePod,
    CreatePodGroup,
    DeleteCommand,
    DeleteJob,
    DeleteObject,
    DeletePod,
    DeletePodGroup,
    Effect,
    JobPlan,
    RecordEvent,
    UpdatePodGroup,
    UpdateStatus,
    status_json,
)
from volcanopy.jobcontroller.plugins.plugin import JobPlugin, Needed, PluginError
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, Registry, plugins_of
from volcanopy.jobcontroller.pods import claim_name, claims, missing_pods, started_tasks
from volcanopy.jobcontroller.restart_pause import is_pausing
from volcanopy.jobcontroller.status import (
    ADMITTED,
    USUAL_REASONS,
    completed_indexes,
    count,
    entered,
    is_minor,
    next_phase,
    pending_reason,
    running_reason,
    with_counts,
    with_reason,
)
from volcanopy.jobcontroller.unready_nodes import NOT_READY, stuck_announcements, stuck_pods, with_stuck_pods

Plugins = Sequence[JobPlugin[Any]]

_ALARMING = frozenset({Phase.FAILED, Phase.RESTARTING, Phase.ABORTING, Phase.TERMINATING})
_WITH_TROUBLE = frozenset({Phase.PENDING, Phase.RUNNING})
"""Phases in which a reason other than the usual ones is a warning."""
MOST_CREATED = 10_000
"""Pods that a plan creates; the plan after them creates more. So a plan does not grow with the pods that a job lacks."""


def reconcile(job: BatchJob, observed: Observed, now: datetime, registry: Registry = JOB_PLUGINS) -> JobPlan:
    """Return the plan for a job."""
    if job.metadata.deletion_timestamp is not None:
        return JobPlan()
    end = _end_of_life(job)
    if end is not None and now >= end:
        return JobPlan((DeleteJob(job.metadata.name, job.metadata.uid),))
    undecided, selected = job, _selected(job, observed.pod_group)
    job = with_alternative(job, selected.name) if selected is not None else job
    plugins, broken = _plugins(job, registry)
    decision = Decision(job, observed.members(job), observed.pod_group, now, observed.disruptions, observed.not_ready)
    members = decision.members
    decision.follow_suspend()
    obeyed = decision.execute(oldest_first(observed.commands))
    decision.react()
    group = _current(observed.pod_group, decision.status)
    if decision.status.version != job.status.version:  # all pods are stopped: another alternative may be selected
        job, selected = undecided, None
    status = _settled(job, decision, group, now, plugins, broken, observed.trouble)
    status = with_stuck_pods(status, stuck_pods(members, decision.doomed(status), observed.not_ready), now)
    status = status.model_copy(update={"alternative": selected})

    pausing = status.state.phase in LIVE and is_pausing(status, now)

    effects: list[Effect] = []
    settled = status_json(status) == status_json(job.status)
    if not settled:
        if job.status.state.phase not in FINISHED:
            status = accounted(job, status, members, group, observed.disruptions, now)
        minor = not decision.events and not obeyed and is_minor(job.status, status)
        effects.append(UpdateStatus(status_json(status), minor))
        effects += _announced(job.status, status)
    effects += decision.events
    effects += [DeleteCommand(command.metadata.name, command.metadata.uid) for command in obeyed]
    doomed = decision.doomed(status)
    serves = status.state.phase in LIVE and not broken
    if serves:
        # Before pods go or come: they read who the others are.
        effects += _changed_objects(job, observed, plugins)
    effects += [
        DeletePod(member.name, member.pod.metadata.uid)
        for member in members
        if member.evicted or (member.name in doomed and not member.leaving)
        if not member.removed and member.pod.metadata.deletion_timestamp is None
    ]
    if status.state.phase not in LIVE:
        effects += _cleared(observed.pod_group)
        if settled and status.state.phase in STOPPED:
            effects += _dismantled(status, plugins)
    elif serves:
        effects += _missing_objects(job, status, observed, members, doomed, plugins, pausing)
    resumes = status.restart_at if pausing else None
    more = now if sum(isinstance(effect, CreatePod) for effect in effects) >= MOST_CREATED else None
    times = (end, decision.again, resumes, more, deadline.next_time(job, status, now))
    return JobPlan(tuple(effects), _soonest(*times, *(action.due for action in status.delayed)))


def _end_of_life(job: BatchJob) -> datetime | None:
    """Return the time at which a finished job is deleted."""
    state, seconds = job.status.state, job.spec.ttl_seconds_after_finished
    if state.phase not in FINISHED or seconds is None or state.last_transition_time is None:
        return None
    return state.last_transition_time + timedelta(seconds=seconds)


def _soonest(*times: datetime | None) -> datetime | None:
    return min((time for time in times if time is not None), default=None)


def _selected(job: BatchJob, group: PodGroup | None) -> SelectedAlternative | None:
    """Return the alternative that the job runs with: as recorded, or the one that the scheduler selected.

    A scheduler that does not know alternatives selects none: then the first one counts.
    """
    if job.status.alternative is not None or not job.spec.alternatives:
        return job.status.alternative
    current = _current(group, job.status)
    if current is None or current.status.phase not in ADMITTED:
        return None
    alternative_names = {alternative.name for alternative in job.spec.alternatives}
    chosen = current.status.alternative
    if chosen is None or chosen.name not in alternative_names:
        return SelectedAlternative(name=job.spec.alternatives[0].name)
    return SelectedAlternative(name=chosen.name, message=chosen.message)


def _plugins(job: BatchJob, registry: Registry) -> tuple[Plugins, str]:
    """Return the job's plugins, or the reason why they are not valid."""
    try:
        return plugins_of(job, registry), ""
    except PluginError as error:
        return (), str(error)


def _current(group: PodGroup | None, status: BatchJobStatus) -> PodGroup | None:
    """Return the PodGroup, if it is of the current version and not being deleted."""
    if group is None or group.metadata.deletion_timestamp or not is_of_version(group, status.version):
        return None
    return group


def _settled(
    job: BatchJob,
    decision: Decision,
    group: PodGroup | None,
    now: datetime,
    plugins: Plugins,
    broken: str,
    trouble: str,
) -> BatchJobStatus:
    """Return the status after the decision: counts, phase transitions, reason and message."""
    status = decision.status
    counts = count(decision.members, decision.doomed(status))
    admitted = group is not None and group.status.phase in ADMITTED
    for _ in Phase:
        move = next_phase(job.spec, status, counts, admitted=admitted)
        if move is None:
            break
        status = entered(status, move, now)
        counts = count(decision.members, decision.doomed(status))
    if status.state.phase is Phase.RUNNING and status.start_time is None:  # it started before the field existed
        status = status.model_copy(update={"start_time": status.state.last_transition_time})
    if failure := deadline.exceeded(job, status, now):
        status = entered(status, failure, now)
        counts = count(decision.members, decision.doomed(status))
    status = deadline.announced(job, with_counts(status, counts), now)
    if status.state.phase is Phase.PENDING:
        if broken or trouble:
            status = with_reason(status, "PluginError" if broken else FAILED_SYNC, broken or trouble)
        elif is_pausing(status, now):
            status = with_reason(status, "RestartBackOff", _pause_message(status))
        else:
            status = with_reason(status, *pending_reason(job, group, counts))
    elif status.state.phase is Phase.RUNNING:
        reason, message = running_reason(job.spec, counts)
        if trouble:
            reason, message = FAILED_SYNC, f"{message}; {trouble}"
        if is_pausing(status, now):  # the others go on
            reason, message = "RestartBackOff", f"{message}; {_pause_message(status)}"
        status = with_reason(status, reason, message)
    completed = completed_indexes(decision.members, decision.doomed(status))
    restarts = status.restarts
    if status.state.phase is not Phase.RESTARTING:
        restarts = unfinished(restarts, decision.members)
    return status.model_copy(
        update={
            "min_available": job.spec.needed,
            "observed_generation": job.metadata.generation,
            "estimated_start": _estimated_start(status, group),
            "completed_indexes": status.completed_indexes if status.state.phase in FINISHED else completed,
            "pod_group_unknown": group is not None and group.status.phase == "Unknown",
            "restarts": restarts if status.state.phase in LIVE else [],
            "delayed": status.delayed if status.state.phase in LIVE else [],
            "controlled_resources": _controlled(job, status, plugins, broken),
        }
    )


def _pause_message(status: BatchJobStatus) -> str:
    """Return until when a restart waits, and what it is for."""
    moment = format_time(status.restart_at) if status.restart_at is not None else ""
    cause = next((condition.message for condition in status.conditions if condition.type == Phase.RESTARTING), "")
    message = f"restart {status.retry_count} waits until {moment}: {status.quick_restarts} quick restarts"
    return f"{message}; {cause.removesuffix(f': restart {status.retry_count}')}" if cause else message


def _estimated_start(status: BatchJobStatus, group: PodGroup | None) -> EstimatedStart | None:
    """Return the scheduler's estimate of the start of a job that waits."""
    estimate = group.status.estimated_start if group is not None else None
    if status.state.phase is not Phase.PENDING or estimate is None:
        return None
    return EstimatedStart(time=estimate.time, basis=estimate.basis, message=estimate.message)


def _controlled(job: BatchJob, status: BatchJobStatus, plugins: Plugins, broken: str) -> dict[str, str]:
    """Return the objects that are created for the job, which are deleted when it stops."""
    if status.state.phase not in LIVE or broken:
        return status.controlled_resources
    claimed = [claim_name(job, number, volume) for number, volume in enumerate(job.spec.volumes)]
    at_work = sorted(plugin.name for plugin in plugins)
    return {f"plugin-{name}": name for name in at_work} | {f"volume-pvc-{claim}": claim for claim in claimed}


def _announced(before: BatchJobStatus, after: BatchJobStatus) -> Iterator[RecordEvent]:
    state = after.state
    assert state.phase is not None
    current = before.state.phase or Phase.PENDING  # a job that has just been created
    if state.phase is not current:
        yield RecordEvent("Warning" if state.phase in _ALARMING else "Normal", state.phase, state.message)
    elif state.phase in _WITH_TROUBLE and state.reason not in {before.state.reason, *USUAL_REASONS}:
        yield RecordEvent("Warning", state.reason, state.message)
    if after.alternative is not None and before.alternative is None:
        reason = f": {after.alternative.message}" if after.alternative.message else ""
        yield RecordEvent("Normal", "AlternativeSelected", f'alternative "{after.alternative.name}"{reason}')
    for message in deadline.announcements(before, after):
        yield RecordEvent("Warning", deadline.APPROACHING, message)
    for message in stuck_announcements(before, after):
        yield RecordEvent("Warning", NOT_READY, message)


def _cleared(group: PodGroup | None) -> Iterator[Effect]:
    """Yield the deletion of the PodGroup of a stopped job."""
    if group is not None and group.metadata.deletion_timestamp is None:
        yield DeletePodGroup(group.metadata.name, group.metadata.uid)


def _dismantled(status: BatchJobStatus, plugins: Plugins) -> Iterator[Effect]:
    """Yield the deletion of the plugins' objects of a stopped job, and their removal from the status."""
    kept = {key: value for key, value in status.controlled_resources.items() if not key.startswith("plugin-")}
    if kept == status.controlled_resources:
        return
    for needed in _objects(plugins):
        manifest = needed.manifest
        yield DeleteObject(manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"])
    yield UpdateStatus(status_json(status.model_copy(update={"controlled_resources": kept})))


def _objects(plugins: Plugins) -> Iterator[Needed]:
    for plugin in plugins:
        yield from plugin.objects()


def _changed_objects(job: BatchJob, observed: Observed, plugins: Plugins) -> Iterator[Effect]:
    """Yield the creation or update of claims and objects of plugins."""
    for needed in (*map(Needed, claims(job)), *_objects(plugins)):
        effect = ApplyObject(needed.manifest, _digest(needed.manifest), needed.ssh_keys)
        if observed.applied.get(effect.key) != effect.digest:
            yield effect


def _missing_objects(
    job: BatchJob,
    status: BatchJobStatus,
    observed: Observed,
    members: Sequence[JobPod],
    doomed: frozenset[str],
    plugins: Plugins,
    pausing: bool,
) -> Iterator[Effect]:
    """Yield the creation of missing objects: the PodGroup and, once admitted, pods; those of small jobs may precede it.

    The scheduler admits and places a PodGroup whose pods precede it in the same cycle.
    """
    staying = [member for member in members if member.name not in doomed and not member.leaving]
    started = started_tasks(job, staying)
    gang = without_removed(job, staying)
    waited_for = [task for task in gang.spec.tasks if any(task.name == other.name for other in started)]
    existing = observed.pod_group
    taken = {pod.metadata.name for pod in observed.pods}
    present = [member for member in members if not member.removed or member.name not in doomed]
    if existing is None:
        if not pausing:
            pods: tuple[Effect, ...] = ()
            if observed.pods_before_admission and not job.spec.alternatives and not observed.trouble:
                pods = tuple(missing_pods(job, status, started, present, taken, plugins, admitted=False))
            yield from pods
            # What other jobs ran is given once, since it changes with each of their ends. A walltime is better than that.
            has_own = job.spec.active_deadline_seconds is not None or job.spec.alternatives
            learnt = observed.learnt or (None if has_own else observed.learnt_of_others)
            by_alternative = observed.learnt_by_alternative
            yield CreatePodGroup(
                pod_group(
                    gang, status, waited_for, observed.priorities, learnt, by_alternative, pods_created=bool(pods)
                )
            )
        return
    group = _current(existing, status)
    if group is None:
        if existing.metadata.deletion_timestamp is None:
            yield DeletePodGroup(existing.metadata.name, existing.metadata.uid)
        return
    desired = pod_group_spec(gang, waited_for, observed.priorities, observed.learnt_by_alternative, group)
    patch = changes(desired, group)
    rejected = bool(observed.trouble) and status.state.phase is Phase.PENDING and group.status.phase in ADMITTED
    patch |= annotation_changes(job, observed.learnt, group, rejected=rejected)
    if patch:
        yield UpdatePodGroup(pod_group_name(job), patch)
    if group.status.phase in ADMITTED and not pausing:
        yield from islice(missing_pods(job, status, started, present, taken, plugins), MOST_CREATED)


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]
