"""Installs a lock file with pip and shows how far it is; runs in a new virtual environment, so it needs nothing but pip.

1. A pip before 24, such as that of Python 3.11.7, compares each file of an index page with a thousand tags, which is a third of
   its time: it is replaced by a newer one if the index has that.
2. The lock file is installed. Modules are compiled where they are imported first: most of them never are.

On a terminal one line is updated for every package, elsewhere every tenth package is a line.
"""

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_PACKAGE = re.compile(r"^(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9._-]+)")
_STEP = 10
_PIP = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
_NEW_PIP = "26.3"


def is_slow(version: str) -> bool:
    """Return whether this version of pip is one that the newer replaces."""
    return int(version.partition(".")[0]) < 24


def packages(lock: str) -> int:
    """Return the number of packages of a lock file, as its text."""
    return sum(1 for line in lock.splitlines() if re.match(r"[A-Za-z0-9][A-Za-z0-9._\[\]-]*==", line))


def progress(lines: Iterator[str], total: int, *, terminal: bool) -> Iterator[str]:
    """Yield the texts to print for the output of pip; on a terminal each replaces the one before."""
    seen = 0
    for line in lines:
        package = _PACKAGE.match(line)
        if package is not None:
            seen += 1
            if terminal or seen % _STEP == 0:
                yield f"{min(seen, total)}/{total} {package[1]}"
        elif line.startswith("Installing collected packages"):
            yield f"{total}/{total} downloaded, installing"


def main(lock: str) -> int:
    """Install the lock file; return pip's exit code."""
    terminal = sys.stdout.isatty()
    if is_slow(importlib.metadata.version("pip")):
        subprocess.run([*_PIP, "--quiet", f"pip=={_NEW_PIP}"], stderr=subprocess.DEVNULL, check=False)
    options = ["--no-compile", "--progress-bar", "off", "--requirement", lock]
    process = subprocess.Popen([*_PIP, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    total = packages(Path(lock).read_text(encoding="utf-8"))
    for text in progress(iter(process.stdout), total, terminal=terminal):
        print(f"\r\x1b[K  {text}" if terminal else f"  {text}", end="" if terminal else "\n", flush=True)
    if terminal:
        print("\r\x1b[K", end="", flush=True)
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
