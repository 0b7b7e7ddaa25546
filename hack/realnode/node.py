"""The first process of a node: a root of its own, network, containerd with its images, kubelet and kube-proxy.

Run as `python -m hack.realnode.node RUN NUMBER` in namespaces of its own, below the cgroups of the node. The root is the
machine's with changes in memory; `/run`, `/var/lib/kubelet`, `/var/lib/containerd` and `/var/log/pods` are the node's own, so
that the default paths of kubelet and containerd are right, as on a machine of its own.
"""

import ctypes
import os
import socket
import sys
import time
from pathlib import Path

from hack.realnode import configuration, images, layout
from hack.realnode.layout import CONTROL_PLANE_ADDRESS, Layout, node_address, pod_network
from hack.realnode.shell import CommandError, ip, log, run
from hack.realnode.supervisor import Supervisor

KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""What kubelet would write for the whole machine: it finds files with these values instead."""
IN_MEMORY = ("run", "var/lib/kubelet", "var/lib/containerd", "var/log/pods")
"""Folders of a node, which end with its mounts: the files of the images of three nodes take minutes to delete from a disk."""
LONGEST_START = 60.0
IMPORT_ATTEMPTS = 20
_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def main(cluster: Layout, number: int) -> None:
    """Become the node and supervise its services."""
    _enter_root(cluster, number)
    _join_network(cluster, number)
    programs, supervisor = Path(cluster.programs), Supervisor(cluster.node(number))
    path = f"{programs}:{os.environ['PATH']}"
    containerd = [programs / "containerd", f"--config={configuration.CONTAINERD_CONFIG}"]
    supervisor.start("containerd", containerd, PATH=path)
    supervisor.wait_until(Path("/run/containerd/containerd.sock").exists, LONGEST_START, "containerd")
    for archive in cluster.images:
        _import(programs, archive)
    kubelet = [
        programs / "kubelet",
        f"--config={configuration.KUBELET_CONFIG}",
        f"--kubeconfig={cluster.kubeconfig(f'node-{number}')}",
        f"--hostname-override=node-{number}",
        f"--node-ip={node_address(number)}",
    ]
    supervisor.start("kubelet", kubelet, PATH=path)
    supervisor.start("kube-proxy", [programs / "kube-proxy", f"--config={configuration.KUBELET_PROXY}"], PATH=path)
    supervisor.run()


def _import(programs: Path, archive: str) -> None:
    """Import an image; containerd may not answer yet."""
    for attempt in range(IMPORT_ATTEMPTS):
        try:
            run(programs / images.IMPORT[0], *images.IMPORT[1:], archive)
        except CommandError as error:
            if attempt == IMPORT_ATTEMPTS - 1:
                log(str(error))
            time.sleep(0.5)
        else:
            return


def _enter_root(cluster: Layout, number: int) -> None:
    folder = cluster.node(number)
    run("mount", "--make-rprivate", "/")
    memory = folder / "memory"
    memory.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=512m,mode=755", "tmpfs", memory)
    for name in ("upper", "work", "root"):
        (memory / name).mkdir()
    root = memory / "root"
    layers = f"lowerdir=/,upperdir={memory}/upper,workdir={memory}/work"
    run("mount", "-t", "overlay", "overlay", "-o", layers, root)
    run("mount", "-t", "proc", "proc", root / "proc")
    run("mount", "-t", "sysfs", "sysfs", root / "sys")
    run("mount", "--rbind", "/dev", root / "dev")
    run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", root / "dev/shm")
    _mount_cgroups(cluster, root / "sys/fs/cgroup")
    for path in IN_MEMORY:
        (root / path).mkdir(parents=True, exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", root / path)
    for shared in (cluster.cache, cluster.run):
        (root / shared[1:]).mkdir(parents=True, exist_ok=True)
        run("mount", "--bind", shared, root / shared[1:])
    _hide_kernel_settings(root)
    os.chdir(root)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")
    run("mount", "--make-rshared", "/")
    socket.sethostname(f"node-{number}")
    for path, text in configuration.node_files(cluster, number).items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)


def _mount_cgroups(cluster: Layout, folder: Path) -> None:
    """Mount the hierarchies anew: the cgroup of the node is their root. In version 2 the root may contain no process."""
    if "unified" in cluster.cgroups:
        run("mount", "-t", "cgroup2", "cgroup2", folder)
        (folder / "services").mkdir()
        for pid in (folder / "cgroup.procs").read_text().split():
            (folder / "services/cgroup.procs").write_text(pid)
        controllers = " ".join(f"+{name}" for name in (folder / "cgroup.controllers").read_text().split())
        (folder / "cgroup.subtree_control").write_text(controllers)
        return
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    for name in cluster.cgroups:
        (folder / name).mkdir()
        run("mount", "-t", "cgroup", "-o", name, "cgroup", folder / name)


def _hide_kernel_settings(root: Path) -> None:
    folder = root / "run/kernel-settings"
    folder.mkdir()
    for name, value in KERNEL_SETTINGS.items():
        setting = folder / name.replace("/", ".")
        setting.write_text(f"{value}\n")
        run("mount", "--bind", setting, root / "proc/sys" / name)


def _join_network(cluster: Layout, number: int) -> None:
    end = time.monotonic() + LONGEST_START
    while not Path("/sys/class/net/eth0").exists():
        if time.monotonic() > end:
            sys.exit(f"node-{number}: no eth0")
        time.sleep(0.05)
    ip(["link set lo up", f"addr add {node_address(number)}/24 dev eth0", "link set eth0 up", *routes(cluster, number)])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    bridged = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if bridged.exists():
        bridged.write_text("1")


def routes(cluster: Layout, number: int) -> list[str]:
    """Return the commands of `ip` for the routes of a node, which are lost when its link is down."""
    others = [other for other in range(1, cluster.nodes + 1) if other != number]
    pods = (f"route replace {pod_network(other)} via {node_address(other)}" for other in others)
    return [f"route replace default via {CONTROL_PLANE_ADDRESS}", *pods]


def _check(result: int, name: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main(layout.read(Path(sys.argv[1])), int(sys.argv[2]))
