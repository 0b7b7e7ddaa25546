"""The chart on API servers: applied, applied again, installed, upgraded and taken away."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_apiserver.server import ApiServer
from tests.charts.rendering import CHART, NAMESPACE, RELEASE, Json, RenderError, need_helm, one, render, run_helm
from tests.controlplane.plane import ControlPlane, CreateError
from volcanopy_local.cluster import self_signed

HOOKS = "/apis/admissionregistration.k8s.io/v1"
OURS = f"/api/v1/namespaces/{NAMESPACE}"


async def apply(kubectl: Path, kubeconfig: Path, objects: list[Json], *how: str) -> dict[str, str]:
    """Apply objects as an administrator does; gives for each what changes when it is written otherwise."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    text = "\n".join(json.dumps(each) for each in [namespace, *objects])
    command = [str(kubectl), f"--kubeconfig={kubeconfig}", "apply", "--filename=-", "--output=json", *how]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    said, wrong = await process.communicate(text.encode())
    assert process.returncode == 0, wrong.decode()
    items = json.loads(said)["items"]
    assert len(items) == len(objects) + 1
    # A status that somebody writes meanwhile moves the resource version, not the generation.
    return {
        f"{each['kind']} {each['metadata']['name']}": str(
            each["metadata"].get("generation") or each["metadata"]["resourceVersion"]
        )
        for each in items
    }


async def test_the_chart_is_applied_twice_to_the_embedded_server(kubectl_program: Path, tmp_path: Path) -> None:
    objects = render(crds=True)
    server = await ApiServer.start(tls=self_signed())
    try:
        config = tmp_path / "kubeconfig"
        config.write_text(server.kubeconfig())
        assert await apply(kubectl_program, config, objects) == await apply(kubectl_program, config, objects)
    finally:
        await server.stop()


async def test_helm_installs_upgrades_and_uninstalls_the_chart_on_the_embedded_server(tmp_path: Path) -> None:
    need_helm()
    server = await ApiServer.start(tls=self_signed())
    config = tmp_path / "kubeconfig"
    config.write_text(server.kubeconfig())

    async def helm(*arguments: str) -> str:
        command = [*arguments, f"--namespace={NAMESPACE}"]
        return await asyncio.to_thread(run_helm, *command, kubeconfig=config)

    try:
        assert "NOTES:" in await helm("install", RELEASE, str(CHART), "--create-namespace")
        await helm("upgrade", RELEASE, str(CHART), "--set=admission.replicas=3")
        deployment = server.context.store.bucket("deployments.apps").get(NAMESPACE, "volcanopy-admission")
        assert deployment is not None
        assert deployment.body["spec"]["replicas"] == 3
        await helm("uninstall", RELEASE)
        assert list(server.context.store.bucket("deployments.apps").entries()) == []
    finally:
        await server.stop()


