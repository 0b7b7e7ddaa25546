"""A running cluster, from outside of its namespaces: start, end, images, services and the network of nodes.

One process has everything: `unshare` with the first process of the cluster's namespaces. When it is killed, all other
processes end with the pid namespace, and mounts and networks with theirs; what is left are empty cgroups and files.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hack.realnode import certificates, images, layout, node, programs
from hack.realnode.layout import Layout, cache_root, own_cgroups
from hack.realnode.shell import CommandError, log, run

ROOT = Path(__file__).parents[2]
DNS = Path(__file__).parent / "dns.yaml"
LONGEST_START, LONGEST_END = 240.0, 60.0
STEP = 0.2
WEIGHT = 32
"""The cluster's share of the cpus, in shares of a process: in a cgroup of its own, its hundred processes would count as one."""
NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup")


class Cluster:
    """The cluster in a folder, by default that of the cache."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_root() / "run"

    @property
    def layout(self) -> Layout:
        """Its layout. Raises CommandError if it does not run."""
        if not self._first_process():
            raise CommandError("no cluster is running: start it with `python -m hack.realnode up`")
        return layout.read(self.folder)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the administrator."""
        return self.folder / "admin.kubeconfig"

    def up(self, nodes: int, toleration: int, grace: int) -> None:
        """Build what is missing, start the cluster and wait until it is ready. Raises CommandError, BuildError."""
        if self._first_process():
            raise CommandError("a cluster is running: end it with `python -m hack.realnode down`")
        go = shutil.which("go")
        if lacking := [*programs.missing(), *([] if go else ["go is missing: install Go 1.26 or later"])]:
            raise CommandError("; ".join(lacking))
        assert go is not None
        groups = own_cgroups()
        if not ({"unified"} <= groups.keys() or groups.keys() >= layout.REQUIRED_CONTROLLERS):
            raise CommandError(
                "the cgroups of this process have no controllers: neither version 2 nor cpu, memory, pids of 1"
            )
        binaries = programs.folder_of_all(go)
        archives = images.cluster_images(binaries)
        self._remove_leftovers()
        started = time.monotonic()
        cluster = Layout(
            run=str(self.folder),
            programs=str(binaries),
            cache=str(cache_root().parent),
            nodes=nodes,
            images=tuple(map(str, archives)),
            cgroups=_prepared_cgroups(groups),
            toleration=toleration,
            grace=grace,
        )
        cluster.control_plane.mkdir(parents=True)
        cluster.write()
        self._start(cluster)
        self.wait_until(lambda: self._ready_nodes() >= nodes, LONGEST_START, "all nodes Ready")
        self.kubectl("apply", "--filename", str(DNS))
        self.kubectl("--namespace=kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s")
        log(f"{nodes} nodes are Ready after {time.monotonic() - started:.0f} s: export KUBECONFIG={self.kubeconfig}")

    def down(self) -> None:
        """End the cluster and remove everything but the cache."""
        if pid := self._first_process():
            os.kill(pid, signal.SIGKILL)
            self.wait_until(lambda: not self._first_process(), LONGEST_END, "the end of the processes")
        self._remove_leftovers()

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as the administrator and return its output. Raises CommandError."""
        return run("kubectl", f"--kubeconfig={self.kubeconfig}", *arguments)

    def get(self, *arguments: str) -> dict[str, Any]:
        """Return an object or a list of objects."""
        content: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "--output=json"))
        return content

    def node_names(self) -> list[str]:
        """Return the names of the nodes."""
        return [f"node-{number}" for number in range(1, self.layout.nodes + 1)]

    def on_node(self, name: str, *argv: str) -> list[str]:
        """Return the command that runs another one in the namespaces of a node, with the programs of the cluster on PATH."""
        cluster = self.layout
        folder = cluster.node(int(name.removeprefix("node-")))
        first = self._first_process()
        outer = ["nsenter", f"--target={first}", "--mount", "--pid"]
        inner = ["nsenter", f"--target={(folder / 'pid').read_text()}", *NAMESPACES]
        return [*outer, *inner, "env", f"PATH={cluster.programs}:{os.environ['PATH']}", *argv]

    def load(self, archives: Sequence[Path], names: Sequence[str] = ()) -> None:
        """Import images into nodes, by default all, at once. Raises CommandError."""

        def load_into(name: str) -> None:
            for archive in archives:
                run(*self.on_node(name, *images.IMPORT, str(archive.resolve())))

        with ThreadPoolExecutor() as pool:
            tuple(pool.map(load_into, names or self.node_names()))

    def stop(self, place: str, service: str, *, kill: bool = False, once: bool = False) -> None:
        """End a service of a node or of the control plane; with `once` it is started again after a second."""
        folder = self._service_folder(place)
        if not once:
            (folder / f"{service}.stopped").touch()
        command = ["/bin/kill", "-KILL" if kill else "-TERM", (folder / f"{service}.pid").read_text()]
        if place == "control-plane":
            run("nsenter", f"--target={self._first_process()}", "--mount", "--pid", *command)
        else:
            run(*self.on_node(place, *command))

    def start(self, place: str, service: str) -> None:
        """Start a service again that was stopped."""
        (self._service_folder(place) / f"{service}.stopped").unlink(missing_ok=True)

    def cut(self, name: str) -> None:
        """Cut a node from the network."""
        run(*self.on_node(name, "ip", "link", "set", "eth0", "down"))

    def join(self, name: str) -> None:
        """Connect a node again."""
        commands = ["link set eth0 up", *node.routes(self.layout, int(name.removeprefix("node-")))]
        for command in commands:
            run(*self.on_node(name, "ip", *command.split()))

    def wait_until(self, condition: Callable[[], bool], seconds: float, subject: str) -> None:
        """Wait for a condition. Raises CommandError if it does not hold in time."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise CommandError(f"{subject}: not within {seconds:.0f} s; logs are in {self.folder}")
            time.sleep(STEP)

    def _service_folder(self, place: str) -> Path:
        cluster = self.layout
        return cluster.control_plane if place == "control-plane" else cluster.node(int(place.removeprefix("node-")))

    def _start(self, cluster: Layout) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
            certificates.write_credentials(cluster, listener.getsockname()[1])
            unshare = ["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child=KILL"]
            module = [sys.executable, "-m", layout.CONTROL_PLANE, cluster.run, str(listener.fileno())]
            with (self.folder / "control-plane.log").open("w") as output:
                process = subprocess.Popen(
                    [*unshare, "--mount-proc", *module],
                    cwd=ROOT,
                    pass_fds=[listener.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        (self.folder / "pid").write_text(str(process.pid))

    def _first_process(self) -> int:
        """Return the first process of the cluster's namespaces; 0 if there is none."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            launcher = int((self.folder / "pid").read_text())
            command = Path(f"/proc/{launcher}/cmdline").read_bytes().split(b"\0")
            if layout.CONTROL_PLANE.encode() in command and str(self.folder).encode() in command:
                return int(Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()[0])
        return 0

    def _ready_nodes(self) -> int:
        try:
            nodes = self.get("nodes")["items"]
        except CommandError:
            return 0
        return sum(is_ready(item) for item in nodes)

    def _remove_leftovers(self) -> None:
        for group in self._cgroups():
            end = time.monotonic() + LONGEST_END
            while group.exists():
                for folder, _, _ in os.walk(group, topdown=False):
                    with contextlib.suppress(OSError):
                        Path(folder).rmdir()
                if time.monotonic() > end:
                    raise CommandError(f"{group} is in use")
                time.sleep(STEP if group.exists() else 0)
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _cgroups(self) -> list[Path]:
        """Return the cgroups of the cluster that was started last; this process may be in others."""
        with contextlib.suppress(OSError):
            return [Path(group) for group in layout.read(self.folder).cgroups.values()]
        return []


def is_ready(item: dict[str, Any]) -> bool:
    """Return whether a node is ready."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _prepared_cgroups(groups: dict[str, Path]) -> dict[str, str]:
    """Create the cgroups of the cluster. In version 2 this process moves to a cgroup of its own, so that its parent may have
    controllers."""
    for name, path in groups.items():
        (path / "realnode").mkdir(exist_ok=True)
        if name == "cpu":
            (path / "realnode/cpu.shares").write_text(str(WEIGHT * 1024))
        if name == "unified":
            (path / "launcher").mkdir(exist_ok=True)
            for pid in (path / "cgroup.procs").read_text().split():
                (path / "launcher/cgroup.procs").write_text(pid)
            controllers = " ".join(f"+{name}" for name in (path / "cgroup.controllers").read_text().split())
            for level in (path, path / "realnode"):
                (level / "cgroup.subtree_control").write_text(controllers)
            (path / "realnode/cpu.weight").write_text(str(WEIGHT * 100))
    return {name: str(path / "realnode") for name, path in groups.items()}
