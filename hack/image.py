"""The image without an engine: the Dockerfile's steps, run in a clean root, and the services started from it.

`python -m hack.imagecheck` (`make image-check`) needs root, `apt-get download` and a Debian mirror; it is no part of `make test`.

1. A Debian root is made by debootstrap, once, for each base in `BASES`. It stands for the base image: the same
   distribution and the same minor version of Python, but Debian's build of it.
2. Each step of the Dockerfile is done in a copy of it: RUN in a chroot, COPY from what .dockerignore lets through.
3. What comes out is entered as a cluster would: as the image's user, without privileges or capabilities, with a root that
   cannot be written and an empty /tmp. Every subcommand must come up; the scheduler must schedule.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hack import gobuild
from hack.dockerfile import Stage, Step, parse, sent

ROOT = Path(__file__).parents[1]
BASES = {
    "python:3.11-slim-bookworm": ("bookworm", ("python3", "python3-venv", "python-is-python3", "ca-certificates")),
}
"""For each base image: the Debian release, and what it has besides the minimum."""
PASSED_ON = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "HTTPS_PROXY", "HTTP_PROXY")
"""What pip must know on this machine to find packages: of no effect in the image."""
LINKED = ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt")
_log = gobuild.logger("image")


def cache_folder() -> Path:
    """Return the folder of roots and images."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "volcanopy" / "image"


def base_root(base: str) -> Path:
    """Return the root of a base image; create it if it is missing."""
    release, packages = BASES[base]
    made = cache_folder() / release
    with gobuild.locked(cache_folder(), _log):
        if not (made / "usr/bin/python").exists():
            _make_root(made, release, packages)
    return made


def _make_root(made: Path, release: str, packages: Sequence[str]) -> None:
    fresh = made.with_name(f"{release}.new")
    _remove(fresh)
    tools = cache_folder() / "debootstrap"
    tools.mkdir(parents=True, exist_ok=True)
    if not (tools / "usr").exists():
        _run(["apt-get", "download", "debootstrap"], cwd=tools)
        _run(["dpkg", "-x", str(next(tools.glob("*.deb"))), str(tools)])
    _log(f"making a root of Debian {release}, once: this takes minutes")
    program = [str(tools / "usr/sbin/debootstrap"), "--variant=minbase", f"--include={','.join(packages)}"]
    _run(
        [*program, release, str(fresh)],
        env={"DEBOOTSTRAP_DIR": str(tools / "usr/share/debootstrap")},
        quiet=True,
    )
    fresh.rename(made)


def build(stages: Sequence[Stage], context: Path, target: Path) -> None:
    """Do all steps; the last stage's root is `target`, the others are beside it and go."""
    roots: dict[str, Path] = {}
    for stage in stages:
        root = target if stage is stages[-1] else target.with_name(f"{target.name}.{stage.name}")
        _remove(root)
        _run(["cp", "--archive", str(base_root(stage.base)), str(root)])  # device nodes included
        where, environment = "/", {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        for step in stage.steps:
            _log(f"{stage.name or 'image'}: {step.kind} {' '.join(step.arguments)}")
            match step:
                case Step("RUN", (command,)):
                    with guest(root) as passed:
                        _run(
                            ["chroot", str(root), "/bin/sh", "-c", f"cd {where} && {command}"], env=environment | passed
                        )
                case Step("WORKDIR", (where,)):
                    (root / where.lstrip("/")).mkdir(parents=True, exist_ok=True)
                case Step("ENV", (key, value)):
                    environment[key] = value
                case Step("COPY", (*sources, goal)):
                    _copy(step, roots.get(step.source, context), sources, root / where.lstrip("/"), root, goal)
                case Step("USER", _):
                    pass
                case _:
                    raise AssertionError(f"{step} cannot be done")
        roots[stage.name] = root
    for name, root in roots.items():
        if name:
            _remove(root)


def enter(stage: Stage, root: Path, arguments: Sequence[str], folders: Mapping[str, str] | None = None) -> list[str]:
    """The command that runs the image's program as a hardened container does; `folders` are mounted read-only."""
    user, _, group = stage.user.partition(":")
    environment = [f"{key}={value}" for key, value in stage.environment.items()]
    # Private mounts: the root read-only, with an empty /tmp.
    mounts = [f"mount --bind {root} {root}"]
    mounts += [f"mount --bind {source} {root}{path}" for path, source in (folders or {}).items()]
    mounts += [f"mount -t tmpfs none {root}/tmp", f"mount -t proc proc {root}/proc", f"mount -o remount,ro,bind {root}"]
    # chroot needs a capability: all are dropped inside, by the root's own setpriv.
    drop = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs", "--pdeathsig=KILL"]
    drop += ["--bounding-set=-all", "--inh-caps=-all", "env", "--ignore-environment", *environment]
    inside = shlex.join(["exec", *drop, *stage.entrypoint, *arguments])
    outside = shlex.join(["exec", "chroot", str(root), "/bin/sh", "-c", inside])
    script = "; ".join([*mounts, outside])
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-ec", script]


def context_files() -> list[Path]:
    """Return the files of the source tree that a build of the image sees, relative to it."""
    return sorted(sent(ROOT, (ROOT / ".dockerignore").read_text().splitlines()))


@contextlib.contextmanager
def product_root() -> Iterator[tuple[Stage, Path]]:
    """Build the image; yield its last stage and its root, in a folder of this process alone."""
    started = time.monotonic()
    stages = parse((ROOT / "Dockerfile").read_text())
    base = _size(base_root(stages[-1].base))
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache_folder()) as folder:
        context, target = Path(folder) / "context", Path(folder) / "root"
        for path in context_files():
            (context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, context / path)
        build(stages, context, target)
        size = (_size(target) - base) / 2**20
        _log(f"built in {time.monotonic() - started:.0f} s; {size:.0f} MiB on top of the base")
        yield stages[-1], target


def _copy(step: Step, origin: Path, sources: Sequence[str], here: Path, root: Path, goal: str) -> None:
    into = root / goal.lstrip("/") if goal.startswith("/") else here / goal
    for source in sources:
        path = origin / source.lstrip("/")
        if path.is_dir():
            shutil.copytree(path, into, symlinks=True, dirs_exist_ok=True)
        else:
            destination = into / path.name if goal.endswith("/") else into
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, destination)


@contextlib.contextmanager
def guest(root: Path) -> Iterator[dict[str, str]]:
    """The machine's network settings in a root, for as long as a step needs them; what its environment must have."""
    kept: dict[Path, Path] = {}
    for name in LINKED:
        mine, theirs = Path(name), root / name.lstrip("/")
        theirs.parent.mkdir(parents=True, exist_ok=True)
        if theirs.exists() or theirs.is_symlink():
            kept[theirs] = theirs.rename(theirs.with_name(f"{theirs.name}.kept"))
        shutil.copyfile(mine, theirs)
    try:
        yield {"PIP_CERT": LINKED[1]} | {key: os.environ[key] for key in PASSED_ON if key in os.environ}
    finally:
        for name in LINKED:
            theirs = root / name.lstrip("/")
            theirs.unlink(missing_ok=True)
            if theirs in kept:
                kept[theirs].rename(theirs)


def _run(
    command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, quiet: bool = False
) -> None:
    given = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"} | dict(env or {})
    done = subprocess.run(command, cwd=cwd, env=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"image: {' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    if not quiet and done.stderr.strip():
        _log(done.stderr.strip()[-500:])


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
