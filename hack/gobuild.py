"""Building a program from published Go modules, once: with a sign of life, a lock, and a cache that moves with its source."""

import contextlib
import fcntl
import hashlib
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

PROGRESS_SECONDS = 15.0

Say = Callable[[str], None]


class BuildError(Exception):
    """The Go build failed; the message ends with the last lines that it printed."""


def speaker(subject: str) -> Say:
    """Return what prints a line about the subject."""

    def say(line: str) -> None:
        print(f"{subject}: {line}", file=sys.stderr, flush=True)

    return say


def cache_folder(family: str, module: Path, sources: Iterable[Path] = (), flags: str = "") -> Path:
    """Return where programs built from `module` belong: it moves whenever module, flags or the machine's kind change."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()}{flags}".encode())
    for file in [module / "go.mod", module / "go.sum", *sources]:
        digest.update(f"\n{file.relative_to(module)}\n".encode())
        digest.update(file.read_bytes())
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "volcanopy" / family / digest.hexdigest()[:16]


def runs(program: Path) -> bool:
    """Whether there is a program of that name."""
    return program.is_file() and os.access(program, os.X_OK)


@contextlib.contextmanager
def locked(folder: Path, say: Say) -> Iterator[None]:
    """Hold the folder, which is made; a second caller waits for the first."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("someone else is building it: waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(
    go: str, module: Path, package: str, program: Path, version: str, stamps: Mapping[str, str], say: Say
) -> None:
    """Build one package to `program`, which appears whole or not at all; `stamps` are set in the program.

    Raises BuildError.
    """
    fresh = program.with_name(f".{program.name}.new")
    flags = ["-s", "-w", *(f"-X {name}={value}" for name, value in stamps.items())]
    argv = [go, "build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags={' '.join(flags)}"]
    say(f"building {version} into {program.parent}, once: this takes minutes")
    started = time.monotonic()
    process = subprocess.Popen(
        [*argv, "-o", str(fresh), package],
        cwd=module,
        env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    # `go build -v` names each package as it compiles it; anything else on stderr is a download or a complaint.
    lines: list[str] = []
    reader = threading.Thread(target=_collect, args=(process.stderr, lines), daemon=True)
    reader.start()
    while True:
        try:
            code = process.wait(PROGRESS_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"{program.name}: {len(lines)} packages fetched or compiled in {time.monotonic() - started:.0f} s")
        else:
            break
    reader.join()
    if code != 0:
        tail = "\n".join(lines[-20:])
        raise BuildError(f"`go build {package}` in {module} failed with\n{tail}\n")
    fresh.replace(program)
    say(f"{program.name}: built in {time.monotonic() - started:.0f} s")


def _collect(stream: IO[str], lines: list[str]) -> None:
    lines.extend(line.rstrip("\n") for line in stream)
