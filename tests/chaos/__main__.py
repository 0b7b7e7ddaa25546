"""Chaos on a kube-apiserver with etcd of this machine: `python -m tests.chaos [OPTION ...]`, in the repository's root.

The options are those of `python -m chaos`, which also gets the addresses and processes of the control plane.
"""

import subprocess
import sys

from tests.controlplane.fixtures import chart_crds
from tests.controlplane.plane import ControlPlane


def main() -> int:
    """Start a control plane and run chaos on it; the exit status is that of `python -m chaos`."""
    with ControlPlane.start(crds=chart_crds()) as plane:
        cluster = ["--kubeconfig", str(plane.kubeconfig), "--context", "real", "--test-cluster"]
        pids = [option for name, pid in plane.pids().items() for option in ("--pause-process", f"{name}={pid}")]
        own = [*cluster, *pids, "--etcd", plane.etcd, "--run-services", "--nodes", "6"]
        return subprocess.run([sys.executable, "-m", "chaos", *own, *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
