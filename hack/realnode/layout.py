"""The layout of a cluster: folders, addresses and cgroups, the same for all of its processes."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

CONTROL_PLANE_ADDRESS = "10.200.0.1"
"""The address of the bridge, on which kube-apiserver listens."""
PODS, SERVICES = "10.201.0.0/16", "10.202.0.0/16"
API_SERVICE, DNS_SERVICE = "10.202.0.1", "10.202.0.10"
API_PORT = 6443
RELAY, CONTROL_PLANE, NODE = "hack.realnode.relay", "hack.realnode.control_plane", "hack.realnode.node"
"""The modules that run as processes of the cluster."""
V1_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
REQUIRED_CONTROLLERS = frozenset({"cpu", "memory", "pids"})


def cache_root() -> Path:
    """Return the folder of programs, images and the running cluster."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volcanopy" / "realnode"


def node_address(number: int) -> str:
    """Return the address of a node on the bridge; nodes are counted from 1."""
    return f"10.200.0.{10 + number}"


def pod_network(number: int) -> str:
    """Return the network of the pods of a node."""
    return f"10.201.{number}.0/24"


@dataclass(frozen=True)
class Layout:
    """A cluster. ``cgroups`` has a folder for each hierarchy: by controller in version 1, under `unified` in version 2."""

    run: str
    programs: str
    cache: str
    nodes: int
    images: tuple[str, ...]
    cgroups: dict[str, str]
    toleration: int = 300
    """Seconds that pods stay on a node that is not ready."""
    grace: int = 50
    """Seconds without a lease after which a node is not ready."""

    @property
    def pki(self) -> Path:
        """The folder of certificates."""
        return Path(self.run) / "pki"

    @property
    def control_plane(self) -> Path:
        """The folder of the control plane."""
        return Path(self.run) / "control-plane"

    def node(self, number: int) -> Path:
        """The folder of a node."""
        return Path(self.run) / "nodes" / str(number)

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of a user."""
        return Path(self.run) / f"{user}.kubeconfig"

    def write(self) -> None:
        """Write it into the folder of the cluster."""
        (Path(self.run) / "layout.json").write_text(json.dumps(asdict(self)))


def read(run: Path) -> Layout:
    """Read the layout of the cluster in a folder."""
    content = json.loads((run / "layout.json").read_text())
    return Layout(**content | {"images": tuple(content["images"])})


def own_cgroups() -> dict[str, Path]:
    """Return the cgroup of this process in each hierarchy: of version 2 if it has controllers, else of version 1."""
    paths: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(",") if controllers else ("unified",), path.strip("/"))
    unified = Path("/sys/fs/cgroup") / paths.get("unified", "")
    if (unified / "cgroup.controllers").exists() and (unified / "cgroup.controllers").read_text().split():
        return {"unified": unified}
    return {
        name: Path("/sys/fs/cgroup") / name / paths[name]
        for name in V1_CONTROLLERS
        if name in paths and (Path("/sys/fs/cgroup") / name).is_dir()
    }
