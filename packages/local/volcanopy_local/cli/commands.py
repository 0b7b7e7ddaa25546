"""``volcanopy local up`` and ``local run``: an embedded cluster on this machine."""

import asyncio
import errno
import logging
import os
import resource
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop
import yaml
from rich.console import Console

from embedded_apiserver.store.journal import JournalError
from volcanopy.api import names
from volcanopy.api.gang_apis import GANG_APIS
from volcanopy.cli.framework.apply import validate
from volcanopy.cli.framework.options import print_warning
from volcanopy.cli.logs import configure
from volcanopy.cli.manifests import Manifest, read
from volcanopy.cli.ui.server import UiSettings, page_served
from volcanopy.cli.whatif import job_lines
from volcanopy.client.errors import CommandError
from volcanopy.client.manifests import CreateError, Creator
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.kubeconfig import expanded
from volcanopy.kube.client.raw_kinds import CRON_JOBS, FLOWS, JOBS, is_of, is_of_other_api, of_other_apis
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.whatif.answer import JobAnswer
from volcanopy_local.cli.options import NodeOptions
from volcanopy_local.cli.process_nodes import Size, facts_of, process_settings, size_of
from volcanopy_local.cli.progress import Progress, print_last_lines
from volcanopy_local.cluster import ClusterError, LocalCluster, Parts
from volcanopy_local.process import machine
from volcanopy_local.process.gpus import gpus_of_machine
from volcanopy_local.simulated import nodes as simulated

_NAME = "volcanopy"
_RUNNABLE = (JOBS, FLOWS, CRON_JOBS)
_OF_VOLCANO = tuple(other for kind in _RUNNABLE for other in of_other_apis(kind))
_LEAST_FILES, _MOST_FILES = 512, 65536
"""Open files: 350 are those of an idle cluster, whose services and API server are in one process; a client adds a few."""
_JOURNAL = b'["=",'
"""First bytes of the file of a persistent cluster."""


@dataclass(frozen=True)
class Persistence:
    """The file of a cluster that keeps its objects, None for a cluster that does not, and how it is used."""

    file: Path | None = None
    repair: bool = False
    fsync: bool = False


@dataclass(frozen=True)
class Serving:
    """The port of the API server, whether it enforces rights, and the API groups that the services serve.

    With rights it uses HTTPS, without which kubectl sends no token.
    """

    port: int = 0
    rbac: bool = False
    api: str = names.API


def up(options: NodeOptions, kubeconfig: Path, serving: Serving, persist: Persistence) -> None:
    """Run a cluster until Ctrl-C; write its kubeconfig to a file."""
    size, objects = size_of(options), _objects_of(options.cluster)
    kubeconfig = expanded(kubeconfig).absolute()
    _check_kubeconfig(kubeconfig)
    if persist.file is not None:
        _check_persist(persist.file)
    _until_done(_up(size, objects, kubeconfig, serving, persist, options.scheduler_config))


def run(options: NodeOptions, files: list[str], timeout: float, tail: int = 0, *, allow_waiting: bool = False) -> None:
    """Run the jobs of files on a new cluster and show their progress, and the last lines of their logs.

    Ends early when only a change lets the other jobs start. Volcano's API is served too if an object of the files is of it.
    Raises CommandError unless all complete, or with `allow_waiting` wait for a change.
    """
    size, objects = size_of(options), _objects_of(options.cluster)
    manifests = read(files)
    if not any(map(_is_runnable, manifests)):
        kinds = ", ".join(kind.kind for kind in _RUNNABLE)
        theirs = ", ".join(f"{kind.kind} of {kind.group}" for kind in _OF_VOLCANO)
        raise CommandError(f"{', '.join(files)}: nothing to run: no {kinds}, {theirs}", 2)
    for manifest in manifests:
        validate(manifest)
    volcano = any(is_of_other_api(manifest.body) for manifest in manifests + objects)
    api = "both" if volcano else names.API
    _until_done(
        _run(size, objects, manifests, timeout, Serving(api=api), options.scheduler_config, tail, allow_waiting)
    )


def _is_runnable(manifest: Manifest) -> bool:
    """Whether an object becomes jobs. Of volcanopy's kinds the API server rejects those of a wrong group."""
    named = any(manifest.kind == kind.kind for kind in _RUNNABLE)
    return named or any(is_of(kind, manifest.body) for kind in _OF_VOLCANO)


