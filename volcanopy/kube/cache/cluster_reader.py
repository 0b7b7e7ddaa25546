"""One-time read of the cluster state, from the kinds and types that the scheduler follows.

Pods are listed last, so that the objects they refer to are known."""

import asyncio
from collections.abc import Callable
from typing import Any

from volcanopy.kube.cache.followed_kinds import OLDER, followed, slimming
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Kind


async def read_all(apis: ApiViews, take: Callable[[list[Change[Any]]], object]) -> list[str]:
    """Read all objects of these APIs; ``take`` gets added and unreadable ones.

    Returns the plurals of the optional kinds that this user may not read. Raises KubeError if a required kind cannot be read.
    """
    hidden: list[str] = []
    required, optional = followed(apis.bindings)
    *first, pods = required
    read = await asyncio.gather(
        *(_listed(apis, kind) for kind in first),
        *(_optional(apis, kind, hidden) for kind in optional),
        return_exceptions=True,
    )
    errors = [result for result in read if isinstance(result, BaseException)]
    if errors:
        # The order of responses is chance; a missing permission is the error that a user can do something about.
        raise next((error for error in errors if isinstance(error, Forbidden)), errors[0])
    lists = [result for result in read if not isinstance(result, BaseException)]
    for changes in (*lists, await _listed(apis, pods)):
        take(changes)
    return sorted(hidden)


async def _listed(apis: ApiViews, kind: Kind[Any]) -> list[Change[Any]]:
    listing, slim = await next(iter(apis)).list(kind), slimming(kind, apis.bindings)
    changes: list[Change[Any]] = [Change(ChangeType.ADDED, slim(item)) for item in listing.items]
    parts = [(rejected.part, rejected.error) for rejected in listing.rejected if rejected.part is not None]
    return changes + [Change(ChangeType.UNREADABLE, slim(part), error=error) for part, error in parts]


async def _optional(apis: ApiViews, kind: Kind[Any], hidden: list[str]) -> list[Change[Any]]:
    for version in (kind.version, *OLDER.get(kind.group, ())):
        try:
            return await _listed(apis, kind.in_version(version))
        except NotFound:
            continue
        except Forbidden:
            hidden.append(kind.plural)
            return []
    return []
