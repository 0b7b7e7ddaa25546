"""Options of ``queue create`` and ``queue update`` for the fields of a queue's spec."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import typer

from volcanopy.cli.framework.options import INT32
from volcanopy.client.errors import CommandError

_AMOUNTS = "NAME=QUANTITY,..."


@dataclass(frozen=True)
class SpecOptions:
    """Fields of a queue's spec; None where the option is not given, an empty text removes the field."""

    weight: Annotated[
        int | None,
        typer.Option("-w", "--weight", min=1, max=65535, metavar="N", help="Weight relative to sibling queues."),
    ] = None
    parent: Annotated[str | None, typer.Option(metavar="NAME", help="Parent queue.")] = None
    capability: Annotated[str | None, typer.Option(metavar=_AMOUNTS, help="Maximum of allocated resources.")] = None
    deserved: Annotated[str | None, typer.Option(metavar=_AMOUNTS, help="Deserved amounts.")] = None
    guarantee: Annotated[
        str | None,
        typer.Option(metavar=_AMOUNTS, help="Resources guaranteed to the queue, never lent."),
    ] = None
    borrowing_limit: Annotated[
        str | None,
        typer.Option(metavar=_AMOUNTS, help="Maximum above the fair share."),
    ] = None
    lending_limit: Annotated[
        str | None,
        typer.Option(metavar=_AMOUNTS, help="Maximum of the fair share that other queues may borrow."),
    ] = None
    max_running_jobs: Annotated[
        int | None,
        typer.Option(min=-1, max=INT32, metavar="N", help="Maximum number of admitted jobs; -1: no limit."),
    ] = None
    max_queued_jobs: Annotated[
        int | None,
        typer.Option(min=-1, max=INT32, metavar="N", help="Maximum number of waiting jobs; -1: no limit."),
    ] = None
    priority: Annotated[
        int | None, typer.Option(min=0, max=INT32, metavar="N", help="Priority among queues, highest first.")
    ] = None
    reclaimable: Annotated[
        bool | None,
        typer.Option(help="Whether other queues may reclaim borrowed resources."),
    ] = None
    dequeue_strategy: Annotated[
        Literal["fifo", "traverse"] | None,
        typer.Option(help="fifo: a blocked head job blocks the queue; traverse: it does not."),
    ] = None
    job_order: Annotated[
        Literal["configured", "fifo", "priority", "fair", "usage"] | None,
        typer.Option(
            help="configured: by the plugins; fifo: oldest job first; priority: highest first; fair: users share equally; usage: "
            "users with the smallest past usage first."
        ),
    ] = None
    type: Annotated[str | None, typer.Option(metavar="WORD", help="Type of the queue, for information only.")] = None

    def spec(self) -> dict[str, Any]:
        """Return the given fields as a merge patch of the spec; raises CommandError for invalid quantities."""
        spec: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None:
                continue
            option = f"--{item.name.replace('_', '-')}"
            head, *rest = item.name.split("_")
            name = head + "".join(part.capitalize() for part in rest)
            if item.name in _RESOURCES:
                value = parse_amounts(option, value)
                value = {"resource": value} if item.name == "guarantee" and value is not None else value
            elif value in ("", -1):
                value = None
            spec[name] = value
        return spec


_RESOURCES = frozenset({"capability", "deserved", "guarantee", "borrowing_limit", "lending_limit"})


def parse_amounts(option: str, text: str) -> dict[str, str] | None:
    """Return ``cpu=4,memory=8Gi`` as a resource list; None for an empty text. Raises CommandError."""
    from volcanopy.api import quantity

    if not text:
        return None
    amounts: dict[str, str] = {}
    for part in text.split(","):
        name, equals, given = (piece.strip() for piece in part.partition("="))
        if not (name and equals and given):
            raise CommandError(
                f"{option}: {part.strip()!r} is invalid: use NAME=QUANTITY, such as cpu=4 or memory=8Gi", 2
            )
        if name in amounts:
            raise CommandError(f"{option}: {name} is given twice", 2)
        try:
            if quantity.amount(name, given) < 0:
                raise CommandError(f"{option}: {name} {given!r} is negative: use 0 or more", 2)
        except quantity.QuantityError as fault:
            raise CommandError(f"{option}: {name}: {fault}", 2) from None
        amounts[name] = given
    return amounts
