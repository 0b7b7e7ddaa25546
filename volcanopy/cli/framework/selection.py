"""Objects that a command names or selects: reading them, one action for many, and waiting for all."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from volcanopy.cli.framework.options import Selection
from volcanopy.client.errors import CommandError, cluster_error
from volcanopy.client.kinds import key_of, resource, word
from volcanopy.client.objects import find_object, list_objects
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json, Kind

T = TypeVar("T")
R = TypeVar("R")


def empty_message(objects: str, namespace: str | None) -> str:
    """Return the message that a list is empty."""
    return f"No {objects} found" + (f' in namespace "{namespace}".' if namespace else ".")


async def select_objects(client: Client, kind: Kind[Json], namespace: str | None, selection: Selection) -> list[Json]:
    """Return the selected objects.

    Raises CommandError when nothing or several things at once select, or when a name does not exist.
    """
    if selection.names and not selection.by_name:
        raise CommandError("use only one of NAME, -l and --all", 2)
    if not selection.names and selection.by_name:
        raise CommandError(f"no {word(kind)} selected: give NAME, -l LABELS or --all", 2)
    if not selection.names:
        bodies = await list_objects(client, kind, namespace, selection.selector)
        if not bodies:
            print(empty_message(f"{word(kind)}s", namespace), file=sys.stderr)
        return bodies
    return await for_each(selection.names, lambda name: find_object(client, kind, namespace, name))


async def for_each(items: Iterable[T], act: Callable[[T], Awaitable[R]], *, together: bool = False) -> list[R]:
    """Call ``act`` for each item, in order or concurrently; failures are printed and the others continue.

    Raises the last failure: a :class:`PartialError` when other items succeeded.
    """

    async def attempt(item: T) -> R | CommandError:
        try:
            return await act(item)
        except CommandError as error:
            return error
        except KubeError as fault:
            return cluster_error(fault) or CommandError(str(fault))

    outcomes = (
        await asyncio.gather(*(attempt(item) for item in items))
        if together
        else [await attempt(item) for item in items]
    )
    results = [outcome for outcome in outcomes if not isinstance(outcome, CommandError)]
    failures = [outcome for outcome in outcomes if isinstance(outcome, CommandError)]
    for failure in failures[:-1]:
        print(f"volcanopy: {failure}", file=sys.stderr)
    if failures and results:
        raise PartialError(failures[-1], results)
    if failures:
        raise failures[-1]
    return results


class PartialError(CommandError):
    """Failure of some items; ``results`` are those of the others."""

    def __init__(self, last: CommandError, results: list[Any]) -> None:
        super().__init__(str(last), last.status)
        self.results = results


async def wait_for_selection(
    client: Client,
    kind: Kind[Json],
    namespace: str | None,
    selection: Selection,
    goal: str,
    wait: Callable[[Json], Awaitable[Any]],
) -> None:
    """Wait for all selected objects at the same time, and print each that has reached the goal."""
    bodies = await select_objects(client, kind, namespace, selection)
    if not bodies:
        raise CommandError(f"no {word(kind)} matches the selection")

    async def wait_for(body: Json) -> None:
        await wait(body)
        from volcanopy.client.watch import DELETED  # it imports the metrics of watches

        result = DELETED if goal == DELETED else "condition met"
        print(f"{resource(kind)}/{key_of(body).name} {result}", flush=True)

    await for_each(bodies, wait_for, together=True)
