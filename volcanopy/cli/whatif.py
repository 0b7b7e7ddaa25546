"""What-if questions of the command line: manifests in, answers as text or JSON."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from volcanopy.api.model import Json
from volcanopy.api.quantity import QuantityError, counted
from volcanopy.cli.conversion import converted
from volcanopy.cli.manifests import Manifest
from volcanopy.client import whatif_engine
from volcanopy.client.durations import local_times
from volcanopy.client.errors import CommandError
from volcanopy.client.explain.confirmed import UnreadableError, cluster_state
from volcanopy.client.jobs.status import estimated_start
from volcanopy.installed.job_plugins import job_registry
from volcanopy.kube.client.api_client import Client
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.messages import short
from volcanopy.whatif import answer as answers
from volcanopy.whatif import load
from volcanopy.whatif.answer import Answer, JobAnswer
from volcanopy.whatif.engine import Engine
from volcanopy.whatif.flows import flow_steps
from volcanopy.whatif.kinds import ManifestError
from volcanopy.whatif.starts import NO_REMEDY, Start
from volcanopy.whatif.target import targets

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
                conversion = converted(body, stored=manifest.kind in {"PodGroup", "Queue"})
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
        is_scheduled_here = pod.spec.scheduler_name in result.cluster.state.scheduler_names
        reason = (
            "without a PodGroup"
            if is_scheduled_here
            else f'with schedulerName "{pod.spec.scheduler_name or _DEFAULT_SCHEDULER}"'
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


def rejected_jobs(result: load.Loaded) -> list[Json]:
    """Return the new objects that admission rejects, as entries of the JSON document."""
    return [
        {
            "kind": kind,
            "name": key.rpartition("/")[2],
            "namespace": key.rpartition("/")[0],
            "result": Start.NEVER.value,
            "gate": "admission",
            "message": "; ".join(problems),
            "remedies": [],
        }
        for (kind, key), problems in sorted(result.rejected.items())
    ]


def check_accepted(result: load.Loaded) -> None:
    """Raise CommandError if admission rejects new objects; the reasons are in the answer."""
    if result.rejected:
        names = ", ".join(f"{kind} {short(key)}" for kind, key in sorted(result.rejected))
        raise CommandError(f"admission rejects {counted(len(result.rejected), 'object')}: {names}")


def lines(answer: Answer, result: load.Loaded, engine: Engine) -> Iterator[str]:
    """Yield the lines about the jobs that wait: when each starts, and what lets it start."""
    for entry in rejected_jobs(result):
        name = short(f"{entry['namespace']}/{entry['name']}".lstrip("/"))
        yield f"{entry['kind']} {name} rejected by admission: {entry['message']}"
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
        yield f"  {NO_REMEDY if job.searched else 'the budget ended before a change was found'}"


def document(answer: Answer, result: load.Loaded) -> list[Json]:
    """Return the answers as JSON."""
    return [*rejected_jobs(result), *(job.document() for job in answer.jobs)]


def note_line(sentence: str) -> None:
    """Print a sentence on standard error."""
    print(f"volcanopy: {local_times(sentence)}", file=sys.stderr)


async def print_plan(client: Client, bodies: Sequence[Json], namespace: str, as_json: bool) -> None:
    """Print when new jobs, cron jobs or flows would start, and what would let them start. Raises CommandError."""
    try:
        state = await cluster_state(client)
    except UnreadableError as fault:
        raise CommandError(f"--plan: {fault}") from None
    earlier_jobs = set(state.cluster.keys.get("BatchJob", ()))
    now = datetime.now(UTC)
    new: dict[tuple[str, str], Json] = {}
    for body in bodies:
        metadata = {"namespace": namespace, **body["metadata"]}
        metadata.setdefault("name", f"{metadata.get('generateName', 'job-')}new")
        whole = body | {"metadata": metadata}
        new[str(body["kind"]), f"{metadata['namespace']}/{metadata['name']}"] = whole
    loaded = load.Loaded(state.cluster, new=new)
    submitted(loaded, now)
    engine = whatif_engine.engine(loaded, state.config, now, state.registry)
    groups = {target.group for target in targets(state.cluster) if target.job and target.job not in earlier_jobs}
    groups |= {step.target.group for step in flow_steps(state.cluster, now)}  # the cluster's own flows are not read
    result = answers.answer(engine, whatif_engine.limits(engine, jobs=frozenset(groups), estimates=True))
    result = replace(result, jobs=tuple(job for job in result.jobs if job.target.group in groups))
    if as_json:
        head = {"apiVersion": "volcanopy.io/v1alpha1", "kind": "Plan", "effects": []}
        print(json.dumps(head | {"jobs": document(result, loaded)}, indent=2))
    else:
        print("\n".join(lines(result, loaded, engine)))
    check_accepted(loaded)
