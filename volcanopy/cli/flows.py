"""Flows and the templates that they make jobs from, as ``volcanopy jobflow`` and ``jobtemplate`` show them."""

from datetime import datetime

from volcanopy.cli.framework.description import Description, events_of
from volcanopy.cli.framework.kinds import FLOWS, TEMPLATES, key_of, spec_of, status_of
from volcanopy.cli.framework.tables import AGE, NAME, Column, View, phase_style, wait_style
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json

_DONE = frozenset({"Succeed"})


def phase(flow: Json) -> str:
    """Where a flow stands; one that no controller has looked at yet is pending."""
    return (status_of(flow).get("state") or {}).get("phase") or "Pending"


def message(flow: Json) -> str:
    """Why it stands there."""
    if not status_of(flow).get("state"):
        return "no controller has looked at it yet"
    return " ".join((status_of(flow)["state"].get("message") or "").split())


def _done(flow: Json, _: datetime) -> str:
    done = len(status_of(flow).get("completedJobs") or ())
    return f"{done}/{len(spec_of(flow).get('flows') or ())}"


VIEW = View(
    FLOWS,
    (
        NAME,
        Column(
            "PHASE", lambda flow, _: phase(flow), style=lambda text: phase_style("Completed" if text in _DONE else text)
        ),
        Column("DONE", _done),
        AGE,
        Column("RUNNING", lambda flow, _: ",".join(status_of(flow).get("runningJobs") or ()), wide=True),
        Column("JOBS", lambda flow, _: message(flow).removeprefix("jobs: "), style=wait_style, sentence=True),
    ),
)
"""``volcanopy jobflow list``."""


def _tasks(template: Json, _: datetime) -> str:
    tasks = spec_of(template).get("tasks") or ()
    return ",".join(f"{one['name']} x {one.get('replicas', 1)}" for one in tasks)


def _made(template: Json, _: datetime) -> str:
    return str(len(status_of(template).get("jobDependsOnList") or ()))


TEMPLATE_VIEW = View(
    TEMPLATES,
    (
        NAME,
        Column("TASKS", _tasks),
        Column("QUEUE", lambda template, _: spec_of(template).get("queue") or "default"),
        Column("JOBS", _made),
        AGE,
    ),
)
"""``volcanopy jobtemplate list``."""


async def description(client: Client, flow: Json) -> str:
    """A flow in lines."""
    told = Description(flow)
    spec, status = spec_of(flow), status_of(flow)
    told.line("Phase", phase(flow))
    told.line("Why", message(flow))
    told.line("When Done", f"jobs: {spec.get('jobRetainPolicy', 'retain')}")
    told.line("When One Fails", spec.get("failurePolicy", "stop"))
    stands = {one["name"]: one for one in status.get("jobStatusList") or ()}
    rows = []
    for step in spec.get("flows") or ():
        name = f"{key_of(flow).name}-{step['name']}"
        one = stands.get(name) or stands.get(step["name"]) or {}
        rows.append(
            (
                name,
                step.get("template") or step["name"],
                ",".join((step.get("dependsOn") or {}).get("targets") or ()) or "-",
                one.get("state") or "-",
                one.get("attempt", 0),
                one.get("runningDuration", "-"),
                " ".join((one.get("message") or "").split()),
            )
        )
    told.table("Jobs", ("NAME", "TEMPLATE", "AFTER", "STATE", "RETRIES", "RAN FOR", "WHY"), rows)
    told.events(await events_of(client, flow))
    return told.text()


async def template_description(client: Client, template: Json) -> str:
    """A template in lines."""
    told = Description(template)
    spec = spec_of(template)
    told.line("Queue", spec.get("queue") or "default")
    told.line("Min Available", spec.get("minAvailable"))
    told.line("Plugins", ", ".join(sorted(spec.get("plugins") or ())))
    rows = []
    for task in spec.get("tasks") or ():
        containers = ((task.get("template") or {}).get("spec") or {}).get("containers") or ()
        replicas = task.get("replicas", 1)
        images = ",".join(one.get("image", "") for one in containers)
        rows.append((task["name"], replicas, task.get("minAvailable", replicas), images))
    told.table("Tasks", ("NAME", "REPLICAS", "MIN", "IMAGE"), rows)
    told.line("Jobs", ", ".join(status_of(template).get("jobDependsOnList") or ()) or "<none>")
    told.events(await events_of(client, template))
    return told.text()
