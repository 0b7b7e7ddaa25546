"""``volcanopy local up`` and ``local run``: a whole cluster on this machine, to work with or for one run."""

import asyncio
import errno
import logging
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
import uvloop
import yaml
from rich.console import Console

from volcanopy.cli.errors import CommandError
from volcanopy.cli.manifests import Manifest, read
from volcanopy.cli.progress import Progress
from volcanopy.kube.client.kinds import Json
from volcanopy.local.apiserver.store.journal import JournalError
from volcanopy.local.cluster import ClusterError, LocalCluster, Parts
from volcanopy.local.manifests import Creator, RefusedError
from volcanopy.local.simulated import nodes as simulated
from volcanopy.services.process.settings import SchedulerSettings

_NAME = "volcanopy"
_RUNNABLE = ("BatchJob", "JobFlow", "CronBatchJob")
_JOURNAL = b'["=",'
"""What the file of a persistent cluster begins with."""


def up(
    *,
    nodes: int,
    cluster: Path | None,
    kubeconfig: Path,
    port: int,
    persist: Path | None,
    config: Path | None = None,
) -> None:
    """Keep a cluster until Ctrl-C; its kubeconfig is written to a file of its own."""
    objects = read([str(cluster)]) if cluster is not None else []
    kubeconfig = kubeconfig.expanduser().absolute()
    _check_kubeconfig(kubeconfig)
    if persist is not None:
        _check_persist(persist)
    _until_done(_up(nodes, objects, kubeconfig, port, persist, config))


def run(*, files: list[str], nodes: int, cluster: Path | None, timeout: float, config: Path | None = None) -> None:
    """Run the jobs in these files on a cluster of their own, and show how they fare; Stop unless all complete."""
    objects = read([str(cluster)]) if cluster is not None else []
    manifests = read(files)
    if not any(one.kind in _RUNNABLE for one in manifests):
        raise CommandError(
            f"{', '.join(files)}: there is no {' or '.join(_RUNNABLE)} in it, so there is nothing to run", 2
        )
    _until_done(_run(nodes, objects, manifests, timeout, config))


async def _up(
    nodes: int, objects: list[Manifest], kubeconfig: Path, port: int, persist: Path | None, config: Path | None
) -> None:
    interrupted = _interrupts()
    async with _cluster(nodes, objects, port=port, persist=persist, config=config) as cluster:
        _write_kubeconfig(kubeconfig, cluster.kubeconfig())
        count = len(cluster.kubelet.nodes.nodes)
        print(f"A cluster with {count} simulated nodes is ready at {cluster.url}; Ctrl-C ends it. To use it:\n")
        print(f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}")
        print("  kubectl apply -f examples/02-gang\n", flush=True)
        await _first_of(cluster, interrupted)
        print("stopping", flush=True)


async def _run(
    nodes: int, objects: list[Manifest], manifests: list[Manifest], timeout: float, config: Path | None
) -> None:
    interrupted = _interrupts()
    async with _cluster(nodes, objects, config=config) as cluster:
        progress = Progress(cluster.client, Console(highlight=False))
        await _create(Creator(cluster.client), manifests)
        following = asyncio.create_task(progress.follow())
        try:
            ended = await _first_of(cluster, interrupted, following, timeout)
        finally:
            following.cancel()
            await asyncio.wait((following,))
        progress.show_end()
        if ended is following:
            following.result()
        elif ended is None:
            raise CommandError(f"not all jobs were done after {timeout:g} s: {progress.unfinished()}")
        else:
            raise CommandError(f"interrupted: {progress.unfinished()}", 130)
        if failed := progress.failed():
            raise CommandError(f"not all jobs completed: {failed}")


