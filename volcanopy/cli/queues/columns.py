"""How queues are shown in a table: where each stands in the tree, whether it takes jobs, what it holds and who is in it."""

from collections.abc import Mapping
from datetime import datetime

from volcanopy.api import quantity
from volcanopy.cli.explaining.queue import policy, state
from volcanopy.cli.explaining.reading import parent_of
from volcanopy.cli.framework.kinds import QUEUES, spec_of, status_of
from volcanopy.cli.framework.tables import AGE, NAME, Column, View
from volcanopy.kube.client.kinds import Json

_STYLES = {"Open": "green", "Closing": "yellow", "Closed": "red", "Unknown": "red"}


def short(amounts: Mapping[str, str] | None) -> str:
    """Amounts in one cell: ``cpu=4,memory=8Gi``."""
    return ",".join(f"{name}={text}" for name, text in sorted((amounts or {}).items())) or "-"


def holds(queue: Json) -> str:
    """What it holds of what it deserves, of the resource where that is the greatest part: ``4 of 8 cpu``."""
    status = status_of(queue)
    held, due = status.get("allocated") or {}, status.get("deserved") or {}
    names = sorted(set(held) - {"pods"})
    if not names:
        return "-"

    def part(name: str) -> float:
        whole = quantity.parse(due[name]) if name in due else 0
        return float(quantity.parse(held[name]) / whole) if whole else 0.0

    name = max(names, key=part)
    return f"{held[name]} of {due[name]} {name}" if name in due else f"{held[name]} {name}"


def _count(field: str, heading: str, *, wide: bool = False) -> Column:
    def cell(queue: Json, _: datetime) -> str:
        return str(status_of(queue).get(field, 0))

    return Column(heading, cell, wide=wide)


def _spec(field: str, heading: str, missing: str = "-") -> Column:
    def cell(queue: Json, _: datetime) -> str:
        value = spec_of(queue).get(field)
        return short(value) if isinstance(value, dict) else missing if value in (None, "") else str(value)

    return Column(heading, cell, wide=True)


VIEW = View(
    QUEUES,
    (
        NAME,
        Column("PARENT", lambda queue, _: parent_of(queue) or "-"),
        Column("STATE", lambda queue, _: state(queue), style=lambda text: _STYLES.get(text, "")),
        Column("STOP", lambda queue, _: policy(queue), style=lambda text: "" if text == "None" else "yellow"),
        Column("WEIGHT", lambda queue, _: str(spec_of(queue).get("weight", 1))),
        Column("HOLDS", lambda queue, _: holds(queue)),
        _count("pending", "PENDING"),
        _count("inqueue", "INQUEUE"),
        _count("running", "RUNNING"),
        _count("unknown", "UNKNOWN", wide=True),
        _count("completed", "COMPLETED", wide=True),
        Column("SHARE", lambda queue, _: str(status_of(queue).get("share") or "-"), wide=True),
        Column("WAITING", lambda queue, _: short(status_of(queue).get("waiting")), wide=True),
        _spec("priority", "PRIORITY", "0"),
        _spec("capability", "CAPABILITY"),
        _spec("deserved", "DESERVED"),
        Column("GUARANTEE", lambda queue, _: short((spec_of(queue).get("guarantee") or {}).get("resource")), wide=True),
        AGE,
    ),
)
"""``volcanopy queue list``."""
