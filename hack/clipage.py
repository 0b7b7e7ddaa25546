"""``python -m hack.clipage`` writes docs/cli.md: what every command says of itself."""

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from volcanopy.cli.main import everything

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
_WIDTH = 100

_HEAD = """\
# The command line

`volcanopy COMMAND --help` says what stands here; the page is written from the code by `make golden`. The same commands are there
as `kubectl volcanopy COMMAND`, once volcanopy is installed where kubectl finds it on the PATH.

Exit codes: 0 all is well; 1 the cluster said no, an object is missing, or what was waited for did not come; 2 the command line
is wrong. Colour and tables that renew themselves are for terminals only: in a pipe the text is plain and stable.

`volcanopy completion bash` prints what completes words in a shell: `source <(volcanopy completion bash)`. There is one for zsh and
fish as well.
"""


def page() -> str:
    """The text of docs/cli.md."""
    root = everything()
    parts = [_HEAD]
    for path in _commands(root, ()):
        title = " ".join(("volcanopy", *path))
        parts.append(f"{'#' * min(len(path) + 2, 4)} {title}\n\n```text\n{_help(root, path)}\n```\n")
    return "\n".join(parts)


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The words of a command and of those below it, in the order in which they are shown."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from _commands(below, (*path, name))


def _help(root: Any, path: tuple[str, ...]) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        root.main([*path, "--help"], prog_name="volcanopy", standalone_mode=False, terminal_width=_WIDTH)
    return re.sub(r"[ \t]+$", "", said.getvalue(), flags=re.MULTILINE).strip()


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
