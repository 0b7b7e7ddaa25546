"""``volcanopy ui``: the web page of a cluster."""

import asyncio
import re
import signal
from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.options import NAMESPACE_OR_ALL, ClusterOptions
from volcanopy.client.errors import CommandError

app = typer.Typer(rich_markup_mode=None)


@command(app, "ui", examples=["volcanopy ui", "volcanopy ui -n research --port 0"])
async def ui_command(
    cluster: ClusterOptions,
    namespace: Annotated[str | None, NAMESPACE_OR_ALL] = None,
    address: Annotated[
        str, typer.Option(metavar="IP", help="Address to listen on. Keep it private without `--require-token`.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: a free one.")] = 8180,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Host name that requests may use, as of an ingress. Repeatable."),
    ] = None,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Allow to suspend, resume and delete jobs with your rights.")
    ] = False,
    require_token: Annotated[
        bool,
        typer.Option(
            "--require-token",
            help="Show each user what the cluster allows for their own bearer token, from a proxy's Authorization header or the page's form.",
        ),
    ] = False,
    prometheus: Annotated[
        str, typer.Option(metavar="URL", help="Prometheus server, for queues over hours and days.")
    ] = "",
) -> None:
    """Show a cluster as a web page.

    It has pages for queues, jobs, nodes, decisions and what-if questions.

    The page shows what your credentials may read, of all namespaces or of one (`-n`). Everybody who can connect to the address sees the same, unless `--require-token` is given: then users sign in, and see and do what their own permissions allow. It changes nothing unless `--allow-changes` is given.
    """
    from volcanopy.cli.ui.server import UiSettings, serve

    if prometheus and not prometheus.startswith(("http://", "https://")):
        raise CommandError(f"--prometheus {prometheus}: must be a URL, such as http://127.0.0.1:8080")
    for name in host or ():
        if not re.fullmatch(r"[A-Za-z0-9.-]+", name):
            raise CommandError(f"--host {name}: must be a name without scheme and port, such as batch.example.com", 2)
    settings = UiSettings(address, port, namespace, allow_changes, tuple(host or ()), prometheus, require_token)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with cluster.client() as client:
        await serve(client, settings, stop)
