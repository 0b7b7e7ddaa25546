"""The page of one job: its report, pods over time, events and manifest, read when the page is opened."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from volcanopy.api import quantity
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.builtin.pod_requests import pod_requests, resources_of
from volcanopy.api.model import Json
from volcanopy.api.quantity import QuantityError
from volcanopy.cli.framework.documents import text as document_text
from volcanopy.cli.framework.documents import whole
from volcanopy.cli.framework.options import Format
from volcanopy.cli.jobs.history import existing_entry, recorded
from volcanopy.cli.snapshot import LAST_APPLIED
from volcanopy.cli.ui.job_changes import possible
from volcanopy.client.errors import CommandError
from volcanopy.client.events import events_of
from volcanopy.client.explain.cluster_reads import find_job, job_facts
from volcanopy.client.explain.job import job_report
from volcanopy.client.jobs import status as job_status
from volcanopy.client.jobs.pods import Pod, pods_in_order, readiness, selector_of, state, task_of
from volcanopy.client.kinds import read
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, KubeError
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import JOBS, PODS

SYSTEM_NAMESPACE = "volcanopy-system"
_RUNS = 20
"""Most jobs of the same name in the history."""
_METRICS: Kind[Json] = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", True, dict)
_PODS = 500
"""Most pods on a page."""


async def job_document(client: Client, namespace: str, name: str, seconds: float, api: str = "") -> Json:
    """Return all about a job; remedies are searched for ``seconds``. ``api`` names the API of the job, empty for any.

    Raises CommandError if there is no such job.
    """
    view, body = await find_job(client, namespace, name, api)
    kind = view.of_api(JOBS)
    job = read(BatchJob, body)
    facts, pods, history = await asyncio.gather(
        job_facts(client, namespace, name, SYSTEM_NAMESPACE, seconds, view.api),
        _pods(view, job),
        _history(client, namespace, body),
    )
    events = await events_of(client, job.metadata, *([facts.group.metadata] if facts.group is not None else []))
    report = job_report(facts)
    return {
        "report": report.document(),
        "expectedStart": report.expected_start,
        "api": view.api,
        "kind": f"{kind.kind} of {kind.api_version}",
        "phase": job_status.shown_phase(job),
        "queue": job_status.queue(job),
        "times": _job_times(job),
        "actions": possible(job),
        "tasks": [
            {
                "name": task.name,
                "replicas": task.replicas,
                "minimum": job_status.task_minimum(task),
                "phases": dict(counts.phase) if (counts := job.status.task_status_count.get(task.name)) else {},
            }
            for task in job.spec.tasks
        ],
        "pods": pods,
        "history": history,
        "events": None
        if events is None
        else [
            {
                "time": event.time.isoformat() if event.time else "",
                "type": event.type or "",
                "reason": event.reason or "",
                "object": f"{event.involved_object.kind.lower()}/{event.involved_object.name}",
                "message": " ".join((event.message or "").split()),
                "count": event.occurrences,
            }
            for event in reversed(events)
        ],
        "manifest": document_text(whole(kind, _without_noise(body)), Format.yaml),
    }


def _without_noise(body: Json) -> Json:
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    if notes := metadata.get("annotations"):
        metadata["annotations"] = {key: value for key, value in notes.items() if key != LAST_APPLIED}
    return body | {"metadata": metadata}


def _job_times(job: BatchJob) -> Json:
    times = {
        "created": job.metadata.creation_timestamp,
        "admitted": job.status.admitted_time,
        "started": job.status.start_time,
        "ended": job.status.state.last_transition_time if job_status.phase(job) in job_status.FINISHED else None,
    }
    return {name: time.isoformat() for name, time in times.items() if time is not None}


async def _history(client: Client, namespace: str, body: Json) -> list[Json]:
    """Return this job and earlier ones of its name, the newest first; only this one where the records may not be read."""
    current = existing_entry(body)
    entries = {current.uid: current}
    with suppress(CommandError, Forbidden):
        name = body["metadata"]["name"]
        entries |= {entry.uid: entry for entry in await recorded(client, namespace) if entry.fields["name"] == name}
    newest = sorted(entries.values(), key=lambda entry: entry.fields.get("queued") or "", reverse=True)
    return [entry.document() | {"evictedPods": entry.evicted()} for entry in newest[:_RUNS]]


async def _pods(client: Client, job: BatchJob) -> Json:
    """Return the pods with their times; those that may not be read are left out, with the reason."""
    metadata = job.metadata
    try:
        listing = await client.list(PODS, metadata.namespace, label_selector=selector_of(metadata.name))
    except Forbidden:
        return {"note": f'you may not read the pods of namespace "{metadata.namespace}"', "items": [], "total": 0}
    raw = {body["metadata"]["uid"]: body for body in listing.items}
    pods = pods_in_order(listing.items, job)
    used = await _usage(client, job) if any(pod.status.phase == "Running" for pod in pods) else {}
    items = [_pod(pod, raw[pod.metadata.uid]) | {"used": used.get(pod.metadata.name)} for pod in pods[:_PODS]]
    return {"items": items, "total": len(pods)}


async def _usage(client: Client, job: BatchJob) -> dict[str, dict[str, int]]:
    """Return what pods use at the moment by their names, in base units; nothing where it is not measured or not allowed."""
    metadata = job.metadata
    try:
        measured = await client.list(_METRICS, metadata.namespace, label_selector=selector_of(metadata.name))
        return {
            body["metadata"]["name"]: {
                resource: sum(quantity.amounts(each["usage"])[resource] for each in body["containers"])
                for resource in ("cpu", "memory")
            }
            for body in measured.items
        }
    except (KubeError, QuantityError, KeyError):
        return {}


def _requested(pod: Pod) -> dict[str, int]:
    try:
        return dict(pod_requests(resources_of(pod.spec)))
    except QuantityError:
        return {}


def _pod(pod: Pod, body: Mapping[str, Any]) -> Json:
    status = body.get("status") or {}
    conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    states = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
    running = [(state.get("running") or state.get("terminated") or {}).get("startedAt") for state in states]
    ended = [(state.get("terminated") or {}).get("finishedAt") for state in states]
    return {
        "name": pod.metadata.name,
        "task": task_of(pod),
        "state": state(pod),
        "phase": pod.status.phase,
        "ready": readiness(pod),
        "node": pod.spec.node_name,
        "requested": _requested(pod),
        "containers": [container.name for container in (*pod.spec.init_containers, *pod.spec.containers)],
        "created": body["metadata"].get("creationTimestamp") or "",
        "scheduled": scheduled.get("lastTransitionTime", "") if scheduled.get("status") == "True" else "",
        "started": min(filter(None, running), default="") or status.get("startTime") or "",
        "ended": max(filter(None, ended), default="") if ended and all(ended) else "",
    }
