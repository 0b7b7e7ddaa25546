"""Pod groups, as ``volcanopy podgroup`` shows them."""

from datetime import datetime

from volcanopy.api import names
from volcanopy.cli.framework.description import Description, events_of
from volcanopy.cli.framework.durations import age
from volcanopy.cli.framework.kinds import POD_GROUPS, PODS, key_of, spec_of, status_of
from volcanopy.cli.framework.tables import AGE, NAME, Column, View, phase_style, wait_style
from volcanopy.cli.jobs.pods import readiness, state, task_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json

_WAITING = frozenset({"Pending", "Inqueue", "Unknown", ""})
_STYLES = {"Inqueue": "Pending", "Unknown": "Failed"}


def phase(group: Json) -> str:
    """Where a gang stands; one that no scheduler has looked at yet is pending."""
    return status_of(group).get("phase") or "Pending"


def queue(group: Json) -> str:
    """The queue that it waits in."""
    return spec_of(group).get("queue") or "default"


def why(group: Json) -> str:
    """Why it waits, in the scheduler's sentence; empty when it does not."""
    if status_of(group).get("phase", "") not in _WAITING:
        return ""
    conditions = status_of(group).get("conditions") or ()
    holds = (one for one in conditions if one.get("type") == "Unschedulable" and one.get("status") == "True")
    said = next((one.get("message") for one in holds), "")
    if not said and not status_of(group).get("phase"):
        return "no scheduler has looked at it yet"
    return " ".join((said or "").split())


def owner(group: Json, _: datetime) -> str:
    """What it was made for: ``BatchJob/training``."""
    owners = group["metadata"].get("ownerReferences") or ()
    return next((f"{one['kind']}/{one['name']}" for one in owners if one.get("controller")), "")


def _count(field: str) -> Column:
    return Column(field.upper(), lambda group, _: str(status_of(group).get(field) or 0), wide=field != "running")


VIEW = View(
    POD_GROUPS,
    (
        NAME,
        Column("PHASE", lambda group, _: phase(group), style=lambda text: phase_style(_STYLES.get(text, text))),
        Column("MIN", lambda group, _: str(spec_of(group).get("minMember") or 0)),
        _count("running"),
        Column("QUEUE", lambda group, _: queue(group)),
        AGE,
        _count("succeeded"),
        _count("failed"),
        Column("OWNER", owner, wide=True),
        Column("WHY", lambda group, _: why(group), style=wait_style, sentence=True),
    ),
)
"""``volcanopy podgroup list``."""


async def description(client: Client, group: Json) -> str:
    """A pod group in lines."""
    told = Description(group)
    spec, status = spec_of(group), status_of(group)
    told.line("Queue", queue(group))
    told.line("Priority Class", spec.get("priorityClassName"))
    told.line("Min Member", spec.get("minMember", 0))
    if spec.get("minTaskMember"):
        told.pairs("Min By Task", spec["minTaskMember"])
    if spec.get("minResources"):
        told.pairs("Min Resources", spec["minResources"])
    told.line("Phase", phase(group))
    told.line("Pods", ", ".join(f"{status.get(one) or 0} {one}" for one in ("running", "succeeded", "failed")))
    told.line("Why", why(group))
    reasons = status.get("explanation") or {}
    told.line("Gate", reasons.get("gate"))
    told.line("Would Start With", reasons.get("unblock"))
    told.line("Waits For", ", ".join(reasons.get("ahead") or ()))
    told.table(
        "Nodes", ("NODES", "REASON"), ((count, one) for one, count in sorted((reasons.get("nodes") or {}).items()))
    )
    where = key_of(group)
    listing = await client.list(PODS, where.namespace)
    members = [
        pod for pod in listing.items if (pod["metadata"].get("annotations") or {}).get(names.GROUP_NAME) == where.name
    ]
    told.table(
        "Pods",
        ("NAME", "TASK", "READY", "STATUS", "NODE", "AGE"),
        (
            (
                key_of(pod).name,
                task_of(pod) or "-",
                readiness(pod),
                state(pod),
                spec_of(pod).get("nodeName") or "-",
                age(pod, told.now),
            )
            for pod in sorted(members, key=lambda pod: key_of(pod).name)
        ),
    )
    told.conditions(group)
    told.events(await events_of(client, group))
    return told.text()
