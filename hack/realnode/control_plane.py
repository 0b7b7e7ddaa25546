"""The first process of the cluster's namespaces: bridge, control plane, relay, and the start of the nodes.

Run as `python -m hack.realnode.control_plane RUN DESCRIPTOR` in network, mount, pid, ipc and uts namespaces of its own.
"""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from hack.realnode import configuration, layout
from hack.realnode.layout import API_PORT, CONTROL_PLANE_ADDRESS, SERVICES, Layout, node_address, pod_network
from hack.realnode.shell import ip, run
from hack.realnode.supervisor import Supervisor

BRIDGE = "realnode0"
LONGEST_START = 120.0


def main(cluster: Layout, descriptor: int) -> None:
    """Start everything and supervise it."""
    run("mount", "--make-rprivate", "/")
    _make_bridge(cluster)
    supervisor = Supervisor(cluster.control_plane)
    os.set_inheritable(descriptor, True)
    supervisor.start("relay", [sys.executable, "-m", layout.RELAY, str(descriptor)])
    programs = Path(cluster.programs)
    etcd = [programs / "etcd", f"--data-dir={cluster.run}/etcd", "--unsafe-no-fsync", "--log-level=warn"]
    supervisor.start("etcd", etcd)
    supervisor.start("kube-apiserver", [programs / "kube-apiserver", *_api_server_arguments(cluster)], GOGC="200")
    for number in range(1, cluster.nodes + 1):
        _start_node(cluster, number, supervisor)
    supervisor.wait_until(_is_listening, LONGEST_START, "kube-apiserver")
    for name, arguments in _clients(cluster).items():
        supervisor.start(name, [programs / name, *arguments])
    supervisor.run()


def _make_bridge(cluster: Layout) -> None:
    commands = [
        "link set lo up",
        f"link add {BRIDGE} type bridge",
        f"addr add {CONTROL_PLANE_ADDRESS}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
        # The address of a Service is translated after the choice of the route: there must be one.
        f"route add {SERVICES} dev {BRIDGE}",
    ]
    numbers = range(1, cluster.nodes + 1)
    ip([*commands, *(f"route add {pod_network(number)} via {node_address(number)}" for number in numbers)])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _start_node(cluster: Layout, number: int, supervisor: Supervisor) -> None:
    folder = cluster.node(number)
    folder.mkdir(parents=True)
    groups = [Path(group) / f"node-{number}" for group in cluster.cgroups.values()]

    def join_cgroups() -> None:
        for group in groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    _make_cgroups(groups)
    unshare = ["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child=KILL"]
    argv = [*unshare, "--mount-proc", sys.executable, "-m", layout.NODE, cluster.run, str(number)]
    with (folder / "node.log").open("w") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, preexec_fn=join_cgroups)  # noqa: PLW1509 - one thread
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    supervisor.wait_until(lambda: bool(children.read_text().split()), LONGEST_START, f"node-{number}")
    first = children.read_text().split()[0]
    (folder / "pid").write_text(first)
    ip([f"link add veth{number} type veth peer name eth0 netns {first}", f"link set veth{number} master {BRIDGE} up"])


def _make_cgroups(groups: list[Path]) -> None:
    for group in groups:
        group.mkdir(parents=True, exist_ok=True)
        for level in (group.parent, group):
            for name in ("cpuset.cpus", "cpuset.mems"):  # version 1: empty ones admit no process
                if (level / name).exists() and not (level / name).read_text().strip():
                    (level / name).write_text((level.parent / name).read_text())


def _is_listening() -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", API_PORT), 1):
        return True
    return False


def _api_server_arguments(cluster: Layout) -> list[str]:
    pki = cluster.pki
    return [
        "--etcd-servers=http://127.0.0.1:2379",
        f"--advertise-address={CONTROL_PLANE_ADDRESS}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/admin.crt",
        f"--kubelet-client-key={pki}/admin.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki}/accounts.pub",
        f"--service-account-signing-key-file={pki}/accounts.key",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--requestheader-client-ca-file={pki}/ca.crt",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front-proxy.crt",
        f"--proxy-client-key-file={pki}/front-proxy.key",
        f"--default-not-ready-toleration-seconds={cluster.toleration}",
        f"--default-unreachable-toleration-seconds={cluster.toleration}",
    ]


def _clients(cluster: Layout) -> dict[str, list[str]]:
    """Return the arguments of the programs beside kube-apiserver.

    kube-proxy runs here, too, under the name of a node: kube-apiserver calls webhooks by the address of their Service.
    """
    pki, managers, schedulers = cluster.pki, cluster.kubeconfig("controller-manager"), cluster.kubeconfig("scheduler")
    proxy = cluster.control_plane / "kube-proxy.yaml"
    proxy.write_text(configuration.proxy(cluster, "node-1"))

    def as_user(kubeconfig: Path) -> list[str]:
        names = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        return [*(f"--{name}={kubeconfig}" for name in names), "--leader-elect=false"]

    return {
        "kube-controller-manager": [
            *as_user(managers),
            f"--root-ca-file={pki}/ca.crt",
            f"--service-account-private-key-file={pki}/accounts.key",
            f"--cluster-signing-cert-file={pki}/ca.crt",
            f"--cluster-signing-key-file={pki}/ca.key",
            "--use-service-account-credentials=true",
            f"--node-monitor-grace-period={cluster.grace}s",
            "--flex-volume-plugin-dir=/run/flexvolume",
        ],
        "kube-scheduler": as_user(schedulers),
        "kube-proxy": [f"--config={proxy}"],
    }


if __name__ == "__main__":
    main(layout.read(Path(sys.argv[1])), int(sys.argv[2]))
