"""Lists and single objects, printed as the options say, once or for as long as they change."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from volcanopy.cli.framework import documents, tables
from volcanopy.cli.framework.kinds import key_of
from volcanopy.cli.framework.objects import PartialError, find_object, for_each, list_objects, select_objects
from volcanopy.cli.framework.options import Chosen, Format, Show
from volcanopy.cli.framework.tables import TableForm, View
from volcanopy.cli.framework.watch import Changes, WatchedObjects, watch_objects
from volcanopy.cli.render import plain_table
from volcanopy.kube.cache.watch import ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind

_TICK = 1.0
"""Seconds between two renewals of a live table when nothing happens: the ages in it go on."""


@dataclass(frozen=True)
class Wanted:
    """Which objects: of one namespace or (None) of all, by labels, by fields, and by what ``keep`` says of each."""

    namespace: str | None = None
    selector: str = ""
    fields: str = ""
    keep: Callable[[Json], bool] = lambda _: True
    what: str = ""
    """What is listed, for the sentence that there is none; the kind's plural otherwise."""


async def show_list(client: Client, view: View, wanted: Wanted, show: Show) -> None:
    """Print the objects in the order of their namespaces and names; with ``--watch`` go on until Ctrl-C."""
    form = _form(view, show, namespaces=wanted.namespace is None)
    if show.watch:
        await _watch(client, view, wanted, show, form)
        return
    found_all = await list_objects(client, view.kind, wanted.namespace, wanted.selector, wanted.fields)
    bodies = sorted((body for body in found_all if wanted.keep(body)), key=_order)
    if not bodies and show.output in {Format.table, Format.wide}:
        print(_none(view, wanted), file=sys.stderr)
        return
    show_objects(view, bodies, show, form=form)


async def show_named(client: Client, view: View, namespace: str | None, names: Sequence[str], show: Show) -> None:
    """Print the objects of these names; those that are not there are said after the others are printed."""
    if show.watch:
        name = key_of(await find_object(client, view.kind, namespace, names[0])).name
        await show_list(client, view, Wanted(namespace, fields=f"metadata.name={name}"), show)
        return
    try:
        bodies = await for_each(names, lambda name: find_object(client, view.kind, namespace, name))
    except PartialError as stop:
        show_objects(view, [body for body in stop.done if isinstance(body, dict)], show)
        raise
    show_objects(view, bodies, show, single=len(names) == 1)


async def describe_chosen(
    client: Client,
    kind: Kind[Json],
    namespace: str | None,
    which: Chosen,
    describe: Callable[[Client, Json], Awaitable[str]],
) -> None:
    """Print the description of each object that is meant, with empty lines between them."""
    try:
        bodies = await select_objects(
            client, kind, namespace, which.names or (), which.selector, everything=which.everything
        )
    except PartialError as stop:
        await _describe(client, stop.done, describe)
        raise
    await _describe(client, bodies, describe)


async def _describe(client: Client, bodies: Sequence[Json], describe: Callable[[Client, Json], Awaitable[str]]) -> None:
    for number, body in enumerate(sorted(bodies, key=_order)):
        text = await describe(client, body)
        print(f"\n\n{text}" if number else text, flush=True)


def show_objects(
    view: View, bodies: Sequence[Json], show: Show, *, single: bool = False, form: TableForm | None = None
) -> None:
    """Print objects once; ``single`` ones are documents of their own and not lists."""
    if show.output is Format.name:
        for body in bodies:
            print(documents.name(view.kind, body))
    elif show.output in {Format.json, Format.yaml}:
        whole = documents.whole(view.kind, bodies[0]) if single else documents.as_list(view.kind, bodies)
        sys.stdout.write(documents.text(whole, show.output))
    else:
        tables.print_table(form or _form(view, show), bodies, datetime.now(UTC))


def _form(view: View, show: Show, *, namespaces: bool = False) -> TableForm:
    return view.table(wide=show.output is Format.wide, namespaces=namespaces, headings=not show.no_headers)


def _none(view: View, wanted: Wanted) -> str:
    what = wanted.what or view.kind.plural
    return f"No {what} found in namespace {wanted.namespace}." if wanted.namespace else f"No {what} found."


def _order(body: Json) -> tuple[str, str]:
    where = key_of(body)
    return where.namespace, where.name


async def _watch(client: Client, view: View, wanted: Wanted, show: Show, form: TableForm) -> None:
    live = tables.coloured() and show.output in {Format.table, Format.wide}
    printer = None if live else _Printer(view, wanted, show, form)
    async with watch_objects(
        client,
        view.kind,
        wanted.namespace,
        selector=wanted.selector,
        fields=wanted.fields,
        take=printer.take if printer else None,
    ) as followed:
        if live:
            await _live(followed, wanted, form)
        while True:
            await followed.changed()


async def _live(followed: WatchedObjects, wanted: Wanted, form: TableForm) -> None:
    from rich.live import Live

    console = tables.console()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            bodies = sorted((body for body in followed.objects.values() if wanted.keep(body)), key=_order)
            live.update(form.rich(bodies, datetime.now(UTC)), refresh=True)
            await followed.changed(_TICK)


class _Printer:
    """Prints what changes: rows under one line of headings, or documents."""

    def __init__(self, view: View, wanted: Wanted, show: Show, form: TableForm) -> None:
        self._view, self._wanted, self._show, self._form = view, wanted, show, form
        self._widths: list[int] = []

    def take(self, changes: Changes) -> None:
        """Print a batch; what has gone is shown as it was last."""
        bodies = [change.object for change in changes if self._wanted.keep(change.object)]
        first = all(change.type is ChangeType.ADDED for change in changes)
        if first:
            bodies.sort(key=_order)
        if self._show.output is Format.name:
            for body in bodies:
                print(documents.name(self._view.kind, body), flush=True)
        elif self._show.output in {Format.json, Format.yaml}:
            for body in bodies:
                mark = "---\n" if self._show.output is Format.yaml else ""
                whole = documents.whole(self._view.kind, body)
                print(mark + documents.text(whole, self._show.output), end="", flush=True)
        elif bodies:
            self._rows(bodies)

    def _rows(self, bodies: Sequence[Json]) -> None:
        """Rows below those that were printed before: columns get wider, never narrower."""
        rows = self._form.cells(bodies, datetime.now(UTC))
        headings = [one.heading for one in self._form.columns]
        shown = self._widths or not self._form.headings
        self._widths = [
            max([old, len(heading), *(len(row[number]) for row in rows)])
            for number, (old, heading) in enumerate(zip(self._widths or [0] * len(headings), headings, strict=True))
        ]
        padded = [[cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)] for row in rows]
        text = plain_table(
            [heading.ljust(width) for heading, width in zip(headings, self._widths, strict=True)], padded
        )
        print(text.partition("\n")[2] if shown else text, flush=True)
