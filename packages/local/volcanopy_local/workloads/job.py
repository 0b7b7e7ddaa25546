"""Jobs of `batch/v1`: pods until enough have succeeded, or too many have failed."""

from collections.abc import Sequence
from datetime import UTC, datetime

from volcanopy.kube.client.kinds import Json
from volcanopy_local.workloads.plan import (
    Effect,
    ObjectCreation,
    ObjectDeletion,
    SetStatus,
    changed,
    from_template,
    is_active,
    is_ready,
    owned,
)

INDEX = "batch.kubernetes.io/job-completion-index"


def reconcile(job: Json, pods: Sequence[Json], now: str) -> list[Effect]:
    """The next step of a job; `now` is the time in the API's format."""
    metadata, status = job["metadata"], job.get("status") or {}
    if "deletionTimestamp" in metadata or _condition(status, "Complete", "Failed"):
        return _cleaned(job, now)
    job_pods = owned(job, pods)
    active = [pod for pod in job_pods if is_active(pod)]
    succeeded = _with_phase(job_pods, "Succeeded")
    failed = _with_phase(job_pods, "Failed")
    completions = job["spec"].get("completions")
    done = len(_indexes(succeeded)) if _is_indexed(job) else len(succeeded)
    counts: Json = {
        "active": len(active),
        "ready": sum(map(is_ready, active)),
        "succeeded": done,
        "failed": len(failed),
    }
    counts["startTime"] = status.get("startTime") or now
    if (completions is not None and done >= completions) or (completions is None and succeeded and not active):
        return [
            *_all(active),
            SetStatus({**counts, "active": 0, "completionTime": now, **_ended("Complete", "", "", now)}),
        ]
    reason = _failure(job, len(failed), counts["startTime"], now)
    if reason:
        return [*_all(active), SetStatus({**counts, "active": 0, **_ended("Failed", *reason, now)})]
    if job["spec"].get("suspend"):
        return [*_all(active), *changed(job, {**counts, "active": 0, "startTime": None})]
    return _sized(job, active, succeeded, done) + changed(job, counts)


def deadline(job: Json) -> float | None:
    """When the job must be looked at again although nothing changes: seconds of the epoch."""
    spec, status = job["spec"], job.get("status") or {}
    if (ended := _condition(status, "Complete", "Failed")) is not None:
        seconds, since = spec.get("ttlSecondsAfterFinished"), ended["lastTransitionTime"]
    else:
        seconds, since = spec.get("activeDeadlineSeconds"), status.get("startTime")
    return None if seconds is None or not since else _time(since) + float(seconds)


def _sized(job: Json, active: Sequence[Json], succeeded: Sequence[Json], done: int) -> list[Effect]:
    """The pods that are missing or surplus when ``done`` completions of the job have succeeded."""
    spec = job["spec"]
    parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    if completions is None:
        # A work queue: no new pods once one has succeeded.
        size = parallelism if not succeeded else min(parallelism, len(active))
    else:
        size = min(parallelism, completions - done)
    if len(active) > size:
        return [ObjectDeletion("Pod", pod) for pod in sorted(active, key=is_ready)[: len(active) - size]]
    if not _is_indexed(job):
        return [ObjectCreation("Pod", _pod(job, None)) for _ in range(size - len(active))]
    indexes = _indexes([*active, *succeeded])
    free = [index for index in range(completions or 0) if index not in indexes]
    return [ObjectCreation("Pod", _pod(job, index)) for index in free[: size - len(active)]]


def _pod(job: Json, index: int | None) -> Json:
    metadata, template = job["metadata"], job["spec"]["template"]
    labels = {
        "job-name": metadata["name"],
        "batch.kubernetes.io/job-name": metadata["name"],
        "controller-uid": metadata["uid"],
        "batch.kubernetes.io/controller-uid": metadata["uid"],
    }
    if index is None:
        return from_template(job, template, labels=labels, generateName=f"{metadata['name']}-")
    pod = from_template(
        job, template, labels={**labels, INDEX: str(index)}, generateName=f"{metadata['name']}-{index}-"
    )
    pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), INDEX: str(index)}
    pod["spec"].setdefault("hostname", f"{metadata['name']}-{index}")
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        variables = [variable for variable in container.get("env") or () if variable["name"] != "JOB_COMPLETION_INDEX"]
        container["env"] = [*variables, {"name": "JOB_COMPLETION_INDEX", "value": str(index)}]
    return pod


def _failure(job: Json, failed: int, started: str, now: str) -> tuple[str, str] | None:
    spec = job["spec"]
    if failed > int(spec.get("backoffLimit", 6)):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and _time(now) >= _time(started) + float(seconds):
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return None


def _ended(kind: str, reason: str, message: str, now: str) -> Json:
    condition: Json = {"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
    if reason:
        condition |= {"reason": reason, "message": message}
    return {"conditions": [condition]}


def _cleaned(job: Json, now: str) -> list[Effect]:
    """Delete a finished job after its time to live."""
    until = deadline(job)
    due = "deletionTimestamp" not in job["metadata"] and until is not None and _time(now) >= until
    return [ObjectDeletion("Job", job)] if due else []


def _condition(status: Json, *kinds: str) -> Json | None:
    conditions: Sequence[Json] = status.get("conditions") or ()
    return next((item for item in conditions if item["type"] in kinds and item["status"] == "True"), None)


def _with_phase(pods: Sequence[Json], phase: str) -> list[Json]:
    return [pod for pod in pods if (pod.get("status") or {}).get("phase") == phase]


def _is_indexed(job: Json) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _indexes(pods: Sequence[Json]) -> set[int]:
    annotations = [pod["metadata"].get("annotations") or {} for pod in pods]
    return {int(pod_annotations[INDEX]) for pod_annotations in annotations if INDEX in pod_annotations}


def _all(pods: Sequence[Json]) -> list[Effect]:
    return [ObjectDeletion("Pod", pod) for pod in pods]


def _time(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
