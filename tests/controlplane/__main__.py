"""Keep a real control plane running for a person: `python -m tests.controlplane up`, in the repository's root.

It prints the administrator's kubeconfig and stays until Ctrl-C; then every trace of it is removed.

    export KUBECONFIG=<the printed path>
    kubectl get namespaces

`--no-controllers` leaves kube-controller-manager out (faster, but no garbage collection and namespaces never go),
`--no-crds` leaves the chart's CustomResourceDefinitions out, `--kubeconfig FILE` writes the kubeconfig there as well.
"""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.controlplane.fixtures import chart_crds
from tests.controlplane.plane import CONTROLLERS, ControlPlane, StartError


def main() -> int:
    """Start the control plane, print its addresses, wait for the end."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.controlplane", description="A real control plane on loopback."
    )
    up = parser.add_subparsers(required=True).add_parser("up", help="start one and stay until Ctrl-C")
    up.add_argument("--no-controllers", action="store_true", help="leave kube-controller-manager out")
    up.add_argument("--no-crds", action="store_true", help="leave the chart's CustomResourceDefinitions out")
    up.add_argument("--kubeconfig", type=Path, help="write the administrator's kubeconfig to this file as well")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    controllers = () if arguments.no_controllers else CONTROLLERS
    crds = [] if arguments.no_crds else chart_crds()
    with contextlib.suppress(KeyboardInterrupt):
        try:
            plane = ControlPlane.start(controllers=controllers, crds=crds)
        except StartError as error:
            print(error, file=sys.stderr)
            return 1
        with plane:
            path = plane.kubeconfig
            if arguments.kubeconfig:
                path = arguments.kubeconfig.absolute()
                shutil.copyfile(plane.kubeconfig, path)
            seconds = time.monotonic() - started
            version = plane.request("GET", "/version")["gitVersion"]
            print(f"Kubernetes {version} at {plane.url}, up in {seconds:.1f} s; logs in {plane.directory}")
            print(f"export KUBECONFIG={path}", flush=True)
            signal.pause()
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
