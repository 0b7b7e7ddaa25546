"""Objects by name or label, and the errors for missing ones, with similar names."""

import difflib
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

from volcanopy.client import access
from volcanopy.client.errors import CommandError, not_served
from volcanopy.client.kinds import key_of, resource, word
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError, Forbidden, KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import of_other_apis

T = TypeVar("T")
R = TypeVar("R")
_COMPARED = 2000
"""Number of names that are compared with a missing one."""
_SUGGESTED = 3


def bare_name(kind: Kind[Json], text: str) -> str:
    """Return the name in ``name`` or ``kind/name``; raises CommandError for another kind or an empty name."""
    prefix, slash, name = text.rpartition("/")
    if not slash:
        prefix, name = "", text
    if prefix and prefix.lower() not in {resource(kind), kind.plural, kind.kind.lower(), word(kind).replace(" ", "")}:
        raise CommandError(f"{text}: expected a name of {kind.plural}, not of {prefix}", 2)
    if not name:
        raise CommandError(f"{text!r} is not a name of a {word(kind)}", 2)
    return name


async def list_objects(client: Client, kind: Kind[Json], namespace: str | None, selector: str = "") -> list[Json]:
    """Return the objects that match the selectors; raises CommandError where the cluster does not serve the kind."""
    try:
        return (await client.list(kind, namespace, label_selector=selector)).items
    except NotFound:
        raise CommandError(not_served(f"{kind.kind} of {kind.api_version}")) from None
    except Forbidden as fault:
        if namespace is not None or not kind.namespaced:
            raise
        candidates = [client.connection.namespace, *await access.namespaces(client)]
        names = await access.readable(client, kind, candidates)
        where = f", as in {_namespaces(names)}: use -n {names[0]}" if names else ": use -n NAMESPACE"
        raise CommandError(f"you may not list {kind.plural} in all namespaces, only in one{where}") from fault
    except ApiError as fault:
        if fault.code != 400 or not selector:
            raise
        raise CommandError(f"--selector: {selector!r} is invalid: {fault}", 2) from None


async def find_object(client: Client, kind: Kind[Json], namespace: str | None, text: str) -> Json:
    """Return the object of that name; raises CommandError with similar names when there is none."""
    name = bare_name(kind, text)
    try:
        return await client.get(kind, namespace, name)
    except NotFound as fault:
        raise await not_found_error(client, kind, namespace, name, fault) from None


async def not_found_error(
    client: Client, kind: Kind[Json], namespace: str | None, name: str, fault: ApiError
) -> CommandError:
    """Return the error for a missing object, with similar names, or where it exists: another namespace or API."""
    if not (fault.details and fault.details.name):
        return CommandError(not_served(f"{kind.kind} of {kind.api_version}"))
    where = f' in namespace "{namespace}"' if namespace else ""
    message = f'{word(kind)} "{name}" not found{where}'
    for volcano_kind in of_other_apis(kind):
        with suppress(KubeError):
            await client.get(volcano_kind, namespace, name)
            return CommandError(f"{message}; {volcano_kind.plural}.{volcano_kind.group} has one: use kubectl")
    try:
        if namespace:
            elsewhere = await client.list(kind, field_selector=f"metadata.name={name}", deadline=5.0)
            namespaces = sorted({key_of(body).namespace for body in elsewhere.items} - {namespace})
            if namespaces:
                return CommandError(f"{message}; it exists in {_namespaces(namespaces)}: use -n {namespaces[0]}")
        listing = await client.list(kind, namespace, deadline=5.0)
    except KubeError:
        # A user who may read one object may not be allowed to list them: then there is no suggestion.
        return CommandError(message)
    names = [key_of(body).name for body in listing.items[:_COMPARED]]
    similar = difflib.get_close_matches(name, names, n=_SUGGESTED, cutoff=0.6)
    return CommandError(f"{message}; did you mean {' or '.join(similar)}?" if similar else message)


def _namespaces(names: Sequence[str]) -> str:
    more = " ..." if len(names) > _SUGGESTED else ""
    return f"namespace{'s' if len(names) > 1 else ''} {', '.join(names[:_SUGGESTED])}{more}"
