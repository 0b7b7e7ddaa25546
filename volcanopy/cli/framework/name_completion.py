"""Completion of object names in shells: queried from the cluster within a deadline; errors give no names."""

from collections.abc import Callable
from pathlib import Path

import typer

_KINDS = {
    "job": "JOBS",
    "podgroup": "POD_GROUPS",
    "jobflow": "FLOWS",
    "jobtemplate": "TEMPLATES",
    "queue": "QUEUES",
    "namespace": "NAMESPACES",
}
"""Kinds with completion, by command group."""
_DEADLINE = 4.0
"""Seconds for the query."""

Complete = Callable[[typer.Context, str], list[str]]


def names_of_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names of the kind of the command's group: of jobs for ``volcanopy job get``."""
    group = ctx.parent.info_name if ctx.parent else ""
    # `explain job` and `explain queue` name the kind in the command.
    return _names(ctx, group if group in _KINDS else ctx.info_name or "", incomplete)


def names_of(group: str) -> Complete:
    """Return a completion with the names of a group's kind."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return _names(ctx, group, incomplete)

    return complete


def _names(ctx: typer.Context, group: str, incomplete: str) -> list[str]:
    if group not in _KINDS:
        return []
    import asyncio

    from volcanopy.kube.client.errors import KubeError

    given = {**ctx.find_root().params, **{key: value for key, value in ctx.params.items() if value}}
    try:
        names = asyncio.run(_list(group, given.get("kubeconfig"), given.get("context"), given.get("namespace")))
    except KubeError:
        return []
    return [name for name in names if name.startswith(incomplete)]


async def _list(group: str, kubeconfig: Path | None, context: str | None, namespace: str | None) -> list[str]:
    from volcanopy.kube.client import raw_kinds
    from volcanopy.kube.client.api_client import Client
    from volcanopy.kube.client.kubeconfig import load_connection

    kind, connection = getattr(raw_kinds, _KINDS[group]), load_connection(kubeconfig, context)
    await connection.check()
    async with Client(connection) as client:
        where = (namespace or client.connection.namespace) if kind.namespaced else None
        listing = await client.list(kind, where, deadline=_DEADLINE)
        return sorted(body["metadata"]["name"] for body in listing.items)
