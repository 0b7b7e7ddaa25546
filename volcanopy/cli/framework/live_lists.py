"""Output of objects as they change, for ``--watch``."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

from volcanopy.cli.framework import documents, tables
from volcanopy.cli.framework.lists import Query, matching_objects, name_order, needs_others, table_form
from volcanopy.cli.framework.options import Format, ShowOptions
from volcanopy.cli.framework.tables import TableForm, View, plain_table
from volcanopy.client.durations import current_time
from volcanopy.client.kinds import read
from volcanopy.client.watch import Changes, WatchedObjects, watch_objects
from volcanopy.kube.cache.watch import ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Json

_REFRESH = 1.0
"""Seconds between two updates of a live table without changes, for the ages in it."""


class _WatchedOthers(Mapping[str, Any]):
    """The objects of the joined column as they are now, read when a row needs them."""

    def __init__(self, model: type[Any], watched: WatchedObjects) -> None:
        self._model, self._watched = model, watched

    def __getitem__(self, key: str) -> Any:
        return read(self._model, self._watched.objects[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._watched.objects)

    def __len__(self) -> int:
        return len(self._watched.objects)


async def watch_list(client: Client, view: View, query: Query, show: ShowOptions) -> None:
    """Print the objects as they change, until Ctrl-C: a table that is updated in a terminal, else a row for each change."""
    live = tables.coloured() and show.output in {Format.table, Format.wide}
    async with AsyncExitStack() as stack:
        others: Mapping[str, Any] = {}
        if view.joined is not None and needs_others(view, show):
            with suppress(Forbidden, NotFound):
                joined = await stack.enter_async_context(watch_objects(client, view.joined.kind, query.namespace))
                others = _WatchedOthers(view.joined.model, joined)
        form = table_form(view, show, namespaces=query.namespace is None, others=others)
        printer = None if live else _Printer(view, query, show, form)
        watched = await stack.enter_async_context(
            watch_objects(
                client,
                view.kind,
                query.namespace,
                selector=query.selector,
                fields=query.fields,
                take=printer.take if printer else None,
            )
        )
        if live:
            await _live(watched, view, query, form)
        while True:
            await watched.changed()


async def _live(watched: WatchedObjects, view: View, query: Query, form: TableForm) -> None:
    from rich.live import Live

    with Live(console=tables.console(), auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            bodies = matching_objects(view, query, list(watched.objects.values()))
            live.update(form.rich(view.items(bodies), current_time()), refresh=True)
            await watched.changed(_REFRESH)


class _Printer:
    """Prints changes: rows below one line of headings, or documents."""

    def __init__(self, view: View, query: Query, show: ShowOptions, form: TableForm) -> None:
        self._view, self._query, self._show, self._form = view, query, show, form
        self._widths: list[int] = []

    def take(self, changes: Changes) -> None:
        """Print a batch; deleted objects are printed in their last state."""
        matches = self._query.matches
        bodies = [
            change.object
            for change in changes
            if matches is None or any(map(matches, self._view.items([change.object])))
        ]
        if all(change.type is ChangeType.ADDED for change in changes):
            bodies.sort(key=name_order)
        if self._show.output is Format.name:
            for body in bodies:
                print(documents.name(self._view.kind, body), flush=True)
        elif self._show.output in {Format.json, Format.yaml}:
            mark = "---\n" if self._show.output is Format.yaml else ""
            for body in bodies:
                document = documents.whole(self._view.kind, body)
                print(mark + documents.text(document, self._show.output), end="", flush=True)
        elif bodies:
            self._rows(bodies)

    def _rows(self, bodies: Sequence[Json]) -> None:
        """Print rows below the earlier ones: columns get wider, never narrower."""
        rows = self._form.cells(self._view.items(bodies), current_time())
        headings = [column.heading for column in self._form.columns]
        without_headings = self._widths or not self._form.headings
        self._widths = [
            max([old, len(heading), *(len(row[number]) for row in rows)])
            for number, (old, heading) in enumerate(zip(self._widths or [0] * len(headings), headings, strict=True))
        ]
        padded = [
            [cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)] for row in (headings, *rows)
        ]
        text = plain_table(padded[0], padded[1:])
        print(text.partition("\n")[2] if without_headings else text, flush=True)
