"""Interpreters of Python in which clients are installed that do not belong into the environment of the tests."""

import os
import sys
from importlib.util import find_spec


def interpreter(variable: str, package: str) -> str:
    """Return the interpreter that a variable of the environment names, else that of the tests if it has the package, else nothing."""
    return os.environ.get(variable) or (sys.executable if find_spec(package) else "")
