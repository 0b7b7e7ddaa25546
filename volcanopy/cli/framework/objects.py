"""Single objects by their names: read, chosen from many, and what is said when one is not there."""

import asyncio
import difflib
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from volcanopy.cli.errors import CommandError, cluster_error, not_served
from volcanopy.cli.framework.kinds import key_of, resource, word
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError, KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind

T = TypeVar("T")
R = TypeVar("R")
_LOOKED_AT = 2000
"""Names among which a near one is sought."""
_SUGGESTED = 3


def bare_name(kind: Kind[Json], given: str) -> str:
    """The name, also of ``kind/name`` as ``-o name`` prints it; raises Stop for another kind, or no name."""
    what, slash, name = given.rpartition("/")
    if not slash:
        what, name = "", given
    if what and what.lower() not in {resource(kind), kind.plural, kind.kind.lower(), word(kind).replace(" ", "")}:
        raise CommandError(f"{given}: this command is about {kind.plural}, not {what}", 2)
    if not name:
        raise CommandError(f"{given!r} is no name of a {word(kind)}", 2)
    return name


async def list_objects(
    client: Client, kind: Kind[Json], namespace: str | None, selector: str = "", fields: str = ""
) -> list[Json]:
    """The objects that the selectors choose; raises Stop where the cluster does not know the kind."""
    try:
        return (await client.list(kind, namespace, label_selector=selector, field_selector=fields)).items
    except NotFound:
        raise CommandError(not_served(f"{kind.kind} of {kind.api_version}")) from None


async def find_object(client: Client, kind: Kind[Json], namespace: str | None, given: str) -> Json:
    """The object of that name; raises Stop with names that are near when there is none."""
    name = bare_name(kind, given)
    try:
        return await client.get(kind, namespace, name)
    except NotFound as fault:
        raise await not_found_error(client, kind, namespace, name, fault) from None


async def not_found_error(
    client: Client, kind: Kind[Json], namespace: str | None, name: str, fault: ApiError
) -> CommandError:
    """What is said of an object that is not there: what is called nearly so, or where else there is one."""
    if not (fault.details and fault.details.name):
        return CommandError(not_served(f"{kind.kind} of {kind.api_version}"))
    where = f" in namespace {namespace}" if namespace else ""
    sentence = f"there is no {word(kind)} {name!r}{where}"
    try:
        if namespace:
            elsewhere = await client.list(kind, field_selector=f"metadata.name={name}", deadline=5.0)
            spaces = sorted({key_of(body).namespace for body in elsewhere.items} - {namespace})
            if spaces:
                return CommandError(f"{sentence}; there is one in {_spaces(spaces)}: give -n {spaces[0]}")
        near = await _near(client, kind, namespace, name)
    except KubeError:
        # Who may read one object may not always list them: then there is nothing to suggest.
        return CommandError(sentence)
    return CommandError(f"{sentence}; did you mean {' or '.join(near)}?" if near else sentence)


async def _near(client: Client, kind: Kind[Json], namespace: str | None, name: str) -> list[str]:
    listing = await client.list(kind, namespace, deadline=5.0)
    names = [key_of(body).name for body in listing.items[:_LOOKED_AT]]
    return difflib.get_close_matches(name, names, n=_SUGGESTED, cutoff=0.6)


def _spaces(names: Sequence[str]) -> str:
    more = len(names) - _SUGGESTED
    return f"namespace{'s' if len(names) > 1 else ''} " + ", ".join(names[:_SUGGESTED]) + (" ..." if more > 0 else "")


async def select_objects(
    client: Client,
    kind: Kind[Json],
    namespace: str | None,
    names: Sequence[str],
    selector: str = "",
    *,
    everything: bool = False,
) -> list[Json]:
    """The objects that a command is about: those of the names, those that a selector chooses, or all.

    Raises Stop when nothing, or several things at once, say which, or when a name is not there.
    """
    if names and (selector or everything):
        raise CommandError("give names, or -l, or --all: not several of them", 2)
    if not names and not selector and not everything:
        raise CommandError(f"which {word(kind)}? give NAME, or -l LABELS, or --all", 2)
    if not names:
        return await list_objects(client, kind, namespace, selector)
    return await for_each(names, lambda name: find_object(client, kind, namespace, name))


async def for_each(things: Iterable[T], act: Callable[[T], Awaitable[R]], *, together: bool = False) -> list[R]:
    """Do something for each of them, in order or all at once; what fails is said, and the rest is done.

    The last failure ends the command: a :class:`PartialError` when others were done.
    """

    async def tried(thing: T) -> R | CommandError:
        try:
            return await act(thing)
        except CommandError as stop:
            return stop
        except KubeError as fault:
            return cluster_error(fault) or CommandError(str(fault))

    outcomes = (
        await asyncio.gather(*(tried(thing) for thing in things))
        if together
        else [await tried(thing) for thing in things]
    )
    done = [one for one in outcomes if not isinstance(one, CommandError)]
    failures = [one for one in outcomes if isinstance(one, CommandError)]
    for failure in failures[:-1]:
        print(f"volcanopy: {failure}", file=sys.stderr)
    if failures and done:
        raise PartialError(failures[-1], done)
    if failures:
        raise failures[-1]
    return done


class PartialError(CommandError):
    """Some could not be done; ``done`` is what came of the others."""

    def __init__(self, last: CommandError, done: list[Any]) -> None:
        super().__init__(str(last), last.status)
        self.done = done
