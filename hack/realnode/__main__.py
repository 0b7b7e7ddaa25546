"""The command line of the cluster: `python -m hack.realnode up`, and see --help."""

import argparse
import subprocess
import sys
from pathlib import Path

from hack.gobuild import BuildError
from hack.realnode import product
from hack.realnode.cluster import Cluster
from hack.realnode.shell import CommandError, log


def main() -> int:
    """Execute a command."""
    arguments = _parser().parse_args()
    cluster = Cluster()
    try:
        match arguments.command:
            case "up":
                cluster.up(arguments.nodes, arguments.toleration, arguments.grace)
            case "down":
                cluster.down()
            case "install":
                product.install(cluster)
            case "load":
                cluster.load(arguments.archives)
            case "kubectl":
                command = ["kubectl", f"--kubeconfig={cluster.kubeconfig}", *arguments.arguments]
                return subprocess.run(command, check=False).returncode
            case "exec":
                return subprocess.run(cluster.on_node(arguments.node, *arguments.arguments), check=False).returncode
            case "stop":
                cluster.stop(arguments.place, arguments.service, kill=arguments.kill, once=arguments.once)
            case "start":
                cluster.start(arguments.place, arguments.service)
            case "cut":
                cluster.cut(arguments.node)
            case "join":
                cluster.join(arguments.node)
    except (CommandError, BuildError) as error:
        log(str(error))
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hack.realnode", description="Kubernetes with real kubelets on this machine."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="build what is missing, start the cluster, wait until it is ready")
    up.add_argument("--nodes", type=int, default=3)
    up.add_argument("--toleration", type=int, default=20, help="seconds that pods stay on a node that is not ready")
    up.add_argument("--grace", type=int, default=20, help="seconds without a lease after which a node is not ready")
    commands.add_parser("down", help="end the cluster; nothing is left but the cache of programs and images")
    commands.add_parser("install", help="load the images of the product and of the jobs, and install the chart")
    load = commands.add_parser("load", help="import image archives into all nodes")
    load.add_argument("archives", nargs="+", type=Path)
    for name, text in (("kubectl", "run kubectl"), ("exec", "run a command on a node")):
        command = commands.add_parser(name, help=text)
        if name == "exec":
            command.add_argument("node")
        command.add_argument("arguments", nargs=argparse.REMAINDER)
    for name, text in (("stop", "end a service"), ("start", "start a stopped service")):
        command = commands.add_parser(name, help=text)
        command.add_argument("place", help="node-1 and so on, or control-plane")
        command.add_argument("service")
        if name == "stop":
            command.add_argument("--kill", action="store_true", help="SIGKILL instead of SIGTERM")
            command.add_argument("--once", action="store_true", help="it is started again after a second")
    for name, text in (("cut", "cut a node from the network"), ("join", "connect a node again")):
        commands.add_parser(name, help=text).add_argument("node")
    return parser


if __name__ == "__main__":
    sys.exit(main())
