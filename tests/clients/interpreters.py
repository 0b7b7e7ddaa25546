"""Interpreters of Python in which clients are installed that do not belong into the environment of the tests."""

import os
import sys
from importlib.util import find_spec

import pytest


def interpreter(variable: str, package: str) -> str:
    """Return the interpreter that a variable of the environment names, else that of the tests if it has the package, else nothing."""
    return os.environ.get(variable) or (sys.executable if find_spec(package) else "")


def marks(python: str, packages: str, slow: str) -> list[pytest.MarkDecorator]:
    """Return the marks of the tests of a client that ``make workflow-clients`` installs; ``slow`` is why they are."""
    reason = f"needs CLIENTS_PYTHON, a Python with {packages} and volcanopy: `make workflow-clients`"
    return [pytest.mark.skipif(not python, reason=reason), pytest.mark.slow(slow), pytest.mark.timeout(1800)]
