"""Images without a registry: archives that `ctr images import` reads, made from files of this machine."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack import image
from hack.realnode.configuration import PAUSE_IMAGE
from hack.realnode.layout import cache_root
from hack.realnode.shell import log, run

PRODUCT_IMAGE, JOBS_IMAGE, FRAMEWORKS_IMAGE, DNS_IMAGE = (
    "localhost/volcanopy:dev",
    "localhost/realnode/jobs:1",
    "localhost/realnode/frameworks:1",
    "localhost/realnode/dns:1",
)
FUNCTIONS_IMAGE = "localhost/realnode/functions:1"
IMPORT = (
    "ctr",
    "--namespace=k8s.io",
    "images",
    "import",
    "--local",
    "--discard-unpacked-layers",
    "--snapshotter=overlayfs",
)
"""The layers are in the snapshots: kept packed as well, they would be in the memory of the node twice."""
BUSYBOX_IMAGES = ("docker.io/library/busybox:latest", "docker.io/library/busybox:1.36.1")
"""The second is what `pytorch --wait-master-enabled` waits with."""
JOB_PACKAGES = ("python3", "openssh-server", "openmpi-bin", "python3-mpi4py", "iproute2", "procps")
RELEASE = "bookworm"
FRAMEWORKS = ("python3-torch", "python-is-python3")
"""PyTorch of Debian: that of PyPI brings gigabytes for GPUs."""
RAY, PYTHON = "ray[default]==2.60.0", "3.11"
"""Ray of PyPI, for the Python of the release."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MADE_IN_CONTAINERS = ("proc", "sys", "dev", "run", "tmp", "var/cache/apt", "var/lib/apt/lists", "var/log")
_DOCUMENTATION = ("usr/share/doc", "usr/share/man", "usr/share/locale")
_PAUSE_PROGRAM = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int number) { (void)number; _exit(0); }
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0); }
int main(void) { signal(SIGTERM, end); signal(SIGINT, end); signal(SIGCHLD, reap); for (;;) pause(); }
"""
_NC = b"""#!/bin/sh
if [ "$1" = -z ]; then shift; exec busybox nc "$@" -e true; fi
exec busybox nc "$@"
"""
"""Debian's busybox has no `nc -z`; that of the official image has."""


@dataclass(frozen=True)
class ImageConfig:
    """What an image runs."""

    tags: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)
    user: str = ""


@dataclass(frozen=True)
class File:
    """A file of a layer; a link if `target` is given, a folder if neither."""

    content: bytes | None = None
    mode: int = 0o644
    target: str = ""


