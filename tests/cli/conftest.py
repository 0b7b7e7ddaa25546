"""One embedded cluster for all tests of commands, in a process of its own; each module has a namespace in it."""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir

import pytest
import structlog
import yaml

from tests.cli.fake_api_server import FakeApiServer, fake_api_server
from tests.cli.run_commands import Outcome, Run, local_cluster, run_in_process
from tests.controlplane.fixtures import kubectl_program
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection

__all__ = ["kubectl_program"]

NAMESPACES: Kind[Json] = Kind("", "v1", "Namespace", "namespaces", False, dict)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster at work, with three nodes of 8 cpu each."""
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with local_cluster(path, "--simulate", "3"):
        yield path


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster whose node runs pods as processes."""
    if Path(sys.prefix).is_relative_to(gettempdir()):
        pytest.fail(
            f"{sys.prefix} does not exist in containers, which have a {gettempdir()} of their own: move the checkout"
        )
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with local_cluster(path, *(["--run-as-root"] if os.getuid() == 0 else [])):
        yield path


@pytest.fixture
def own_logging() -> Iterator[None]:
    """What a command does to logging in its own process is undone."""
    root, before = logging.getLogger(), structlog.get_config() if structlog.is_configured() else None
    handlers, level = root.handlers, root.level
    yield
    structlog.reset_defaults() if before is None else structlog.configure(**before)
    root.handlers, root.level = handlers, level
    logging.captureWarnings(capture=False)


@pytest.fixture(scope="module")
def kubeconfig(cluster: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cluster, with a namespace of the module's own as the usual one."""
    namespace = request.module.__name__.rpartition(".")[2].replace("_", "-")
    config = yaml.safe_load(cluster.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    path = tmp_path_factory.mktemp("module") / "kubeconfig"
    path.write_text(yaml.safe_dump(config))

    async def make() -> None:
        async with Client(load_connection(cluster)) as client:
            with contextlib.suppress(AlreadyExists):
                await client.create(
                    NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                )

    asyncio.run(make())
    return path


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    """A server with fixed responses."""
    with fake_api_server() as api:
        yield api


@pytest.fixture(scope="module")
def volcanopy(kubeconfig: Path) -> Run:
    """A command against the cluster, in the module's namespace."""

    def run(*words: str | Path, stdin: str = "") -> Outcome:
        return run_in_process(*words, kubeconfig=kubeconfig, stdin=stdin)

    return run
