"""The CEL library without its command line, whose libraries for terminals take a tenth of the start of a server."""

import sys
from types import ModuleType

_EMPTY = ModuleType("cel.cli")
sys.modules.setdefault("cel.cli", _EMPTY)  # the package imports it and does not use it

import cel  # noqa: E402
from cel import stdlib  # noqa: E402

if sys.modules["cel.cli"] is _EMPTY:
    del sys.modules["cel.cli"]  # it can be imported as usual

__all__ = ["cel", "stdlib"]