def write_archive(path: Path, config: ImageConfig, *layers: Path) -> None:
    """Write an image with these layers, uncompressed tar files, as an archive in the form of `docker save`."""
    digests = []
    for layer in layers:
        with layer.open("rb") as content:
            digests.append(hashlib.file_digest(content, "sha256").hexdigest())
    document = {
        "architecture": _ARCHITECTURES[os.uname().machine],
        "os": "linux",
        "created": "2026-01-01T00:00:00Z",
        "config": {
            "Entrypoint": list(config.entrypoint) or None,
            "Cmd": list(config.command) or None,
            "User": config.user,
            "WorkingDir": "/",
            "Env": list(config.environment),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        "history": [{"created_by": "hack/realnode"}] * len(digests),
    }
    encoded = json.dumps(document).encode()
    name = f"{hashlib.sha256(encoded).hexdigest()}.json"
    members = [f"{digest}.tar" for digest in digests]
    manifest = json.dumps([{"Config": name, "RepoTags": list(config.tags), "Layers": members}]).encode()
    fresh = path.with_suffix(".new")
    with tarfile.open(fresh, "w") as archive:
        for member, content_of in ((name, encoded), ("manifest.json", manifest)):
            _add(archive, member, File(content_of))
        for layer, member in zip(layers, members, strict=True):
            archive.add(layer, member)
    fresh.replace(path)


def cluster_images(programs: Path) -> tuple[Path, ...]:
    """Return the archives that every node has: pause, busybox, DNS; those that are missing are made."""
    made = {"pause": _pause, "busybox": _busybox, "dns": lambda scratch: _dns(scratch, programs)}
    return tuple(_archive(_folder() / f"{name}.tar", make) for name, make in made.items())


def image_with_busybox(path: Path, config: ImageConfig, files: Mapping[str, File]) -> Path:
    """Return the archive of an image with these files beside busybox, which is made if it is missing."""
    return _archive(path, lambda scratch: (config, {**_busybox(scratch)[1], **files}))


def product_image() -> Path:
    """Return the archive of the image of this source tree; it is made again when a file of it has changed."""
    digest = hashlib.sha256()
    for path in image.context_files():
        digest.update(f"{path}\n".encode())
        digest.update((image.ROOT / path).read_bytes())
    archive = _folder() / f"volcanopy-{digest.hexdigest()[:16]}.tar"
    if not archive.exists():
        for stale in _folder().glob("volcanopy-*.tar"):
            stale.unlink()
        with image.product_root() as (stage, root):
            environment = tuple(f"{key}={value}" for key, value in stage.environment.items())
            config = ImageConfig((PRODUCT_IMAGE,), tuple(stage.entrypoint), ("--help",), environment, stage.user)
            _archive_root(archive, config, root, ())
    return archive


def functions_image(package: Path) -> Path:
    """Write and return the archive of the product's image with a package of Python in it, and root as its user."""
    product = product_image()
    archive = _folder() / "functions.tar"
    with tempfile.TemporaryDirectory(dir=_folder()) as scratch, tarfile.open(product) as content:
        (layer,) = (member for member in content.getmembers() if member.name.endswith(".tar"))
        content.extract(layer, scratch, filter="data")
        added = Path(scratch) / "package.tar"
        with tarfile.open(added, "w") as target:
            target.add(package, f"opt/volcanopy/lib/python{PYTHON}/site-packages/{package.name}")
        path = "PATH=/opt/volcanopy/bin:/usr/local/bin:/usr/bin:/bin"
        write_archive(archive, ImageConfig((FUNCTIONS_IMAGE,), environment=(path,)), Path(scratch) / layer.name, added)
    return archive


def jobs_image() -> Path:
    """Return the archive of the image of the jobs: Debian with Python, sshd and OpenMPI."""
    archive = _folder() / "jobs.tar"
    if not archive.exists():
        root = cache_root() / "roots" / "jobs"
        if not root.exists():
            log("making the root of the image of the jobs, once: this takes minutes")
            fresh = root.with_name("jobs.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.parent.mkdir(parents=True, exist_ok=True)
            run("debootstrap", "--variant=minbase", f"--include={','.join(JOB_PACKAGES)}", RELEASE, fresh)
            fresh.rename(root)
        _archive_root(archive, ImageConfig((JOBS_IMAGE,), command=("bash",)), root, _DOCUMENTATION)
    return archive


def frameworks_image() -> Path:
    """Return the archive of the image with PyTorch and Ray."""
    archive = _folder() / "frameworks.tar"
    if not archive.exists():
        jobs_image()
        root = cache_root() / "roots" / "frameworks"
        if not root.exists():
            log("making the root of the image of the frameworks, once: this takes minutes")
            fresh = root.with_name("frameworks.new")
            shutil.rmtree(fresh, ignore_errors=True)
            run("cp", "--archive", cache_root() / "roots" / "jobs", fresh)
            apt = f"apt-get update -q && apt-get install -qy --no-install-recommends {' '.join(FRAMEWORKS)}"
            with image.guest(fresh):
                run("chroot", fresh, "/bin/sh", "-c", f"export DEBIAN_FRONTEND=noninteractive; {apt}")
            _install_ray(fresh)
            fresh.rename(root)
        _archive_root(archive, ImageConfig((FRAMEWORKS_IMAGE,), command=("bash",)), root, _DOCUMENTATION)
    return archive


def _install_ray(root: Path) -> None:
    target = root / f"usr/local/lib/python{PYTHON}/dist-packages"
    options = (f"--python-version={PYTHON}", "--only-binary=:all:", f"--target={target}", "--upgrade")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options, RAY)
    program = root / "usr/local/bin/ray"  # that of pip names the Python of this machine
    program.write_text('#!/bin/sh\nexec python3 -m ray.scripts.scripts "$@"\n')
    program.chmod(0o755)


def _folder() -> Path:
    folder = cache_root() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _archive_root(archive: Path, config: ImageConfig, root: Path, excluded: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        layer = Path(scratch) / "layer.tar"
        patterns = [f"--exclude=./{path}/*" for path in (*_MADE_IN_CONTAINERS, *excluded)]
        run("tar", "-C", root, "--numeric-owner", "--sort=name", "--xattrs", *patterns, "-cf", layer, ".")
        write_archive(archive, config, layer)


def _write_layer(path: Path, files: Mapping[str, File]) -> None:
    with tarfile.open(path, "w") as layer:
        for name, file in files.items():
            _add(layer, name, file)


def _add(archive: tarfile.TarFile, name: str, file: File) -> None:
    member = tarfile.TarInfo(name)
    member.mode = file.mode
    if file.content is not None:
        member.size = len(file.content)
        archive.addfile(member, io.BytesIO(file.content))
        return
    member.type, member.linkname = (tarfile.SYMTYPE, file.target) if file.target else (tarfile.DIRTYPE, "")
    archive.addfile(member)


Made = tuple[ImageConfig, dict[str, File]]


def _archive(path: Path, make: Callable[[Path], Made]) -> Path:
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=_folder()) as folder:
            scratch = Path(folder)
            config, files = make(scratch)
            _write_layer(scratch / "layer.tar", files)
            write_archive(path, config, scratch / "layer.tar")
    return path


def libraries_of(program: Path) -> dict[str, File]:
    """Return the libraries of a program of this machine, by their paths."""
    libraries = [word for word in run("ldd", program).split() if word.startswith("/")]
    return {library.lstrip("/"): File(Path(library).read_bytes(), 0o755) for library in libraries}


def _pause(scratch: Path) -> Made:
    source, program = scratch / "pause.c", scratch / "pause"
    source.write_text(_PAUSE_PROGRAM)
    run("gcc", "-static", "-Os", "-s", "-o", program, source)
    config = ImageConfig((PAUSE_IMAGE,), ("/pause",), user="65535:65535")
    return config, {"pause": File(program.read_bytes(), 0o755)}


def _dns(_scratch: Path, programs: Path) -> Made:
    files = {"dns": File((programs / "dns").read_bytes(), 0o755), "tmp": File(mode=0o1777)}
    return ImageConfig((DNS_IMAGE,), ("/dns",)), files


def _busybox(scratch: Path) -> Made:
    """busybox of Debian, dynamic as the official one, so that it resolves names."""
    run("apt-get", "download", "busybox", cwd=scratch)
    run("dpkg", "-x", next(scratch.glob("busybox_*.deb")), scratch / "busybox")
    program = scratch / "busybox/bin/busybox"
    folders = dict.fromkeys(("bin", "etc", "root", "var", "lib", "lib64", "lib/x86_64-linux-gnu"), File(mode=0o755))
    users = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
    files = {
        **folders,
        "tmp": File(mode=0o1777),
        "bin/busybox": File(program.read_bytes(), 0o755),
        "bin/nc": File(_NC, 0o755),
        "etc/group": File(b"root:x:0:\n"),
        "etc/passwd": File(users),
    }
    files |= libraries_of(program)
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    files |= {f"bin/{name}": File(target="busybox") for name in applets if name not in {"busybox", "nc"}}
    return ImageConfig(BUSYBOX_IMAGES, command=("sh",), environment=("PATH=/bin",)), files
