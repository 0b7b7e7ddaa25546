"""Prints accounts: as documents, as plain lines in a pipe, in colour on a terminal."""

import sys
from collections.abc import Iterable

from volcanopy.cli.explaining.text import Line, plain
from volcanopy.cli.framework import documents
from volcanopy.cli.framework.options import Format
from volcanopy.cli.framework.tables import coloured, console
from volcanopy.kube.client.kinds import Json


def show(document: Json, lines: Iterable[Line], output: str) -> None:
    """Print a document (``json``, ``yaml``) or the lines (``text``)."""
    if output != "text":
        sys.stdout.write(documents.text(document, Format(output)))
        return
    show_lines(lines)


def show_lines(lines: Iterable[Line]) -> None:
    """Print lines; what standard output cannot encode is written in ASCII."""
    if not coloured():
        encoding = sys.stdout.encoding or "ascii"
        print(plain(lines).translate(_plainer(encoding)), flush=True)
        return
    from rich.text import Text

    printer = console()
    for line in lines:
        printer.print(Text.assemble(*((part.text, part.style) for part in line)), soft_wrap=True)


def _plainer(encoding: str) -> dict[int, str]:
    """Marks in ASCII for an encoding that has no others."""
    marks = {
        "✓": "+",
        "✗": "x",
        "·": ".",
        "…": "...",
        "█": "#",
        "░": ".",
        "▒": "-",
        "├": "|",
        "└": "`",
        "─": "-",
        "│": "|",
    }
    try:
        "".join(marks).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return str.maketrans(marks)
    return {}
