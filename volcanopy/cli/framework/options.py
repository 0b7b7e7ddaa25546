"""Options that commands share, in bundles: a parameter annotated with a bundle becomes all options of the bundle.

``{plural}`` in a help text is replaced with the plural of the group's kind.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volcanopy.cli.framework.name_completion import names_of, names_of_group
from volcanopy.kube.client.printable import printable

if TYPE_CHECKING:
    from volcanopy.kube.client.api_client import Client
    from volcanopy.kube.client.connection import Connection

Format = StrEnum("Format", "table wide json yaml name")
"""Output formats of objects."""

Document = StrEnum("Document", "json yaml name")
"""Output formats of a changed object; without one, the result is printed as a line."""

Api = StrEnum("Api", "volcanopy volcano both")
"""API groups that are served; see :mod:`volcanopy.api.bindings`."""

GangApiName = StrEnum("GangApiName", "kubernetes coscheduling kai")
"""Other APIs whose PodGroups are gangs; see :mod:`volcanopy.api.gang_apis`."""

DryRun = StrEnum("DryRun", "none client server")
"""How far a change is carried out."""
KUBECONFIG = typer.Option(
    metavar="FILE", parser=Path, help="Kubeconfig file; by default $KUBECONFIG or ~/.kube/config."
)
CONTEXT = typer.Option(metavar="NAME", help="Context of the kubeconfig; by default its current context.")
NAMESPACE = typer.Option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="Namespace; by default that of the context.",
    autocompletion=names_of("namespace"),
)
NAMESPACE_OR_ALL = typer.Option(
    "-n", "--namespace", metavar="NAME", help="Namespace; by default all.", autocompletion=names_of("namespace")
)
NAMES = typer.Argument(
    metavar="NAME...", hidden=True, help="Names of {plural}.", show_default=False, autocompletion=names_of_group
)
NAME = typer.Argument(metavar="NAME", hidden=True, help="Name.", autocompletion=names_of_group)
INT32 = 2**31 - 1
"""Largest number of a field with the format int32."""
QUEUE = typer.Option(
    "-q", "--queue", metavar="NAME", help="Only {plural} in this queue. Repeatable.", autocompletion=names_of("queue")
)
FILES = typer.Option("-f", "--filename", metavar="FILE", help="Manifests: a file, a folder, or - for standard input.")

Files = Annotated[list[str], FILES]
SchedulerFile = Annotated[Path | None, typer.Option(help="Scheduler configuration; by default the built-in one.")]
Timeout = Annotated[str, typer.Option(metavar="DURATION", help="Maximum time to wait, such as 30s or 5m.")]


@dataclass(frozen=True)
class ClusterOptions:
    """The cluster that a command connects to."""

    kubeconfig: Annotated[Path | None, KUBECONFIG] = None
    context: Annotated[str | None, CONTEXT] = None

    def connection(self) -> "Connection":
        """Return address and credentials; raises NoCluster."""
        from volcanopy.kube.client.kubeconfig import load_connection

        return load_connection(self.kubeconfig, self.context)

    @asynccontextmanager
    async def client(self) -> "AsyncIterator[Client]":
        """Open a client; raises NoAnswer at once when no server listens there."""
        from volcanopy.kube.client.api_client import Client

        connection = self.connection()
        await connection.check()
        async with Client(connection, field_manager="volcanopy-cli", on_warning=print_warning) as client:
            yield client


def print_warning(text: str) -> None:
    """Print a warning of the API server, such as one of admission, as kubectl does."""
    print(f"Warning: {printable(text)}", file=sys.stderr)


@dataclass(frozen=True)
class NamespaceOption:
    """The namespace of a command's objects; cluster-scoped kinds have no such option."""

    namespace: Annotated[str | None, NAMESPACE] = None

    def of(self, client: "Client") -> str:
        """Return the given namespace, by default that of the context."""
        return self.namespace or client.connection.namespace


@dataclass(frozen=True)
class Scope:
    """The namespaces and labels of listed objects."""

    namespace: Annotated[str | None, NAMESPACE] = None
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")] = False
    selector: Annotated[
        str,
        typer.Option("-l", "--selector", metavar="LABELS", help="Only {plural} with these labels, such as a=b,c!=d,e."),
    ] = ""

    def of(self, client: "Client") -> str | None:
        """Return the given namespace, by default that of the context; None for all."""
        return None if self.all_namespaces else self.namespace or client.connection.namespace


@dataclass(frozen=True)
class ShowOptions:
    """Output of a list."""

    output: Annotated[Format, typer.Option("-o", "--output", help="Output format.")] = Format.table


@dataclass(frozen=True)
class WriteOptions:
    """Dry run of a change, and its output."""

    dry_run: Annotated[
        DryRun,
        typer.Option(help="client: send nothing; server: validate on the server, store nothing."),
    ] = DryRun.none
    output: Annotated[
        Document | None,
        typer.Option("-o", "--output", help="Output format of the object instead of a line.", show_default=False),
    ] = None


@dataclass(frozen=True)
class Selection:
    """Selection of existing objects: by name, by label, or all."""

    names: Annotated[list[str] | None, NAMES] = None
    selector: Annotated[
        str, typer.Option("-l", "--selector", metavar="LABELS", help="{plural} with these labels, such as a=b,c!=d,e.")
    ] = ""
    all_objects: Annotated[bool, typer.Option("--all", help="All {plural}{in_namespace}.")] = False

    @property
    def by_name(self) -> bool:
        """Whether objects are selected one by one."""
        return not self.selector and not self.all_objects


@dataclass(frozen=True)
class DeleteOptions:
    """Options of a deletion."""

    files: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", metavar="FILE", help="Manifests of the objects. Repeatable."),
    ] = None
    ignore_not_found: Annotated[bool, typer.Option("--ignore-not-found", help="Success if an object is missing.")] = (
        False
    )
    wait: Annotated[bool, typer.Option(help="Wait until the objects are gone.")] = True
    timeout: Timeout = "60s"


@dataclass(frozen=True)
class ProcessOptions:
    """Options of every service process."""

    bind_address: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to listen on. Default: 0.0.0.0 in a pod, else 127.0.0.1."),
    ] = ""
    health_port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Port of /livez, /healthz and /readyz; 0: any free port."),
    ] = 8080
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of /metrics; by default that of the health endpoints."),
    ] = None
    metrics_token: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the bearer token that /metrics requires."),
    ] = None
    former_metric_names: Annotated[
        bool,
        typer.Option(
            "--former-metric-names", help="Serve renamed metrics also under their former names, which are Volcano's."
        ),
    ] = False
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log every decision.")] = False

    @property
    def address(self) -> str:
        """The address to listen on: of the pod, whose network policies protect it, or else only of this machine."""
        return self.bind_address or ("0.0.0.0" if "KUBERNETES_SERVICE_HOST" in os.environ else "127.0.0.1")


@dataclass(frozen=True)
class PodFilter:
    """Filters of pods."""

    job: Annotated[
        str, typer.Option("-j", "--job", metavar="NAME", help="Only pods of this job.", autocompletion=names_of("job"))
    ] = ""
    task: Annotated[str, typer.Option("-t", "--task", metavar="NAME", help="Only pods of tasks of this name.")] = ""
    queue: Annotated[list[str] | None, QUEUE] = None
