"""``volcanopy job describe``: all that is to be known about a job, its pods and its pod group, for people."""

from collections.abc import Sequence

from volcanopy.cli.framework.description import Description, events_of
from volcanopy.cli.framework.durations import age, since
from volcanopy.cli.framework.kinds import POD_GROUPS, key_of, spec_of, status_of
from volcanopy.cli.jobs.columns import message, needed, phase, queue, ready, total
from volcanopy.cli.jobs.pods import pods_of, readiness, restarts, state, task_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Json

_PODS = 50
"""Pods that are shown; of more, those that have not come to a good end come first."""


async def description(client: Client, job: Json) -> str:
    """The job in lines."""
    group = await _group(client, job)
    pods = await pods_of(client, job)
    told = Description(job)
    spec, status = spec_of(job), status_of(job)
    stands = status.get("state") or {}
    told.line("Queue", queue(job))
    told.line("Priority Class", spec.get("priorityClassName"))
    told.line("Scheduler", spec.get("schedulerName"))
    told.line("Phase", phase(job) + (f", {stands['reason']}" if stands.get("reason") else ""))
    told.line(
        "Since", f"{since(stands['lastTransitionTime'], told.now)} ago" if stands.get("lastTransitionTime") else ""
    )
    told.line("Why", message(job))
    told.line("Pods", f"{ready(job)} ready of {total(job)}, {needed(job)} needed together ({_counts(status)})")
    told.line("Restarts", f"{status.get('retryCount', 0)} (fails at {spec.get('maxRetry', 3)})")
    told.line("Ran For", status.get("runningDuration"))
    told.line("Plugins", ", ".join(f"{name} {' '.join(given)}".strip() for name, given in _plugins(spec).items()))
    _tasks(told, job)
    _policies(told, spec)
    if group is not None:
        told.line("Pod Group", f"{key_of(group).name} ({status_of(group).get('phase') or 'not looked at yet'})")
        unblock = (status_of(group).get("explanation") or {}).get("unblock")
        told.line("Would Start With", unblock)
    _pods(told, pods)
    told.conditions(job)
    told.events(await events_of(client, job, *([group] if group else [])))
    return told.text()


def _counts(status: Json) -> str:
    kinds = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
    return ", ".join(f"{status[kind]} {kind}" for kind in kinds if status.get(kind)) or "none made"


def _plugins(spec: Json) -> dict[str, list[str]]:
    return {name: given or [] for name, given in (spec.get("plugins") or {}).items()}


def _tasks(told: Description, job: Json) -> None:
    counted = status_of(job).get("taskStatusCount") or {}
    rows = []
    for task in spec_of(job)["tasks"]:
        phases = (counted.get(task["name"]) or {}).get("phase") or {}
        containers = ((task.get("template") or {}).get("spec") or {}).get("containers") or ()
        replicas = task.get("replicas", 1)
        rows.append(
            (
                task["name"],
                replicas,
                task.get("minAvailable", replicas),
                *(phases.get(one, 0) for one in ("Pending", "Running", "Succeeded", "Failed")),
                ",".join(one.get("image", "") for one in containers),
                _requests(containers),
                ",".join((task.get("dependsOn") or {}).get("name") or ()) or "-",
            )
        )
    headings = ("NAME", "REPLICAS", "MIN", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "IMAGE", "REQUESTS", "AFTER")
    told.table("Tasks", headings, rows)


def _requests(containers: Sequence[Json]) -> str:
    """What the containers of one pod ask for, each as it is written."""
    asked = [(one.get("resources") or {}).get("requests") or {} for one in containers]
    return " + ".join(",".join(f"{name}={amount}" for name, amount in one.items()) for one in asked if one) or "-"


def _policies(told: Description, spec: Json) -> None:
    rows = []
    for task in (None, *spec["tasks"]):
        for policy in (spec if task is None else task).get("policies") or ():
            happens = policy.get("events") or [policy.get("event") or f"exit code {policy.get('exitCode')}"]
            rows.append(
                (
                    task["name"] if task else "(job)",
                    ",".join(happens),
                    policy.get("action", ""),
                    policy.get("timeout", "-"),
                )
            )
    told.table("Policies", ("OF", "WHEN", "THEN", "AFTER"), rows)


def _pods(told: Description, pods: list[Json]) -> None:
    shown = pods
    title = "Pods"
    if len(pods) > _PODS:
        shown = sorted(pods, key=lambda pod: status_of(pod).get("phase") == "Succeeded")[:_PODS]
        title = f"Pods ({len(shown)} of {len(pods)})"
    told.table(
        title,
        ("NAME", "TASK", "READY", "STATUS", "RESTARTS", "NODE", "AGE"),
        (
            (
                key_of(pod).name,
                task_of(pod),
                readiness(pod),
                state(pod),
                restarts(pod, told.now),
                spec_of(pod).get("nodeName") or "-",
                age(pod, told.now),
            )
            for pod in shown
        ),
    )


async def _group(client: Client, job: Json) -> Json | None:
    """The job's pod group, if it has one that we may see."""
    metadata = job["metadata"]
    try:
        return await client.get(POD_GROUPS, metadata["namespace"], f"{metadata['name']}-{metadata['uid']}")
    except (NotFound, Forbidden):
        return None
