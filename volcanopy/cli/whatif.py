"""What-if questions of the command line: manifests in, answers as text or JSON."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from volcanopy.api.model import Json
from volcanopy.api.quantity import QuantityError
from volcanopy.cli.conversion import converted
from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.durations import local_times
from volcanopy.cli.jobs.status import estimated_start
from volcanopy.cli.manifests import Manifest
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.messages import short
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.services.process.job_plugins import job_registry
from volcanopy.whatif import load
from volcanopy.whatif.answer import NO_REMEDY, Answer, JobAnswer, Limits, Start
from volcanopy.whatif.engine import Budget, Engine, cycles_of
from volcanopy.whatif.kinds import ManifestError
from volcanopy.whatif.rejected import rejected_remedies

SECONDS = 10.0
"""Default work of the search for remedies: about so many seconds."""
_RUN_CYCLES = 64
_NAMED = 3
"""The most pods of which a note has the names."""
_VOLCANO = "volcano.sh"
_DEFAULT_SCHEDULER = "default-scheduler"
"""The schedulerName that an API server gives pods without one."""


def loaded(manifests: Sequence[Manifest], scheduler_names: Sequence[str], default_queue: str) -> load.Loaded:
    """Return the cluster of manifests, Volcano's own converted. Raises CommandError."""

    def bodies() -> Iterator[Json]:
        for manifest in manifests:
            body = manifest.body
            if manifest.group.endswith(_VOLCANO):
                conversion = converted(body)
                for note in conversion.notes:
                    note_line(f"{manifest.place}: {note}")
                if not conversion.body:
                    continue
                body = conversion.body
            places.append(manifest)
            yield body

    places: list[Manifest] = []
    try:
        result = load.load(bodies(), scheduler_names, default_queue)
    except (ManifestError, QuantityError) as error:
        raise CommandError(f"{places[-1].place}: {error}") from None
    load.review(result)
    if result.unknown:
        unknown = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(result.unknown).items()))
        note_line(f"ignored {unknown}: not read by the scheduler")
    for reason, pods in _left_out(result).items():
        listed = ", ".join(pods[:_NAMED]) + (f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else "")
        note_line(f"ignored {len(pods)} pod{'s' if len(pods) > 1 else ''} {reason}: {listed}")
    return result


def _left_out(result: load.Loaded) -> dict[str, list[str]]:
    """Return the pods without a node that the scheduler does not place and no job names, by reason."""
    left_out: dict[str, list[str]] = {}
    for key, pod in result.cluster.of_kind("Pod").items():
        if pod.spec.node_name or pod_fields.is_over(pod) or pod_fields.job_key(pod):
            continue
        known = pod.spec.scheduler_name in result.cluster.state.scheduler_names
        reason = (
            "without a PodGroup" if known else f'with schedulerName "{pod.spec.scheduler_name or _DEFAULT_SCHEDULER}"'
        )
        left_out.setdefault(reason, []).append(short(key))
    return left_out


def submitted(result: load.Loaded, now: datetime) -> None:
    """Submit the new workloads. Raises CommandError."""
    try:
        load.submit(result, now, registry=job_registry())
    except ManifestError as error:
        raise CommandError(str(error)) from None
    for warning in result.warnings:
        note_line(f"warning: {warning}")
    for note in result.notes:
        note_line(note)


def engine(
    result: load.Loaded, config: SchedulerConfig, now: datetime, registry: Registry, previous: datetime | None = None
) -> Engine:
    """Return the engine of a question, in which the controllers have handled the manifests."""
    made = Engine(result.cluster, config, now, registry, job_registry(), previous)
    made.settle()
    return made


def limits(
    engine: Engine,
    seconds: float = SECONDS,
    *,
    jobs: frozenset[str] | None = None,
    remedies: bool = True,
    estimates: bool = False,
) -> Limits:
    """Return the limits of a question: the search for remedies is work of about so many seconds, the estimates half as much.

    The clock does not count, so the answers are the same on a busy machine.
    """
    search, estimation = (Budget(cycles_of(engine.cluster, most)) for most in (seconds, seconds / 2))
    return Limits(Budget(_RUN_CYCLES * 16), search, jobs, remedies, estimation if estimates else None)


def rejected_jobs(result: load.Loaded, engine: Engine) -> list[Json]:
    """Return the new objects that admission rejects, as entries of the JSON document."""
    remedies = rejected_remedies(engine, result, Budget(_RUN_CYCLES)) if result.rejected else {}
    return [
        {
            "kind": kind,
            "name": key.rpartition("/")[2],
            "namespace": key.rpartition("/")[0],
            "result": Start.NEVER.value,
            "gate": "admission",
            "message": "; ".join(problems),
            "remedies": [remedies[kind, key].document()] if (kind, key) in remedies else [],
        }
        for (kind, key), problems in sorted(result.rejected.items())
    ]


def lines(answer: Answer, result: load.Loaded, engine: Engine) -> Iterator[str]:
    """Yield the lines about the jobs that wait: when each starts, and what lets it start."""
    for entry in rejected_jobs(result, engine):
        name = short(f"{entry['namespace']}/{entry['name']}".lstrip("/"))
        yield f"{entry['kind']} {name} rejected by admission: {entry['message']}"
        yield from (f"  starts with: {remedy['text']}" for remedy in entry["remedies"])
    for job in answer.jobs:
        yield from job_lines(job, engine.now)


def job_lines(job: JobAnswer, now: datetime) -> Iterator[str]:
    """Yield the lines about one job; ``now`` is the time of the question."""
    name = f"job {short(f'{job.target.namespace}/{job.target.name}')}"
    if job.start is Start.NOW:
        evictions = f" after the eviction of {', '.join(map(short, job.evictions))}" if job.evictions else ""
        yield f"{name} starts now on {', '.join(job.nodes)}{evictions}"
        return
    gate = f" [{job.gate}]" if job.gate else ""
    heads = {
        Start.NEVER: f"{name} never starts{gate}: {job.message}",
        Start.AFTER: f"{name} starts after {', '.join(job.after) or 'other jobs end'}{gate}: {job.message}",
        Start.UNKNOWN: f"{name} does not start now{gate}: {job.message or 'the budget ended'}",
    }
    yield heads[job.start]
    yield from [f"  estimated start {estimated_start(job.estimate, now)}"] if job.estimate is not None else []
    yield from (f"  starts with: {remedy.text}" for remedy in job.remedies)
    if not job.remedies and job.searched is not None:
        yield f"  {no_remedy(job)}"


def no_remedy(job: JobAnswer) -> str:
    """Return why there is no remedy."""
    return NO_REMEDY if job.searched else "the budget ended before a change was found"


def document(answer: Answer, result: load.Loaded, engine: Engine) -> list[Json]:
    """Return the answers as JSON."""
    return [*rejected_jobs(result, engine), *(job.document() for job in answer.jobs)]


def note_line(sentence: str) -> None:
    """Print a sentence on standard error."""
    print(f"volcanopy: {local_times(sentence)}", file=sys.stderr)
