"""``volcanopy queue describe``: all that is to be known about a queue, for people."""

from volcanopy.cli.explaining.queue import COUNTS, account_of, policy, state, stops
from volcanopy.cli.explaining.reading import queue_facts
from volcanopy.cli.framework.description import Description, events_of
from volcanopy.cli.framework.kinds import key_of, spec_of, status_of
from volcanopy.cli.queues.columns import short
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json

_SHOWN = 20
"""So many of those who wait are shown."""
_TITLES = {
    "priority": "Priority",
    "priorityOffset": "Priority Offset",
    "priorityFence": "Priority Fence",
    "reclaimable": "Reclaimable",
    "dequeueStrategy": "Dequeue Strategy",
    "maxRunningJobs": "Max Running Jobs",
    "maxQueuedJobs": "Max Queued Jobs",
    "type": "Type",
}


async def description(client: Client, queue: Json) -> str:
    """The queue in lines."""
    facts = await queue_facts(client, key_of(queue).name)
    account = account_of(facts)
    told, spec, status = Description(queue), spec_of(queue), status_of(queue)
    told.line("Above", " < ".join(account.parents))
    told.line("Below", ", ".join(account.below))
    told.line("State", state(queue))
    told.line("Stop Policy", policy(queue))
    stopped = stops(queue, facts.above)
    told.line("Takes Jobs", f"no: it {stopped}" if stopped else "yes")
    told.line("Weight", spec.get("weight", 1))
    told.line("Share", status.get("share"))
    for key, title in _TITLES.items():
        told.line(title, spec.get(key))
    told.line("Guarantee", short((spec.get("guarantee") or {}).get("resource")))
    told.line("Borrowing Limit", short(spec.get("borrowingLimit")))
    told.line("Lending Limit", short(spec.get("lendingLimit")))
    told.line("Submitters", _subjects(spec.get("submitters")))
    told.line("Administrators", _subjects(spec.get("administrators")))
    rows = [
        (
            one.resource,
            *(text or "-" for text in (one.held, one.deserved, one.limit, one.left, one.borrowed, one.waiting)),
        )
        for one in account.holdings
    ]
    told.table("Resources", ("NAME", "HOLDS", "DESERVES", "MAY HOLD", "MAY TAKE", "BORROWED", "WAITING"), rows)
    told.table(
        "Limits", ("OF", "RESOURCES", "RUNNING JOBS", "QUEUED JOBS"), [_limit(one) for one in spec.get("limits") or ()]
    )
    told.line("Pod Groups", ", ".join(f"{status[kind]} {kind}" for kind in COUNTS if status.get(kind)) or "none")
    waiting = [(one.place or "-", one.namespace, one.name, one.gate, one.message) for one in account.waiting[:_SHOWN]]
    more = len(account.waiting) - len(waiting)
    title = f"In Line ({len(waiting)} of {len(account.waiting)})" if more else "In Line"
    told.table(title, ("PLACE", "NAMESPACE", "NAME", "GATE", "WHY"), waiting)
    for note in account.notes:
        told.line("Note", note)
    told.events(await events_of(client, queue))
    return told.text()


def _subjects(said: Json | None) -> str:
    """Those who are named; empty where nobody is spoken of."""
    if said is None:
        return ""
    kinds = (
        ("users", "user"),
        ("groups", "group"),
        ("serviceAccounts", "service account"),
        ("namespaces", "namespace"),
    )
    return ", ".join(f"{word} {name}" for key, word in kinds for name in said.get(key) or ()) or "nobody"


def _limit(one: Json) -> tuple[str, ...]:
    whose = [f"user {name}" for name in one.get("users") or ()] + [f"group {name}" for name in one.get("groups") or ()]
    resources = short(one.get("resources"))
    return ", ".join(whose), resources, str(one.get("maxRunningJobs", "-")), str(one.get("maxQueuedJobs", "-"))