async def _up(
    size: Size,
    objects: list[Manifest],
    kubeconfig: Path,
    serving: Serving,
    persist: Persistence,
    config: Path | None,
) -> None:
    interrupted = _interrupts()
    async with _cluster(size, objects, serving, persist, config, (kubeconfig,)) as cluster:
        _write_kubeconfig(kubeconfig, cluster.kubeconfig())
        counts = {"process": size.process, "simulated": len(cluster.kubelet.nodes.nodes) - size.process}
        kinds = [f"{count} {kind} node{'s' if count > 1 else ''}" for kind, count in counts.items() if count]
        print(f"Cluster with {' and '.join(kinds) or 'no nodes'} is running at {cluster.url}. Stop it with Ctrl-C.")
        for line in facts_of(cluster.process_kubelet):
            print(line)
        print("To use it:\n")
        print(f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}")
        example = "16-processes" if size.process else "02-gang"
        print(f"  kubectl apply -f examples/{example}\n", flush=True)
        async with AsyncExitStack() as stack:
            if not serving.rbac:
                # The page gives no more rights than this API server, which needs no login on loopback either.
                client = await stack.enter_async_context(Client(cluster.client.connection))
                settings = UiSettings(port=0, allow_changes=True)
                print(f"Web page: {await stack.enter_async_context(page_served(client, settings))}", flush=True)
            await _first_of(cluster, interrupted)
            print("Stopping", flush=True)


async def _run(
    size: Size,
    objects: list[Manifest],
    manifests: list[Manifest],
    timeout: float,
    serving: Serving,
    config: Path | None,
    tail: int,
    allow_waiting: bool,
) -> None:
    interrupted = _interrupts()
    async with _cluster(size, objects, serving, config=config) as cluster:
        for line in facts_of(cluster.process_kubelet):
            print(line, flush=True)
        progress = Progress(cluster.client, Console(highlight=False), serving.api)
        async with Client(cluster.client.connection, on_warning=print_warning) as client:
            try:
                await Creator(client).create([manifest.body for manifest in manifests])
            except CreateError as error:
                raise _with_place(error, manifests) from None
        following = asyncio.create_task(progress.follow())
        try:
            ended = await _first_of(cluster, interrupted, following, timeout)
        finally:
            following.cancel()
            await asyncio.wait((following,))
        progress.show_end()
        if tail:
            print()
            await print_last_lines(progress.jobs(), tail)
        _print_blocked(progress.blocked)
        if ended is following:
            following.result()
        elif ended is None:
            raise CommandError(f"timed out after {timeout:g} s: {progress.unfinished()}")
        else:
            raise CommandError(f"interrupted: {progress.unfinished()}", 130)
        if failed := progress.failed():
            raise CommandError(f"not all jobs completed: {failed}")
        if progress.blocked and not allow_waiting:
            raise CommandError(f"not all jobs started: {progress.unfinished()}")


def _print_blocked(answers: Sequence[JobAnswer]) -> None:
    """Print why jobs do not start, and the changes that let them start."""
    if answers:
        print()
    for answer in answers:
        print("\n".join(job_lines(answer, datetime.now(UTC))))
    if any(answer.remedies for answer in answers):
        print("The scheduler has tried each change on a copy of the cluster.", flush=True)


def _objects_of(cluster: Path | None) -> list[Manifest]:
    """Return the objects of the file of a cluster. Raises CommandError if no node is among them."""
    if cluster is None:
        return []
    objects = read([str(cluster)])
    if not any(item.kind == "Node" for item in objects):
        raise CommandError(f"--cluster {cluster}: no object of kind Node", 2)
    return objects


@asynccontextmanager
async def _cluster(
    size: Size,
    objects: list[Manifest],
    serving: Serving,
    persist: "Persistence | None" = None,
    config: Path | None = None,
    hidden: Sequence[Path] = (),
) -> AsyncIterator[LocalCluster]:
    """Run a cluster with the nodes of the file, or with default nodes. Raises CommandError."""
    own = [manifest for manifest in objects if manifest.kind == "Node"]
    bodies = [simulated.copy_of(manifest.body) if manifest.kind == "Node" else manifest.body for manifest in objects]
    persist = persist or Persistence()
    async with process_settings(persist.file, size, hidden) as process:
        if size.process:
            bodies += machine.manifests(size.process, *machine.machine_size(), gpus_of_machine())
        cluster = LocalCluster(
            0 if own else size.simulated,
            objects=bodies,
            port=serving.port,
            tls=serving.rbac,
            rbac=serving.rbac,
            persist=persist.file,
            repair=persist.repair,
            fsync=persist.fsync,
            parts=Parts(
                api=serving.api,
                scheduler=SchedulerSettings(config=config),
                controller=JobControllerSettings(gang_apis=tuple(GANG_APIS)),
                process=process,
            ),
        )
        try:
            await cluster.__aenter__()
        except CreateError as error:
            raise _with_place(error, objects) from None
        except JournalError as error:
            raise CommandError(f"--persist: {error}") from None
        except ClusterError as fault:
            raise CommandError(str(fault)) from None
        except OSError as fault:
            raise _start_error(fault, serving.port, persist.file) from None
        try:
            yield cluster
        finally:
            await cluster.__aexit__(None, None, None)


