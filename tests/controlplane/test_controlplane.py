"""The real control plane is one: it has rules, a garbage collector, users, and leaves nothing behind."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.controlplane import kubectl, kubernetes_version
from tests.controlplane.kinds import crd
from tests.controlplane.plane import ControlPlane, CreateError, StartError

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
NAMESPACES = "/api/v1/namespaces"


@pytest.fixture
def namespace(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "t-" + request.node.name.replace("_", "-")[-50:].strip("-")
    plane.request("POST", NAMESPACES, {"metadata": {"name": name}})
    yield name
    plane.request("DELETE", f"{NAMESPACES}/{name}")


@pytest.fixture
def node(plane: ControlPlane) -> Iterator[dict[str, Any]]:
    created = plane.request("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    yield created
    plane.request("DELETE", "/api/v1/nodes/n1")


def pod(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}, "spec": {"containers": [{"name": "c", "image": "none"}]}}


def eventually(what: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


def gone(plane: ControlPlane, path: str) -> bool:
    try:
        plane.request("GET", path)
    except CreateError as refused:
        if refused.status != 404:
            raise
        return True
    return False


def test_kubectl_reads_the_version_of_the_module(plane: ControlPlane) -> None:
    program = kubectl()
    assert program is not None
    command = [str(program), f"--kubeconfig={plane.kubeconfig}", "version", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["serverVersion"]["gitVersion"] == kubernetes_version()


def test_a_validation_rule_of_a_custom_resource_is_enforced(plane: ControlPlane, namespace: str) -> None:
    """CEL is evaluated, and the object that keeps the rule is accepted."""
    integer = {"type": "integer"}
    rule = {"rule": "self.min <= self.max", "message": "min must not exceed max"}
    spec = {"type": "object", "properties": {"min": integer, "max": integer}, "x-kubernetes-validations": [rule]}
    plane.establish(crd("ranges", "Range", spec))
    path = f"/apis/example.org/v1/namespaces/{namespace}/ranges"
    body = {"apiVersion": "example.org/v1", "kind": "Range", "metadata": {"name": "r"}, "spec": {"min": 2, "max": 1}}
    with pytest.raises(CreateError, match="min must not exceed max") as refused:
        plane.request("POST", path, body)
    assert refused.value.status == 422
    assert plane.request("POST", path, body | {"spec": {"min": 1, "max": 2}})["spec"]["max"] == 2


def test_a_pod_is_bound_once(plane: ControlPlane, namespace: str, node: dict[str, Any]) -> None:
    """The node has no taint, the pod is created at once in a fresh namespace, and the second binding is a conflict."""
    assert "taints" not in node["spec"]
    pods = f"{NAMESPACES}/{namespace}/pods"
    plane.request("POST", pods, pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    plane.request("POST", f"{pods}/p/binding", binding)
    assert plane.request("GET", f"{pods}/p")["spec"]["nodeName"] == "n1"
    with pytest.raises(CreateError) as refused:
        plane.request("POST", f"{pods}/p/binding", binding)
    assert refused.value.status == 409


def test_owned_objects_are_deleted_with_their_owner(plane: ControlPlane, namespace: str) -> None:
    pods = f"{NAMESPACES}/{namespace}/pods"
    maps = f"{NAMESPACES}/{namespace}/configmaps"
    owner = plane.request("POST", maps, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    plane.request("POST", pods, pod("owned", ownerReferences=[reference]))
    plane.request("POST", pods, pod("free"))
    plane.request("DELETE", f"{maps}/owner")
    eventually(lambda: gone(plane, f"{pods}/owned"))
    assert not gone(plane, f"{pods}/free")


def test_the_pods_of_a_deleted_namespace_are_deleted(plane: ControlPlane) -> None:
    plane.request("POST", NAMESPACES, {"metadata": {"name": "short-lived"}})
    plane.request("POST", f"{NAMESPACES}/short-lived/pods", pod("p"))
    plane.request("DELETE", f"{NAMESPACES}/short-lived")
    eventually(lambda: gone(plane, f"{NAMESPACES}/short-lived"))


def test_a_user_has_only_the_permissions_of_its_role_bindings(plane: ControlPlane, namespace: str) -> None:
    """A user without a role is forbidden; the group's binding to `view` allows reading, and not writing."""
    config = plane.kubeconfig_for("jane", ["readers"])

    def jane(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = kubectl()
        assert program is not None
        command = [str(program), f"--kubeconfig={config}", f"--namespace={namespace}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert 'User "jane" cannot list resource "pods"' in jane("get", "pods").stderr
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    api = "rbac.authorization.k8s.io"
    role = {"apiGroup": api, "kind": "ClusterRole", "name": "view"}
    readers = {"apiGroup": api, "kind": "Group", "name": "readers"}
    body = {"metadata": {"name": "readers"}, "roleRef": role, "subjects": [readers]}
    plane.request("POST", bindings, body)
    eventually(lambda: jane("get", "pods").returncode == 0)
    assert jane("auth", "can-i", "delete", "pods").stdout == "no\n"


def test_kinds_present_at_startup_are_garbage_collected(plane: ControlPlane, namespace: str) -> None:
    """Otherwise the garbage collector would come to know a new kind of owner only after half a minute."""
    owners = f"/apis/example.org/v1/namespaces/{namespace}/owners"
    body = {"apiVersion": "example.org/v1", "kind": "Owner", "metadata": {"name": "o"}}
    uid = plane.request("POST", owners, body)["metadata"]["uid"]
    reference = {"apiVersion": "example.org/v1", "kind": "Owner", "name": "o", "uid": uid}
    pods = f"{NAMESPACES}/{namespace}/pods"
    plane.request("POST", pods, pod("p", ownerReferences=[reference]))
    plane.request("DELETE", f"{owners}/o")
    eventually(lambda: gone(plane, f"{pods}/p"), 20)


@pytest.mark.usefixtures("plane")
def test_a_failed_start_shows_the_logs_and_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(StartError, match=r"kube-apiserver ended(?s:.*)no-such-flag"):
        ControlPlane.start(controllers=(), apiserver_flags=["--no-such-flag"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("plane")
def test_all_processes_end_with_their_starter(tmp_path: Path) -> None:
    """SIGKILL for the starter: its programs end and its directory goes."""
    command = [sys.executable, "-m", "tests.controlplane", "up", "--no-controllers", "--no-crds"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    starter = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert starter.stdout is not None
        assert "up in" in starter.stdout.readline()
        (directory,) = tmp_path.iterdir()
        before = programs_in(directory)
    finally:
        starter.kill()
        starter.communicate()
    assert before == 3
    eventually(lambda: programs_in(directory) == 0)
    eventually(lambda: not directory.exists())


def programs_in(directory: Path) -> int:
    """Return how many processes were started with a path below `directory` in their arguments (watchdog included)."""
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(maxsplit=1) for line in listing.splitlines()]
    return sum(len(row) == 2 and not row[0].startswith("Z") and str(directory) in row[1] for row in rows)
