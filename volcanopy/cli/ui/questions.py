"""What-if questions of the page: nodes added or removed, queues and jobs changed; nothing is written.

The scheduler itself answers, on a copy of the cluster: once as it is, and once with the changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from volcanopy.api.builtin.pod_requests import pod_requests, resources_of
from volcanopy.api.core import EstimatedStart
from volcanopy.api.model import InvalidObjectError, Json
from volcanopy.api.quantity import QuantityError
from volcanopy.cli import whatif
from volcanopy.cli.manifests import parsed
from volcanopy.cli.ui.node_usage import job_of
from volcanopy.client import whatif_engine
from volcanopy.client.errors import CommandError
from volcanopy.client.explain.confirmed import ClusterState
from volcanopy.client.jobs.status import estimated_start
from volcanopy.scheduler.model.plan import Bind, Evict
from volcanopy.whatif.answer import Answer, JobAnswer, answer
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.engine import Engine
from volcanopy.whatif.expected import StartEstimate
from volcanopy.whatif.kinds import WORKLOADS, ManifestError, group_of, key_of, with_namespace
from volcanopy.whatif.load import Loaded
from volcanopy.whatif.starts import Start

SECONDS = 10.0
"""Time for an answer."""
MOST_NODES = 1000
_MOST_OBJECTS = 200


class QuestionError(Exception):
    """The question cannot be asked; the message names the field, the value and the fix."""


@dataclass(frozen=True)
class WhatIfQuestion:
    """Changes: nodes like an existing one, nodes removed, fields of queues by name, and new manifests."""

    like: str = ""
    count: int = 0
    remove: tuple[str, ...] = ()
    queues: Mapping[str, Json] = field(default_factory=dict)
    manifests: tuple[Json, ...] = ()


def question_of(body: Any, namespace: str) -> WhatIfQuestion:
    """Return the question in a request; ``namespace`` is that of jobs without one. Raises QuestionError."""
    if not isinstance(body, dict):
        raise QuestionError("the question must be a JSON object")
    count = body.get("count", 0)
    if not isinstance(count, int) or not 0 <= count <= MOST_NODES:
        raise QuestionError(f"count: {count!r} is not a number from 0 to {MOST_NODES}")
    queues = body.get("queues") or {}
    if not isinstance(queues, dict) or not all(isinstance(fields, dict) for fields in queues.values()):
        raise QuestionError("queues: must be an object of queue names, each with the fields of its spec to change")
    remove = body.get("remove") or []
    if not isinstance(remove, list):
        raise QuestionError("remove: must be a list of node names")
    return WhatIfQuestion(
        str(body.get("like") or ""),
        count,
        tuple(map(str, remove)),
        queues,
        tuple(_placed(document, namespace) for document in _manifests(str(body.get("manifest") or ""))),
    )


def _manifests(text: str) -> list[Json]:
    try:
        bodies = [manifest.body for manifest in parsed("manifest", text)]
    except CommandError as error:
        raise QuestionError(str(error)) from None
    if len(bodies) > _MOST_OBJECTS:
        raise QuestionError(f"manifest: {len(bodies)} objects, at most {_MOST_OBJECTS} are accepted")
    if not all((body.get("metadata") or {}).get("name") for body in bodies):
        raise QuestionError("manifest: every object needs metadata.name")
    return bodies


def _placed(manifest: Json, namespace: str) -> Json:
    """Return a manifest of a controller's kind with a namespace; another one unchanged."""
    if (group_of(manifest), str(manifest.get("kind"))) not in WORKLOADS:
        return manifest
    return manifest | {"metadata": {"namespace": namespace, **manifest["metadata"]}}


def ask(state: ClusterState, question: WhatIfQuestion, now: datetime) -> Json:
    """Return what changes for which job, and where pods are placed with the changes. Raises QuestionError.

    It may take four times ``SECONDS``; it runs in a thread of its own.
    """
    cluster = state.cluster
    try:
        with cluster.trial():
            before = _starts(_engine(state, Loaded(cluster), now))
        with cluster.trial():
            _change(cluster, question)
            loaded = Loaded(cluster, new=_workloads(question))
            whatif.submitted(loaded, now)
            engine = _engine(state, loaded, now)
            after = _starts(engine)
            after = _detailed(engine, after, before)
            evictions = _evictions(after, cluster)
    except (ManifestError, QuantityError, InvalidObjectError, CommandError) as error:
        raise QuestionError(str(error)) from None
    rejected = [
        {"job": key, "kind": kind, "message": "; ".join(problems)} for (kind, key), problems in loaded.rejected.items()
    ]
    return {
        "jobs": _differences(cluster, before, after, now),
        "placements": _placements(after),
        "evictions": evictions,
        "rejected": rejected,
        "ended": before.ended or after.ended,
        "configured": state.configured,
    }


def _engine(state: ClusterState, loaded: Loaded, now: datetime) -> Engine:
    return whatif_engine.engine(loaded, state.config, now, state.registry)


def _starts(engine: Engine) -> Answer:
    """Return when each job starts."""
    return answer(engine, whatif_engine.limits(engine, SECONDS, remedies=False))