def _start_error(fault: OSError, port: int, persist: Path | None) -> CommandError:
    if fault.errno == errno.EADDRINUSE:
        return CommandError(f"--port {port}: port already in use: specify another, or 0 for a free one")
    if fault.errno == errno.EACCES and not fault.filename:
        return CommandError(f"--port {port}: not permitted: specify a port above 1023, or 0 for a free one")
    if persist is not None and fault.filename:
        return CommandError(f"--persist: cannot open {fault.filename}: {fault.strerror}")
    return CommandError(f"cannot start the cluster: {fault}")


def _with_place(error: CreateError, manifests: list[Manifest]) -> CommandError:
    place = next((manifest.place for manifest in manifests if manifest.body is error.body), None)
    return CommandError(f"{place}: {error.why}" if place else str(error))


async def _first_of(
    cluster: LocalCluster,
    interrupted: asyncio.Event,
    work: "asyncio.Task[Any] | None" = None,
    timeout: float | None = None,
) -> "asyncio.Task[Any] | None":
    """Wait for an interrupt, the end of the work or the timeout (None). Raises CommandError if the cluster fails."""
    interruption, breaking = asyncio.create_task(interrupted.wait()), asyncio.create_task(cluster.fault())
    waiting: set[asyncio.Task[Any]] = {interruption, breaking} | ({work} if work is not None else set())
    try:
        done, _ = await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if breaking in done:
            raise CommandError(str(breaking.result()))
        return work if work is not None and work in done else next(iter(done), None)
    finally:
        interruption.cancel()
        breaking.cancel()


def _interrupts() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    return interrupted


def _until_done(work: Coroutine[Any, Any, None]) -> None:
    _raise_limit_of_open_files()
    configure(level=logging.WARNING)
    uvloop.run(work)


def _raise_limit_of_open_files() -> None:
    """Raise the limit of open files as far as this user may. Raises CommandError below what a cluster needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if limit < _LEAST_FILES:
        raise CommandError(f"at most {limit} open files are allowed, a cluster needs {_LEAST_FILES}: raise `ulimit -n`")
    if soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _check_kubeconfig(path: Path) -> None:
    """Check that the kubeconfig can be written and is not one of another cluster. Raises CommandError."""
    if path == expanded("~/.kube/config"):
        raise CommandError(f"--kubeconfig: {path} is the default of kubectl: specify another file", 2)
    if path.is_dir():
        raise CommandError(f"--kubeconfig: {path} is a directory: specify a file", 2)
    if not path.exists():
        above = next(folder for folder in path.parents if folder.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            what = "directory not writable" if above.is_dir() else "not a directory"
            raise CommandError(f"--kubeconfig: cannot create {path} in {above}: {what}")
        return
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise CommandError(f"--kubeconfig: cannot read {path}: {fault.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        config = None
    if config is None:
        return
    if not (isinstance(config, dict) and _is_ours(config)):
        raise CommandError(f"--kubeconfig: {path} exists and was not written by `local up`: specify another file", 2)
    url = str(config["clusters"][0].get("cluster", {}).get("server", ""))
    if _answers(url):
        raise CommandError(
            f"--kubeconfig: {path} is in use by the cluster at {url}: stop it, or specify another file", 2
        )


def _answers(url: str) -> bool:
    """Whether a server accepts connections at this URL of the loopback network."""
    address = urlsplit(url)
    try:
        with socket.create_connection((address.hostname or "", address.port or 0), timeout=1.0):
            return True
    except OSError:
        return False


def _check_persist(path: Path) -> None:
    """Check that the file is one of a persistent cluster. Raises CommandError."""
    try:
        if not path.exists():
            return
        with path.open("rb") as file:
            beginning = file.read(len(_JOURNAL))
    except OSError as fault:
        raise CommandError(f"--persist: cannot open {path}: {fault.strerror}") from None
    if beginning and beginning != _JOURNAL:
        raise CommandError(f"--persist: {path} was not written by `local up`: specify another file", 2)


def _is_ours(config: Json) -> bool:
    clusters = config.get("clusters")
    return isinstance(clusters, list) and [item.get("name") for item in clusters if isinstance(item, dict)] == [_NAME]


def _write_kubeconfig(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise CommandError(f"--kubeconfig: cannot write {path}: {os.strerror(fault.errno or 0)}") from None