@asynccontextmanager
async def _cluster(
    nodes: int, objects: list[Manifest], port: int = 0, persist: Path | None = None, config: Path | None = None
) -> AsyncIterator[LocalCluster]:
    """A cluster with the nodes of the file, or so many of the usual ones; what goes wrong is said in one sentence."""
    own = [one for one in objects if one.kind == "Node"]
    bodies = [simulated.like(one.body) if one.kind == "Node" else one.body for one in objects]
    parts = Parts(scheduler=SchedulerSettings(config=config))
    cluster = LocalCluster(0 if own else nodes, objects=bodies, port=port, persist=persist, parts=parts)
    try:
        await cluster.__aenter__()
    except RefusedError as refusal:
        raise _placed(refusal, objects) from None
    except JournalError as damage:
        raise CommandError(f"--persist: {damage}") from None
    except ClusterError as fault:
        raise CommandError(str(fault)) from None
    except OSError as fault:
        raise _unable(fault, port, persist) from None
    try:
        yield cluster
    finally:
        await cluster.__aexit__(None, None, None)


def _unable(fault: OSError, port: int, persist: Path | None) -> CommandError:
    if fault.errno == errno.EADDRINUSE:
        return CommandError(f"--port {port}: the port is taken: choose another, or 0 for a free one")
    if fault.errno == errno.EACCES and not fault.filename:
        return CommandError(f"--port {port}: you may not listen on it: choose one above 1023, or 0 for a free one")
    if persist is not None and fault.filename:
        return CommandError(f"--persist: {fault.filename} cannot be used: {fault.strerror}")
    return CommandError(f"the cluster cannot be started: {fault}")


async def _create(creator: Creator, manifests: list[Manifest]) -> None:
    try:
        await creator.create([one.body for one in manifests])
    except RefusedError as refusal:
        raise _placed(refusal, manifests) from None


def _placed(refusal: RefusedError, manifests: list[Manifest]) -> CommandError:
    place = next((one.place for one in manifests if one.body is refusal.body), None)
    return CommandError(f"{place}: {refusal.why}" if place else str(refusal))


async def _first_of(
    cluster: LocalCluster,
    interrupted: asyncio.Event,
    work: "asyncio.Task[Any] | None" = None,
    timeout: float | None = None,
) -> "asyncio.Task[Any] | None":
    """Wait until the user or the work ends it, or the time is up (None); raises Stop when the cluster itself breaks."""
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
    """An event that Ctrl-C and a polite kill set."""
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    return interrupted


def _until_done(work: Coroutine[Any, Any, None]) -> None:
    _say_only_warnings()
    uvloop.run(work)


def _say_only_warnings() -> None:
    """All parts of the cluster share this terminal: what goes well is not news here."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


def _check_kubeconfig(path: Path) -> None:
    """Refuse to write over what is not ours, before anything is started."""
    if path == Path("~/.kube/config").expanduser():
        raise CommandError(f"--kubeconfig: {path} is kubectl's own: choose a file for this cluster alone", 2)
    if path.is_dir():
        raise CommandError(f"--kubeconfig: {path} is a folder: name a file", 2)
    if not path.exists():
        above = next(one for one in path.parents if one.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            what = "you may not write there" if above.is_dir() else "that is no folder"
            raise CommandError(f"--kubeconfig: {path} cannot be made in {above}: {what}")
        return
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise CommandError(f"--kubeconfig: {path} cannot be read: {fault.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        found = None
    if found is not None and not (isinstance(found, dict) and _is_ours(found)):
        raise CommandError(
            f"--kubeconfig: {path} is there already and was not written by `local up`: choose another file", 2
        )


def _check_persist(path: Path) -> None:
    """Refuse a file that is something else: it would be written over."""
    try:
        if not path.exists():
            return
        with path.open("rb") as file:
            beginning = file.read(len(_JOURNAL))
    except OSError as fault:
        raise CommandError(f"--persist: {path} cannot be used: {fault.strerror}") from None
    if beginning and beginning != _JOURNAL:
        raise CommandError(f"--persist: {path} was not written by `local up`: choose another file", 2)


def _is_ours(found: Json) -> bool:
    clusters = found.get("clusters")
    return isinstance(clusters, list) and [one.get("name") for one in clusters if isinstance(one, dict)] == [_NAME]


def _write_kubeconfig(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise CommandError(f"--kubeconfig: {path} cannot be written: {os.strerror(fault.errno or 0)}") from None
