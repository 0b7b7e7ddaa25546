"""What the options of ``queue create`` and ``queue update`` say about a queue's spec."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import typer

from volcanopy.cli.errors import CommandError

_AMOUNTS = "NAME=QUANTITY,..."


@dataclass(frozen=True)
class Fields:
    """The fields of a queue's spec that options give; None is not given, an empty text takes the field away."""

    weight: Annotated[
        int | None, typer.Option("-w", "--weight", min=1, max=65535, metavar="N", help="Its share beside its siblings.")
    ] = None
    parent: Annotated[str | None, typer.Option("--parent", metavar="NAME", help="The queue that it is below.")] = None
    capability: Annotated[
        str | None, typer.Option("--capability", metavar=_AMOUNTS, help="The most that it may ever hold.")
    ] = None
    deserved: Annotated[str | None, typer.Option("--deserved", metavar=_AMOUNTS, help="What it is due.")] = None
    guarantee: Annotated[
        str | None, typer.Option("--guarantee", metavar=_AMOUNTS, help="What is kept for it even when it is idle.")
    ] = None
    borrowing_limit: Annotated[
        str | None,
        typer.Option("--borrowing-limit", metavar=_AMOUNTS, help="The most it may hold above what it is due."),
    ] = None
    lending_limit: Annotated[
        str | None, typer.Option("--lending-limit", metavar=_AMOUNTS, help="The most of its due that others may use.")
    ] = None
    max_running_jobs: Annotated[
        int | None, typer.Option("--max-running-jobs", min=-1, metavar="N", help="Admitted at once; -1: no limit.")
    ] = None
    max_queued_jobs: Annotated[
        int | None, typer.Option("--max-queued-jobs", min=-1, metavar="N", help="Waiting at once; -1: no limit.")
    ] = None
    priority: Annotated[
        int | None, typer.Option("--priority", min=0, metavar="N", help="Higher ones are served first.")
    ] = None
    priority_offset: Annotated[
        int | None, typer.Option("--priority-offset", metavar="N", help="Added to its jobs' priority towards others.")
    ] = None
    priority_fence: Annotated[
        bool | None,
        typer.Option("--priority-fence/--no-priority-fence", help="Whether its jobs' priorities stay inside."),
    ] = None
    reclaimable: Annotated[
        bool | None,
        typer.Option("--reclaimable/--no-reclaimable", help="Whether others may take back what it borrows."),
    ] = None
    dequeue_strategy: Annotated[
        Literal["fifo", "traverse"] | None,
        typer.Option("--dequeue-strategy", help="Whether one job holds up the rest."),
    ] = None
    type: Annotated[str | None, typer.Option("--type", metavar="WORD", help="What it is used for; a word only.")] = None

    def spec(self) -> dict[str, Any]:
        """The fields given, as a merge patch of the spec; raises Stop for amounts that are none."""
        made: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value is None:
                continue
            option = f"--{one.name.replace('_', '-')}"
            head, *rest = one.name.split("_")
            name = head + "".join(part.capitalize() for part in rest)
            if one.name in _RESOURCES:
                value = amounts(option, value)
                value = {"resource": value} if one.name == "guarantee" and value is not None else value
            elif value in ("", -1) and one.name != "priority_offset":
                value = None
            made[name] = value
        return made


_RESOURCES = frozenset({"capability", "deserved", "guarantee", "borrowing_limit", "lending_limit"})


def amounts(option: str, text: str) -> dict[str, str] | None:
    """``cpu=4,memory=8Gi`` as a resource list; None for an empty text. Raises Stop."""
    from volcanopy.api import quantity

    if not text:
        return None
    made: dict[str, str] = {}
    for part in text.split(","):
        name, equals, given = (one.strip() for one in part.partition("="))
        if not (name and equals and given):
            raise CommandError(f"{option}: {part.strip()!r} is no amount, such as cpu=4 or memory=8Gi", 2)
        if name in made:
            raise CommandError(f"{option}: {name} is given twice", 2)
        try:
            if quantity.amount(name, given) < 0:
                raise CommandError(f"{option}: {name} cannot be less than nothing: {given}", 2)
        except quantity.QuantityError as fault:
            raise CommandError(f"{option}: {name}: {fault}", 2) from None
        made[name] = given
    return made