def _detailed(engine: Engine, result: Answer, before: Answer) -> Answer:
    """Return the answer in which jobs that start later than before have the jobs that they wait for, and an estimate."""
    starts = {job.target.group: job.start for job in before.jobs}
    later = frozenset(
        job.target.group for job in result.jobs if job.start is Start.AFTER is not starts.get(job.target.group)
    )
    if not later:
        return result
    details = answer(engine, whatif_engine.limits(engine, SECONDS, jobs=later, estimates=True))
    jobs = {job.target.group: job for job in details.jobs if job.target.group in later}
    return replace(result, jobs=tuple(jobs.get(job.target.group, job) for job in result.jobs))


def _change(cluster: Cluster, question: WhatIfQuestion) -> None:
    nodes = cluster.of_kind("Node")
    if question.count:
        if question.like not in nodes:
            raise QuestionError(f'like: node "{question.like}" not found')
        body = cluster.body("Node", question.like)
        for number in range(1, question.count + 1):
            cluster.put_manifest(_node_like(body, f"{question.like}-whatif-{number}"))
    for name in question.remove:
        if name not in nodes:
            raise QuestionError(f'remove: node "{name}" not found')
        cluster.remove("Node", name)
    for name, fields in question.queues.items():
        if name not in cluster.of_kind("Queue"):
            raise QuestionError(f'queues: queue "{name}" not found')
        body = cluster.body("Queue", name)
        cluster.put_manifest(body | {"spec": (body.get("spec") or {}) | dict(fields)})
    for manifest in question.manifests:
        if _workload(manifest) is None and not cluster.put_manifest(manifest):
            raise QuestionError(f"manifest: {manifest['kind']} is not read by the scheduler: leave it out")
    cluster.commit()


def _node_like(body: Json, name: str) -> Json:
    metadata = body["metadata"]
    labels = {**(metadata.get("labels") or {})}
    if "kubernetes.io/hostname" in labels:
        labels["kubernetes.io/hostname"] = name
    return body | {"metadata": {"name": name, "labels": labels, "annotations": metadata.get("annotations") or {}}}


def _workload(manifest: Json) -> Json | None:
    """Return the manifest with its namespace if it is one of the kinds that controllers handle."""
    identity = (group_of(manifest), str(manifest.get("kind")))
    return with_namespace(manifest, WORKLOADS[identity]) if identity in WORKLOADS else None


def _workloads(question: WhatIfQuestion) -> dict[tuple[str, str], Json]:
    whole = (_workload(manifest) for manifest in question.manifests)
    return {(str(body["kind"]), key_of(body)): body for body in whole if body is not None}


def _differences(cluster: Cluster, before: Answer, after: Answer, now: datetime) -> list[Json]:
    """Return all jobs with both answers: first the new ones, and those whose start changes.

    The estimate without the changes is the scheduler's, in the status of the pod group.
    """
    earlier_answers = {job.target.group: job for job in before.jobs}
    result: list[Json] = []
    for job in after.jobs:
        old, group = earlier_answers.get(job.target.group), cluster.group(job.target.group)
        estimate = group.status.estimated_start if group is not None else None
        result.append(
            {
                "job": f"{job.target.namespace}/{job.target.name}",
                "queue": job.queue,
                "before": _start(old, estimate, now) if old is not None else "new",
                "after": _start(job, job.estimate, now),
                "nodes": list(job.nodes),
                "evictions": list(job.evictions),
                "message": job.message,
                "changed": old is None or old.start is not job.start,
            }
        )
    return sorted(result, key=lambda entry: (not entry["changed"], entry["job"]))


def _start(job: JobAnswer, estimate: EstimatedStart | StartEstimate | None, now: datetime) -> str:
    """Return when a job starts, with the jobs that it waits for, and in about what time."""
    if job.start is not Start.AFTER:
        return job.start.value
    text = f"{job.start.value} {', '.join(job.after) or 'other jobs'}"
    if estimate is None:
        return text
    return f"{text}, {estimated_start(estimate, now)}" if estimate.time else f"{text}; {estimate.message}"


def _placements(result: Answer) -> dict[str, list[Json]]:
    """Return the pods that are placed on each node, with the job of each and its requests in base units."""
    places: dict[str, list[Json]] = {}
    for plan in result.plans:
        for effect in plan.of(Bind):
            if (pod := result.placed.get(effect.pod)) is not None:
                entry = {"pod": effect.pod, "job": job_of(pod), "amounts": pod_requests(resources_of(pod.spec))}
                places.setdefault(effect.node, []).append(entry)
    return places


def _evictions(result: Answer, cluster: Cluster) -> list[Json]:
    """Return the evicted pods, which are known as long as the question's changes are in the cluster."""

    jobs = {job.target.group: f"{job.target.namespace}/{job.target.name}" for job in result.jobs}

    def node(key: str) -> str:
        pod = cluster.pod(key)
        return pod.spec.node_name if pod is not None else ""

    return [
        {
            "pod": effect.pod,
            "node": node(effect.pod),
            "for": jobs.get(effect.preemptor, effect.preemptor),
            "reason": effect.reason,
        }
        for plan in result.plans
        for effect in plan.of(Evict)
    ]
