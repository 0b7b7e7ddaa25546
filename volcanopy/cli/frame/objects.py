"""Single objects by their names: read, chosen from many, and what is said when one is not there."""

import asyncio
import difflib
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from volcanopy.cli.errors import Stop
from volcanopy.cli.frame.faults import told, unserved
from volcanopy.cli.frame.kinds import found, resource, word
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError, KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind

T = TypeVar("T")
R = TypeVar("R")
_LOOKED_AT = 2000
"""Names among which a near one is sought."""
_SUGGESTED = 3


def plain_name(kind: Kind[Json], given: str) -> str:
    """The name, also of ``kind/name`` as ``-o name`` prints it; raises Stop for another kind, or no name."""
    what, slash, name = given.rpartition("/")
    if not slash:
        what, name = "", given
    if what and what.lower() not in {resource(kind), kind.plural, kind.kind.lower(), word(kind).replace(" ", "")}:
        raise Stop(f"{given}: this command is about {kind.plural}, not {what}", 2)
    if not name:
        raise Stop(f"{given!r} is no name of a {word(kind)}", 2)
    return name


async def listed(
    client: Client, kind: Kind[Json], namespace: str | None, selector: str = "", fields: str = ""
) -> list[Json]:
    """The objects that the selectors choose; raises Stop where the cluster does not know the kind."""
    try:
        return (await client.list(kind, namespace, label_selector=selector, field_selector=fields)).items
    except NotFound:
        raise Stop(unserved(f"{kind.kind} of {kind.api_version}")) from None


async def one(client: Client, kind: Kind[Json], namespace: str | None, given: str) -> Json:
    """The object of that name; raises Stop with names that are near when there is none."""
    name = plain_name(kind, given)
    try:
        return await client.get(kind, namespace, name)
    except NotFound as fault:
        raise await missing(client, kind, namespace, name, fault) from None


async def missing(client: Client, kind: Kind[Json], namespace: str | None, name: str, fault: ApiError) -> Stop:
    """What is said of an object that is not there: what is called nearly so, or where else there is one."""
    if not (fault.details and fault.details.name):
        return Stop(unserved(f"{kind.kind} of {kind.api_version}"))
    where = f" in namespace {namespace}" if namespace else ""
    sentence = f"there is no {word(kind)} {name!r}{where}"
    try:
        if namespace:
            elsewhere = await client.list(kind, field_selector=f"metadata.name={name}", deadline=5.0)
            spaces = sorted({found(body).namespace for body in elsewhere.items} - {namespace})
            if spaces:
                return Stop(f"{sentence}; there is one in {_spaces(spaces)}: give -n {spaces[0]}")
        near = await _near(client, kind, namespace, name)
    except KubeError:
        # Who may read one object may not always list them: then there is nothing to suggest.
        return Stop(sentence)
    return Stop(f"{sentence}; did you mean {' or '.join(near)}?" if near else sentence)


async def _near(client: Client, kind: Kind[Json], namespace: str | None, name: str) -> list[str]:
    listing = await client.list(kind, namespace, deadline=5.0)
    names = [found(body).name for body in listing.items[:_LOOKED_AT]]
    return difflib.get_close_matches(name, names, n=_SUGGESTED, cutoff=0.6)


def _spaces(names: Sequence[str]) -> str:
    more = len(names) - _SUGGESTED
    return f"namespace{'s' if len(names) > 1 else ''} " + ", ".join(names[:_SUGGESTED]) + (" ..." if more > 0 else "")


async def chosen(
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
        raise Stop("give names, or -l, or --all: not several of them", 2)
    if not names and not selector and not everything:
        raise Stop(f"which {word(kind)}? give NAME, or -l LABELS, or --all", 2)
    if not names:
        return await listed(client, kind, namespace, selector)
    return await each(names, lambda name: one(client, kind, namespace, name))


async def each(things: Iterable[T], act: Callable[[T], Awaitable[R]], *, together: bool = False) -> list[R]:
    """Do something for each of them, in order or all at once; what fails is said, and the rest is done.

    The last failure ends the command: a :class:`Partly` when others were done.
    """

    async def tried(thing: T) -> R | Stop:
        try:
            return await act(thing)
        except Stop as stop:
            return stop
        except KubeError as fault:
            return told(fault) or Stop(str(fault))

    outcomes = (
        await asyncio.gather(*(tried(thing) for thing in things))
        if together
        else [await tried(thing) for thing in things]
    )
    done = [one for one in outcomes if not isinstance(one, Stop)]
    failures = [one for one in outcomes if isinstance(one, Stop)]
    for failure in failures[:-1]:
        print(f"volcanopy: {failure}", file=sys.stderr)
    if failures and done:
        raise Partly(failures[-1], done)
    if failures:
        raise failures[-1]
    return done


class Partly(Stop):
    """Some could not be done; ``done`` is what came of the others."""

    def __init__(self, last: Stop, done: list[Any]) -> None:
        super().__init__(str(last), last.status)
        self.done = done
