"""Names that a shell completes: asked of the cluster, quickly or not at all.

A shell that completes a word must not be held up nor told of faults: then there is nothing to suggest.
"""

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
"""Whose names are completed, by the words of the command line."""
_DEADLINE = 4.0
"""Seconds after which a person had rather type the name."""

Complete = Callable[[typer.Context, str], list[str]]


def names_of_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of what the command's group is about: of jobs after ``volcanopy job get``."""
    group = ctx.parent.info_name if ctx.parent else ""
    # What `explain job` and `explain queue` are about stands in their own names.
    return _names(ctx, group if group in _KINDS else ctx.info_name or "", incomplete)


def names_of(what: str) -> Complete:
    """A completion with the names of a kind, by its word."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return _names(ctx, what, incomplete)

    return complete


def _names(ctx: typer.Context, what: str, incomplete: str) -> list[str]:
    if what not in _KINDS:
        return []
    import asyncio

    from volcanopy.kube.client.errors import KubeError

    given = {**ctx.find_root().params, **{key: value for key, value in ctx.params.items() if value}}
    try:
        found = asyncio.run(_listed(what, given.get("kubeconfig"), given.get("context"), given.get("namespace")))
    except KubeError:
        return []
    return [name for name in found if name.startswith(incomplete)]


async def _listed(what: str, kubeconfig: Path | None, context: str | None, namespace: str | None) -> list[str]:
    from volcanopy.cli.framework import kinds
    from volcanopy.cli.framework.options import Cluster

    kind = getattr(kinds, _KINDS[what])
    async with Cluster(kubeconfig, context).client() as client:
        where = (namespace or client.connection.namespace) if kind.namespaced else None
        listing = await client.list(kind, where, deadline=_DEADLINE)
        return sorted(body["metadata"]["name"] for body in listing.items)
