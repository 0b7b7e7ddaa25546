"""The options that commands share, in bundles: a parameter of a command annotated with one of these gets them all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volcanopy.cli.framework.name_completion import names_of, names_of_group

if TYPE_CHECKING:
    from volcanopy.kube.client.api_client import Client
    from volcanopy.kube.client.connection import Connection


class Format(StrEnum):
    """How objects are printed."""

    table = "table"
    wide = "wide"
    json = "json"
    yaml = "yaml"
    name = "name"


class Document(StrEnum):
    """How an object that was written is printed, if not as a line about what was done."""

    json = "json"
    yaml = "yaml"
    name = "name"


class Dry(StrEnum):
    """How much of a change is only tried."""

    none = "none"
    client = "client"
    server = "server"


KUBECONFIG = typer.Option("--kubeconfig", metavar="FILE", help="The kubeconfig file, if not $KUBECONFIG or the usual.")
CONTEXT = typer.Option("--context", metavar="NAME", help="The context of the kubeconfig, if not its current one.")
NAMESPACE = typer.Option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="The namespace, if not the context's own.",
    autocompletion=names_of("namespace"),
)
NAMES = typer.Argument(
    metavar="NAME", hidden=True, help="Their names.", show_default=False, autocompletion=names_of_group
)
"""Names of what the group of commands is about; they may be left out."""
QUEUE = typer.Option(
    "-q", "--queue", metavar="NAME", help="Only those in this queue.", autocompletion=names_of("queue")
)


@dataclass(frozen=True)
class Cluster:
    """Which cluster a command speaks to."""

    kubeconfig: Annotated[Path | None, KUBECONFIG] = None
    context: Annotated[str | None, CONTEXT] = None

    def connection(self) -> "Connection":
        """Where it is and who we are to it; raises NoCluster."""
        from volcanopy.kube.client.connection import Connection

        return Connection.load(self.kubeconfig, self.context)

    @asynccontextmanager
    async def client(self) -> "AsyncIterator[Client]":
        """A client of it; raises at once, with a sentence, when nobody answers there."""
        from volcanopy.cli.framework.connection import reached
        from volcanopy.kube.client.api_client import Client

        connection = self.connection()
        await reached(connection)
        async with Client(connection, field_manager="volcanopy-cli") as client:
            yield client


@dataclass(frozen=True)
class Place:
    """The one namespace in which a command finds its object."""

    namespace: Annotated[str | None, NAMESPACE] = None

    def of(self, client: "Client") -> str:
        """The namespace: the one given, or else the context's."""
        return self.namespace or client.connection.namespace


@dataclass(frozen=True)
class Scope:
    """Which of many objects a command is about: where they are, and by which labels."""

    namespace: Annotated[str | None, NAMESPACE] = None
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")] = False
    selector: Annotated[
        str, typer.Option("-l", "--selector", metavar="LABELS", help="Only those with labels such as a=b,c!=d,e.")
    ] = ""

    def of(self, client: "Client") -> str | None:
        """The namespace: the one given, or else the context's; None for all."""
        return None if self.all_namespaces else self.namespace or client.connection.namespace


@dataclass(frozen=True)
class Show:
    """How a list is printed, and whether it goes on."""

    output: Annotated[Format, typer.Option("-o", "--output", help="How to print it.")] = Format.table
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Go on with what changes, until Ctrl-C.")] = False
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out the headings of the table.")] = False


@dataclass(frozen=True)
class Written:
    """Whether a change is made or only tried, and how it is told."""

    dry_run: Annotated[
        Dry, typer.Option("--dry-run", help="client: send nothing; server: let the server check, and change nothing.")
    ] = Dry.none
    output: Annotated[
        Document | None,
        typer.Option(
            "-o", "--output", help="Print the object, or its name, and not what was done.", show_default=False
        ),
    ] = None


@dataclass(frozen=True)
class Chosen:
    """Which objects a command is about: those of these names, those with these labels, or all of the namespace."""

    names: Annotated[list[str] | None, NAMES] = None
    selector: Annotated[
        str, typer.Option("-l", "--selector", metavar="LABELS", help="Those with labels such as a=b,c!=d,e.")
    ] = ""
    everything: Annotated[bool, typer.Option("--all", help="All of the namespace.")] = False


class Cascade(StrEnum):
    """What becomes of what an object owns when it is deleted."""

    background = "background"
    foreground = "foreground"
    orphan = "orphan"


@dataclass(frozen=True)
class Deletion:
    """How objects are deleted, and those of which files."""

    files: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", metavar="FILE", help="The objects of manifests. Repeatable."),
    ] = None
    ignore_not_found: Annotated[bool, typer.Option("--ignore-not-found", help="A missing one is no error.")] = False
    cascade: Annotated[Cascade, typer.Option("--cascade", help="What it owns goes after it, before it, or stays.")] = (
        Cascade.background
    )
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until they are gone.")] = True
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long to wait, such as 30s or 5m.")
    ] = "60s"
