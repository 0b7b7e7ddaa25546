"""The certificate authority of a cluster, the certificates of its users, and their kubeconfigs."""

from pathlib import Path

from hack.certificates import Authority, key_pem, kubeconfig, new_key, public_pem
from hack.realnode.layout import API_PORT, API_SERVICE, CONTROL_PLANE_ADDRESS, Layout

_SERVER_ADDRESSES = ("127.0.0.1", CONTROL_PLANE_ADDRESS, API_SERVICE)


def users_of(nodes: int) -> dict[str, tuple[str, str]]:
    """Return the group and the name of each user of the cluster."""
    kubelets = {f"node-{number}": ("system:nodes", f"system:node:node-{number}") for number in range(1, nodes + 1)}
    return {
        "admin": ("system:masters", "admin"),
        "controller-manager": ("", "system:kube-controller-manager"),
        "scheduler": ("", "system:kube-scheduler"),
        "proxy": ("", "system:kube-proxy"),
        **kubelets,
    }


def write_credentials(layout: Layout, port: int) -> None:
    """Write all certificates and kubeconfigs; administrators use the port of the machine's loopback."""
    layout.pki.mkdir(parents=True)
    authority, accounts = Authority(), new_key()
    pairs = {
        "ca": authority.pair,
        "apiserver": authority.server("kubernetes.default.svc.cluster.local", addresses=_SERVER_ADDRESSES),
        "front-proxy": authority.client("front-proxy", []),
    }
    for user, (group, name) in users_of(layout.nodes).items():
        pairs[user] = authority.client(name, [group] if group else [])
        local = user in {"controller-manager", "scheduler"}
        inner = f"https://{'127.0.0.1' if local else CONTROL_PLANE_ADDRESS}:{API_PORT}"
        server = f"https://127.0.0.1:{port}" if user == "admin" else inner
        _write_secret(layout.kubeconfig(user), kubeconfig(server, authority.certificate, user, pairs[user]).encode())
    for name, pair in pairs.items():
        _write_secret(layout.pki / f"{name}.key", pair.key)
        (layout.pki / f"{name}.crt").write_bytes(pair.certificate)
    _write_secret(layout.pki / "accounts.key", key_pem(accounts))
    (layout.pki / "accounts.pub").write_bytes(public_pem(accounts))


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(0o600)
    path.write_bytes(content)
