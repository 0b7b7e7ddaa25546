"""Output of objects, listed or by name."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcanopy.cli.framework import documents, tables
from volcanopy.cli.framework.options import Format, Selection, ShowOptions
from volcanopy.cli.framework.selection import PartialError, empty_message, for_each, select_objects
from volcanopy.cli.framework.tables import TableForm, View
from volcanopy.client.durations import current_time
from volcanopy.client.kinds import key_of, read, readable
from volcanopy.client.objects import find_object, list_objects
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Json

Describe = Callable[[Client, Any], Awaitable[str]]


@dataclass(frozen=True)
class Query:
    """Objects to list: of one namespace or (None) of all, by labels, and by a filter of read models."""

    namespace: str | None = None
    selector: str = ""
    matches: Callable[[Any], bool] | None = None
    title: str = ""
    """The objects in the message that there are none; by default the kind's plural."""


async def show_list(client: Client, view: View, query: Query, show: ShowOptions) -> None:
    """Print the objects in the order of namespaces and names."""
    bodies = await list_objects(client, view.kind, query.namespace, query.selector)
    if query.matches is not None:
        bodies = [body for body in bodies if any(map(query.matches, view.items([body])))]
    if not bodies and show.output in {Format.table, Format.wide}:
        print(empty_message(query.title or view.kind.plural, query.namespace), file=sys.stderr)
        return
    others = await _others(client, view, query.namespace, show)
    form = _table_form(view, show, namespaces=query.namespace is None, others=others)
    _show_objects(view, sorted(bodies, key=_name_order), show, form=form)


async def show_named(
    client: Client, view: View, namespace: str | None, names: Sequence[str], show: ShowOptions
) -> None:
    """Print the objects of these names; errors for missing ones follow."""
    form = _table_form(view, show, others=await _others(client, view, namespace, show))
    try:
        bodies = await for_each(names, lambda name: find_object(client, view.kind, namespace, name))
    except PartialError as error:
        _show_objects(view, error.results, show, form=form)
        raise
    _show_objects(view, bodies, show, single=len(names) == 1, form=form)


async def describe_selected(
    client: Client, view: View, namespace: str | None, selection: Selection, describe: Describe
) -> None:
    """Print the description of each selected object, separated by empty lines."""

    async def describe_all(bodies: Sequence[Json]) -> None:
        for number, body in enumerate(sorted(bodies, key=_name_order)):
            text = await describe(client, read(view.model, body))
            print(f"\n\n{text}" if number else text, flush=True)

    try:
        bodies = await select_objects(client, view.kind, namespace, selection)
    except PartialError as error:
        await describe_all(error.results)
        raise
    await describe_all(bodies)


def _show_objects(
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


def _table_form(
    view: View, show: ShowOptions, *, namespaces: bool = False, others: Mapping[str, Any] | None = None
) -> TableForm:
    """Return the columns of a table; ``others`` are the objects of its joined column."""
    wide = show.output is Format.wide
    return view.table(wide=wide, namespaces=namespaces, others=others)


async def _others(client: Client, view: View, namespace: str | None, show: ShowOptions) -> Mapping[str, Any]:
    """Return the objects of the joined column by ``namespace/name``; none if they may not be read."""
    joined = view.joined
    if joined is None or show.output is not Format.wide:
        return {}
    try:
        bodies = (await client.list(joined.kind, namespace)).items
    except (Forbidden, NotFound):
        return {}
    return {item.metadata.key: item for item in readable(joined.model, bodies)}


def _name_order(body: Json) -> tuple[str, str]:
    """Return the place of an object in lists: by namespace, then name."""
    key = key_of(body)
    return key.namespace, key.name
