"""Commands that every kind has (list, get, describe, create, delete), made from a declared table of the kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volcanopy.cli.framework.command import Noun, command
from volcanopy.cli.framework.options import (
    NAMES,
    ClusterOptions,
    DeleteOptions,
    Files,
    NamespaceOption,
    Scope,
    Selection,
    ShowOptions,
    Timeout,
    WriteOptions,
)

if TYPE_CHECKING:
    from volcanopy.kube.client.api_client import Client


@dataclass(frozen=True)
class NoFilter:
    """Filter options of a kind that has none."""


@dataclass(frozen=True)
class Resource:
    """Declaration of a kind for its command group.

    ``module`` is imported when a command is called: it has ``VIEW`` (the columns), ``describe(client, object)`` (the
    sections of a description) and, with a ``filter`` bundle, ``query(client, namespace, selector, filter)``.
    """

    group: str
    plural: str
    module: str
    details: str = ""
    """What ``describe`` prints."""
    deletion: str = ""
    """What else ``delete`` deletes or keeps."""
    namespaced: bool = True
    example: str = "training"
    filter: type[Any] = NoFilter
    list_examples: Sequence[str] = field(default=("list -A", "list -o wide"))

    @property
    def noun(self) -> Noun:
        """The plural for help texts."""
        return Noun(self.plural, self.namespaced)

    def examples(self, *lines: str) -> list[str]:
        """Return command lines of the group."""
        return [f"volcanopy {self.group} {line}" for line in lines]

    def namespace(self, client: "Client", place: NamespaceOption) -> str | None:
        """Return the namespace of the objects; None for a cluster-scoped kind."""
        return place.of(client) if self.namespaced else None


def add_commands(app: typer.Typer, resource: Resource, *verbs: str) -> None:
    """Add the commands ``list``, ``get``, ``describe``, ``create`` and ``delete`` that are named, in their order."""
    for verb in verbs:
        _COMMANDS[verb](app, resource)


def _add_list(app: typer.Typer, resource: Resource) -> None:
    async def list_(cluster: ClusterOptions, scope: Scope, show: ShowOptions, filters: Any) -> None:
        from volcanopy.cli.framework.lists import Query, show_list

        module = import_module(resource.module)
        if scope.all_namespaces and scope.namespace:
            from volcanopy.client.errors import CommandError

            raise CommandError("use only one of -n and -A", 2)
        async with cluster.client() as client:
            namespace = scope.of(client) if resource.namespaced else None
            query = Query(namespace, scope.selector)
            if resource.filter is not NoFilter:
                query = await module.query(client, namespace, scope.selector, filters)
            await show_list(client, module.VIEW, query, show)

    command(
        app,
        "list",
        examples=resource.examples(*resource.list_examples),
        noun=resource.noun,
        bundles={"filters": resource.filter},
        text=f"List {resource.plural}.",
    )(list_)


def _add_get(app: typer.Typer, resource: Resource) -> None:
    async def get(
        names: Annotated[list[str], NAMES], cluster: ClusterOptions, place: NamespaceOption, show: ShowOptions
    ) -> None:
        from volcanopy.cli.framework.lists import show_named

        view = import_module(resource.module).VIEW
        async with cluster.client() as client:
            await show_named(client, view, resource.namespace(client, place), names, show)

    text = f"Print {resource.plural} by name, as a table or as documents."
    examples = resource.examples(f"get {resource.example} -o yaml")
    command(app, "get", examples=examples, noun=resource.noun, text=text)(get)


def _add_describe(app: typer.Typer, resource: Resource) -> None:
    async def describe(selection: Selection, cluster: ClusterOptions, place: NamespaceOption) -> None:
        from volcanopy.cli.framework.lists import describe_selected

        module = import_module(resource.module)
        async with cluster.client() as client:
            namespace = resource.namespace(client, place)
            await describe_selected(client, module.VIEW, namespace, selection, module.describe)

    text = f"Describe {resource.plural}: {resource.details}."
    examples = resource.examples(f"describe {resource.example}")
    command(app, "describe", examples=examples, noun=resource.noun, text=text)(describe)


def _add_create(app: typer.Typer, resource: Resource) -> None:
    async def create(files: Files, cluster: ClusterOptions, place: NamespaceOption, write: WriteOptions) -> None:
        from volcanopy.cli.framework.apply import apply_files

        kind = import_module(resource.module).VIEW.kind.kind
        await apply_files(cluster, place.namespace, files, write, kind=kind, create_only=True)

    text = f"Create {resource.plural} and the other objects of manifests."
    command(app, "create", examples=resource.examples("create -f file.yaml"), noun=resource.noun, text=text)(create)


def _add_delete(app: typer.Typer, resource: Resource) -> None:
    async def delete(
        selection: Selection,
        cluster: ClusterOptions,
        place: NamespaceOption,
        write: WriteOptions,
        options: DeleteOptions,
    ) -> None:
        from volcanopy.cli.framework import delete as deletion

        kind = import_module(resource.module).VIEW.kind
        async with cluster.client() as client:
            await deletion.delete(client, kind, resource.namespace(client, place), write, selection, options)

    text = f"Delete {resource.plural}{resource.deletion}."
    examples = resource.examples(f"delete {resource.example}", "delete -l team=blue")
    command(app, "delete", examples=examples, noun=resource.noun, text=text)(delete)


def add_bus_command(app: typer.Typer, resource: Resource, verb: str, text: str, module: str) -> None:
    """Add a command that sends a Command object to a controller, by the function ``send`` of ``module``."""

    async def act(
        selection: Selection,
        cluster: ClusterOptions,
        place: NamespaceOption,
        write: WriteOptions,
        message: Annotated[
            str, typer.Option("--reason", metavar="TEXT", help="Message for the status and the events.")
        ] = "",
        wait: Annotated[
            bool, typer.Option("--wait", help="Wait until the controller has processed the change.")
        ] = False,
        timeout: Timeout = "60s",
    ) -> None:
        from volcanopy.client.commands import CommandRequest
        from volcanopy.client.durations import timeout_seconds

        request = CommandRequest(verb, message, timeout_seconds(timeout) if wait else None)
        await import_module(module).send(cluster, place, write, selection, request)

    examples = resource.examples(f"{verb} {resource.example} --wait")
    command(app, verb, examples=examples, noun=resource.noun, text=text)(act)


_COMMANDS: dict[str, Callable[[typer.Typer, Resource], None]] = {
    "list": _add_list,
    "get": _add_get,
    "describe": _add_describe,
    "create": _add_create,
    "delete": _add_delete,
}
