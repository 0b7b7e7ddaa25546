"""Building a program from published Go modules once, with progress output, a lock and a cache."""

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

Log = Callable[[str], None]


class BuildError(Exception):
    """The Go build failed; the message ends with the last lines that it printed."""


def logger(subject: str) -> Log:
    """Return a function that prints a line about the subject."""

    def log(line: str) -> None:
        print(f"{subject}: {line}", file=sys.stderr, flush=True)

    return log


def cache_folder(family: str, module: Path, sources: Iterable[Path] = (), flags: str = "") -> Path:
    """Return the folder of programs built from `module`; it depends on the module, the flags and the platform."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()}{flags}".encode())
    for file in [module / "go.mod", module / "go.sum", *sources]:
        digest.update(f"\n{file.relative_to(module)}\n".encode())
        digest.update(file.read_bytes())
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "volcanopy" / family / digest.hexdigest()[:16]


def runs(program: Path) -> bool:
    """Return whether the file exists and is executable."""
    return program.is_file() and os.access(program, os.X_OK)


@contextlib.contextmanager
def locked(folder: Path, log: Log) -> Iterator[None]:
    """Create and lock the folder; a second caller waits for the first."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log("waiting for another build")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(
    go: str,
    module: Path,
    package: str,
    program: Path,
    version: str,
    stamps: Mapping[str, str],
    log: Log,
    *,
    tags: str = "",
    cgo: bool = False,
) -> None:
    """Build a package to `program`, which is replaced atomically; `stamps` are set in the program.

    Raises BuildError.
    """
    fresh = program.with_name(f".{program.name}.new")
    flags = ["-s", "-w", *(f"-X {name}={value}" for name, value in stamps.items())]
    argv = [go, "build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags={' '.join(flags)}"]
    argv += [f"-tags={tags}"] if tags else []
    log(f"building {version} into {program.parent}, once: this takes minutes")
    started = time.monotonic()
    process = subprocess.Popen(
        [*argv, "-o", str(fresh), package],
        cwd=module,
        env=os.environ | {"CGO_ENABLED": str(int(cgo)), "GOWORK": "off"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    # `go build -v` names each package as it compiles it; other lines on stderr are downloads and errors.
    lines: list[str] = []
    reader = threading.Thread(target=_collect, args=(process.stderr, lines), daemon=True)
    reader.start()
    while True:
        try:
            code = process.wait(PROGRESS_SECONDS)
        except subprocess.TimeoutExpired:
            log(f"{program.name}: {len(lines)} packages fetched or compiled in {time.monotonic() - started:.0f} s")
        else:
            break
    reader.join()
    if code != 0:
        tail = "\n".join(lines[-20:])
        raise BuildError(f"`go build {package}` in {module} failed with\n{tail}\n")
    fresh.replace(program)
    log(f"{program.name}: built in {time.monotonic() - started:.0f} s")


def _collect(stream: IO[str], lines: list[str]) -> None:
    lines.extend(line.rstrip("\n") for line in stream)
