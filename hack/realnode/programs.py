"""The programs of the cluster, built once from published Go modules.

| program | module |
|---|---|
| etcd, kube-apiserver, kube-controller-manager, kubelet, kube-proxy, kube-scheduler | hack/envtest |
| containerd, containerd-shim-runc-v2, ctr | go/runtime |
| runc, with libseccomp | go/runc |
| dns: CoreDNS with the plugins of a cluster | go/dns |
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from hack import controlplane, gobuild
from hack.realnode.layout import cache_root
from hack.realnode.shell import log

MODULES = Path(__file__).parent / "go"
CONTAINERD = "github.com/containerd/containerd/v2/cmd"
WITHOUT_SNAPSHOTTERS = "no_btrfs,no_devmapper,no_zfs"
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
REQUIRED = {
    "gcc": "gcc",
    "pkg-config": "pkg-config and libseccomp-dev",
    "iptables": "iptables",
    "ip": "iproute2",
    "kubectl": "kubectl",
    "debootstrap": "debootstrap",
    "unshare": "util-linux",
}
"""Programs of the machine, with their packages."""


@dataclass(frozen=True)
class Program:
    """A program of a Go module: its package, and the tags and cgo that it needs."""

    name: str
    module: str
    package: str
    tags: str = ""
    cgo: bool = False

    def built(self, go: str) -> Path:
        """Build it if it is missing, and return its path. Raises BuildError."""
        module = MODULES / self.module
        folder = gobuild.cache_folder("realnode", module, sorted(module.glob("*.go")), self.tags)
        program = folder / self.name
        with gobuild.locked(folder, log):
            if not gobuild.runs(program):
                gobuild.build(go, module, self.package, program, self.name, {}, log, tags=self.tags, cgo=self.cgo)
        return program


PROGRAMS = (
    Program("runc", "runc", "github.com/opencontainers/runc", "seccomp", cgo=True),
    *(
        Program(name, "runtime", f"{CONTAINERD}/{name}", WITHOUT_SNAPSHOTTERS)
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    Program("dns", "dns", "."),
)


def missing() -> list[str]:
    """Return what the machine lacks, a sentence each."""
    lacking = [f"{name} is missing: install {package}" for name, package in REQUIRED.items() if not shutil.which(name)]
    if not any((folder / "bridge").exists() for folder in CNI_FOLDERS):
        lacking.append("the CNI plugins are missing: install containernetworking-plugins")
    return lacking


def folder_of_all(go: str) -> Path:
    """Build what is missing and return a folder with all programs. Raises BuildError."""
    folder = cache_root() / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    cluster = controlplane.build_node_programs(go)
    paths = [cluster / name for name in (*controlplane.PROGRAMS, *controlplane.NODE_PROGRAMS)]
    for path in [*paths, *(program.built(go) for program in PROGRAMS)]:
        link = folder / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    return folder
