"""The pytest plugin: the fixture `apiserver`, an empty cluster for each test that uses it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from embedded_apiserver.threaded import ThreadedServer

SETTING = "apiserver_manifests"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting."""
    text = "Files and folders with manifests, such as CustomResourceDefinitions, which the fixture apiserver applies."
    parser.addini(SETTING, text, type="paths", default=[])


@pytest.fixture
def apiserver_manifests(pytestconfig: pytest.Config) -> list[Path]:
    """Files and folders with the manifests of the fixture `apiserver`: by default those of the setting of this name."""
    paths: list[Path] = pytestconfig.getini(SETTING)
    return paths


@pytest.fixture
def apiserver(apiserver_manifests: list[Path]) -> Iterator["ThreadedServer"]:
    """A running API server of Kubernetes with the kinds of `apiserver_manifests`, empty otherwise."""
    from embedded_apiserver.threaded import serving  # noqa: PLC0415 - only tests that use the server import it

    with serving(apiserver_manifests) as server:
        yield server
