"""Prints reports: as JSON or YAML, as plain lines in a pipe, in colour on a terminal."""

import sys
from collections.abc import Iterable

from volcanopy.cli.explain.text import Line, plain
from volcanopy.cli.framework import documents
from volcanopy.cli.framework.options import Format
from volcanopy.cli.framework.tables import coloured, console
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.printable import printable

_ASCII = str.maketrans(
    {
        "✓": "+",
        "✗": "x",
        "·": ".",
        "…": "...",
        "█": "#",
        "░": ".",
        "▓": "=",
        "▒": "-",
        "├": "|",
        "└": "`",
        "─": "-",
        "│": "|",
    }
)
"""Marks for an encoding that lacks the usual ones."""


def show(document: Json, lines: Iterable[Line], output: str) -> None:
    """Print a document (``json``, ``yaml``) or the lines (``text``)."""
    if output != "text":
        sys.stdout.write(documents.text(document, Format(output)))
    elif not coloured():
        print(_encodable(printable(plain(lines))), flush=True)
    else:
        from rich.text import Text

        printer = console()
        for line in lines:
            printer.print(Text.assemble(*((printable(part.text), part.style) for part in line)), soft_wrap=True)


def _encodable(text: str) -> str:
    try:
        "".join(map(chr, _ASCII)).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return text.translate(_ASCII)
    return text