@pytest.fixture
def plane(real_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A real API server, of which a release is taken away at the end, whatever became of it."""
    need_helm()
    yield real_control_plane
    run_helm(
        "uninstall", RELEASE, f"--namespace={NAMESPACE}", "--ignore-not-found", kubeconfig=real_control_plane.kubeconfig
    )


def helm(plane: ControlPlane, *arguments: str, values: Json | None = None) -> str:
    given = ["--values=-"] if values is not None else []
    command = [*arguments, f"--namespace={NAMESPACE}", *given]
    return run_helm(*command, values=json.dumps(values or {}), kubeconfig=plane.kubeconfig)


def missing(plane: ControlPlane, path: str) -> bool:
    try:
        plane.request("GET", path)
    except CreateError as refused:
        return refused.status == 404
    return False


@pytest.mark.real
async def test_the_chart_is_applied_twice_to_a_real_server_with_strict_validation(
    plane: ControlPlane, kubectl_program: Path
) -> None:
    """No field that it does not know. Afterwards the same objects are deleted."""
    objects = render()
    config = plane.kubeconfig
    try:
        first = await apply(kubectl_program, config, objects, "--validate=strict")
        assert await apply(kubectl_program, config, objects, "--validate=strict") == first
    finally:
        command = [str(kubectl_program), f"--kubeconfig={config}", "delete", "--filename=-", "--wait=false"]
        deleting = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await deleting.communicate(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode())


@pytest.mark.real
def test_a_release_is_upgraded_rolled_back_and_uninstalled_completely(plane: ControlPlane) -> None:
    notes = helm(plane, "install", RELEASE, str(CHART), "--create-namespace").partition("NOTES:")[2]
    assert "2 scheduler(s), 2 controller(s), 2 admission server(s)" in notes
    assert f"kubectl --namespace {NAMESPACE} rollout status deployment" in notes
    assert "WITHOUT ADMISSION" not in notes

    # What admission fills in stays as it is when the release is upgraded.
    secret, configuration = (
        f"{OURS}/secrets/volcanopy-admission-certificates",
        "validatingwebhookconfigurations/volcanopy-admission",
    )
    merge = "application/merge-patch+json"
    plane.request("PATCH", secret, {"data": {"ca.crt": "eHg="}}, merge)
    webhook = {
        "name": "x.volcanopy.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
    }
    plane.request("PATCH", f"{HOOKS}/{configuration}", {"webhooks": [webhook]}, merge)
    changed = {"scheduler": {"config": {"actions": "enqueue, allocate"}}}
    notes = helm(plane, "upgrade", RELEASE, str(CHART), values=changed).partition("NOTES:")[2]
    assert "Helm does not upgrade CRDs" in notes
    assert "kubectl apply --server-side --force-conflicts --filename charts/volcanopy/crds" in notes
    assert plane.request("GET", secret)["data"] == {"ca.crt": "eHg="}
    assert [each["name"] for each in plane.request("GET", f"{HOOKS}/{configuration}")["webhooks"]] == ["x.volcanopy.io"]
    result = plane.request("GET", f"{OURS}/configmaps/volcanopy-scheduler")
    assert result["data"] == one(render(changed), "ConfigMap", "volcanopy-scheduler")["data"]

    # A rollback restores the values, and keeps what admission has filled in, too.
    helm(plane, "rollback", RELEASE, "1")
    result = plane.request("GET", f"{OURS}/configmaps/volcanopy-scheduler")
    assert result["data"] == one(render(), "ConfigMap", "volcanopy-scheduler")["data"]
    assert plane.request("GET", secret)["data"] == {"ca.crt": "eHg="}
    assert [each["name"] for each in plane.request("GET", f"{HOOKS}/{configuration}")["webhooks"]] == ["x.volcanopy.io"]

    # The kinds, and with them everybody's jobs, stay.
    helm(plane, "uninstall", RELEASE)
    assert missing(plane, secret)
    assert missing(plane, f"{HOOKS}/{configuration}")
    assert not missing(plane, "/apis/batch.volcanopy.io/v1alpha1/batchjobs")
    for kind in ("clusterroles", "clusterrolebindings"):
        path = f"/apis/rbac.authorization.k8s.io/v1/{kind}?labelSelector=app.kubernetes.io/instance={RELEASE}"
        assert plane.request("GET", path)["items"] == []


@pytest.mark.real
def test_a_second_release_in_the_same_cluster_is_rejected(plane: ControlPlane) -> None:
    """There is one set of webhooks and one tree of queues in a cluster."""
    helm(plane, "install", RELEASE, str(CHART), "--create-namespace")
    names = {
        "fullnameOverride": "second",
        "priorityClasses": dict.fromkeys(("volcanopy-high", "volcanopy-normal", "volcanopy-low")),
    }
    command = ["install", "second", str(CHART), "--namespace=default", "--values=-"]
    with pytest.raises(
        RenderError, match=r'WebhookConfiguration "volcanopy-admission".* exists and cannot be imported'
    ):
        run_helm(*command, values=json.dumps(names), kubeconfig=plane.kubeconfig)


@pytest.mark.real
def test_the_notes_warn_if_admission_is_disabled(plane: ControlPlane) -> None:
    notes = helm(plane, "install", RELEASE, str(CHART), "--dry-run=client", values={"admission": {"enabled": False}})
    assert "WITHOUT ADMISSION" in notes
