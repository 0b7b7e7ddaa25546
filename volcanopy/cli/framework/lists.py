"""Output of objects, listed or by name, once or as they change."""

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

from volcanopy.cli.framework import documents, tables
from volcanopy.cli.framework.durations import current_time
from volcanopy.cli.framework.kinds import key_of, read, readable
from volcanopy.cli.framework.objects import PartialError, find_object, for_each, list_objects, select_objects
from volcanopy.cli.framework.options import Format, Selection, ShowOptions
from volcanopy.cli.framework.tables import TableForm, View, plain_table
from volcanopy.cli.framework.watch import Changes, WatchedObjects, watch_objects
from volcanopy.kube.cache.watch import ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Json

_REFRESH = 1.0
"""Seconds between two updates of a live table without changes, for the ages in it."""

Describe = Callable[[Client, Any], Awaitable[str]]


@dataclass(frozen=True)
class Query:
    """Objects to list: of one namespace or (None) of all, by labels, by fields, and by a filter of read models."""

    namespace: str | None = None
    selector: str = ""
    fields: str = ""
    matches: Callable[[Any], bool] | None = None
    title: str = ""
    """The objects in the message that there are none; by default the kind's plural."""


async def show_list(client: Client, view: View, query: Query, show: ShowOptions) -> None:
    """Print the objects in the order of namespaces and names; with ``--watch`` continue until Ctrl-C."""
    if show.watch:
        await _watch(client, view, query, show)
        return
    bodies = _matching(
        view, query, await list_objects(client, view.kind, query.namespace, query.selector, query.fields)
    )
    if not bodies and show.output in {Format.table, Format.wide}:
        where = f' in namespace "{query.namespace}"' if query.namespace else ""
        print(f"No {query.title or view.kind.plural} found{where}.", file=sys.stderr)
        return
    others = await _others(client, view, query.namespace, show)
    show_objects(view, bodies, show, form=_form(view, show, namespaces=query.namespace is None, others=others))


async def show_named(
    client: Client, view: View, namespace: str | None, names: Sequence[str], show: ShowOptions
) -> None:
    """Print the objects of these names; errors for missing ones follow."""
    if show.watch:
        name = key_of(await find_object(client, view.kind, namespace, names[0])).name
        await show_list(client, view, Query(namespace, fields=f"metadata.name={name}"), show)
        return
    form = _form(view, show, others=await _others(client, view, namespace, show))
    try:
        bodies = await for_each(names, lambda name: find_object(client, view.kind, namespace, name))
    except PartialError as error:
        show_objects(view, error.results, show, form=form)
        raise
    show_objects(view, bodies, show, single=len(names) == 1, form=form)


async def describe_selected(
    client: Client, view: View, namespace: str | None, selection: Selection, describe: Describe
) -> None:
    """Print the description of each selected object, separated by empty lines."""

    async def describe_all(bodies: Sequence[Json]) -> None:
        for number, body in enumerate(sorted(bodies, key=_order)):
            text = await describe(client, read(view.model, body))
            print(f"\n\n{text}" if number else text, flush=True)

    try:
        bodies = await select_objects(client, view.kind, namespace, selection)
    except PartialError as error:
        await describe_all(error.results)
        raise
    await describe_all(bodies)


def show_objects(
    view: View, bodies: Sequence[Json], show: ShowOptions, *, form: TableForm, single: bool = False
) -> None:
    """Print objects once; a ``single`` one as a document of its own instead of a list."""
    if show.output is Format.name:
        for body in bodies:
            print(documents.name(view.kind, body))
    elif show.output in {Format.json, Format.yaml}:
        document = documents.whole(view.kind, bodies[0]) if single else documents.as_list(view.kind, bodies)
        sys.stdout.write(documents.text(document, show.output))
    else:
        tables.print_table(form, view.items(bodies), current_time())


def _form(
    view: View, show: ShowOptions, *, namespaces: bool = False, others: Mapping[str, Any] | None = None
) -> TableForm:
    wide = show.output is Format.wide
    return view.table(wide=wide, namespaces=namespaces, headings=not show.no_headers, others=others)


def _needs_others(view: View, show: ShowOptions) -> bool:
    return view.joined is not None and show.output is Format.wide


async def _others(client: Client, view: View, namespace: str | None, show: ShowOptions) -> Mapping[str, Any]:
    """Return the objects of the joined column by ``namespace/name``; none if they may not be read."""
    joined = view.joined
    if joined is None or not _needs_others(view, show):
        return {}
    try:
        bodies = (await client.list(joined.kind, namespace)).items
    except (Forbidden, NotFound):
        return {}
    return {item.metadata.key: item for item in readable(joined.model, bodies)}


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


def _matching(view: View, query: Query, bodies: Sequence[Json]) -> list[Json]:
    """Return the objects that pass the filter, in order."""
    matches = query.matches
    if matches is not None:
        bodies = [body for body in bodies if any(map(matches, view.items([body])))]
    return sorted(bodies, key=_order)


def _order(body: Json) -> tuple[str, str]:
    key = key_of(body)
    return key.namespace, key.name


async def _watch(client: Client, view: View, query: Query, show: ShowOptions) -> None:
    live = tables.coloured() and show.output in {Format.table, Format.wide}
    async with AsyncExitStack() as stack:
        others: Mapping[str, Any] = {}
        if view.joined is not None and _needs_others(view, show):
            with suppress(Forbidden, NotFound):
                joined = await stack.enter_async_context(watch_objects(client, view.joined.kind, query.namespace))
                others = _WatchedOthers(view.joined.model, joined)
        form = _form(view, show, namespaces=query.namespace is None, others=others)
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
            bodies = _matching(view, query, list(watched.objects.values()))
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
            bodies.sort(key=_order)
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
