"""``python -m hack.clipage`` writes docs/cli.md: the help of every command."""

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from volcanopy.cli.main import all_commands

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
_WIDTH = 100

_HEAD = """\
# Command line

This page contains the output of `volcanopy COMMAND --help` for every command. `make golden` generates it. The same commands are available
as `kubectl volcanopy COMMAND` if volcanopy is on the PATH of kubectl.

Exit codes: 0 success; 1 the cluster rejected the request, an object is missing, or a wait ended without success; 2 the command line
is invalid. Colours and live tables appear on terminals only; in a pipe the text is plain and stable.

`volcanopy completion bash` prints the completion script: `source <(volcanopy completion bash)`. Scripts for zsh and
fish are also available.
"""


def page() -> str:
    """Return the text of docs/cli.md."""
    root = all_commands()
    parts = [_HEAD]
    for path in _commands(root, ()):
        title = " ".join(("volcanopy", *path))
        parts.append(f"{'#' * min(len(path) + 2, 4)} {title}\n\n```text\n{_help(root, path)}\n```\n")
    return "\n".join(parts)


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the path of a command and of its subcommands, in the order of the help."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from _commands(below, (*path, name))


def _help(root: Any, path: tuple[str, ...]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        root.main([*path, "--help"], prog_name="volcanopy", standalone_mode=False, terminal_width=_WIDTH)
    return re.sub(r"[ \t]+$", "", output.getvalue(), flags=re.MULTILINE).strip()


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
