"""Names of pods and Services are addresses for programs that cannot resolve them."""

from pathlib import Path

import pytest

from tests.local.process.conftest import ProcessCluster, runtime_named
from volcanopy_local.cluster import LocalCluster, Parts
from volcanopy_local.process import machine
from volcanopy_local.process.kubelet import ProcessSettings
from volcanopy_local.process.plain_names import PlainNames

ADDRESSES = {("ring-worker-0", "ring", "lab"): "127.1.0.1", ("ring-worker-1", "ring", "lab"): "127.1.0.2"}
NAMES = PlainNames(
    "lab",
    {("lab", "ring"), ("other", "ring")},
    {("lab", "web"): ["127.1.0.9"], ("lab", "ring"): ["127.1.0.1", "127.1.0.2"]},
    lambda host, subdomain, namespace: ADDRESSES.get((host, subdomain, namespace), "127.9.9.9"),
)


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("ring-worker-0.ring,ring-worker-1.ring", "127.1.0.1,127.1.0.2"),
        ("ring-worker-1.ring.lab.svc.cluster.local:29500", "127.1.0.2:29500"),
        ("a pod that does not exist yet: ring-worker-7.ring.", "a pod that does not exist yet: 127.9.9.9."),
        ("ring-worker-0.ring slots=2", "127.1.0.1 slots=2"),
        ("web", "127.1.0.9"),
        ("http://web/x and web:80 and web.lab.svc", "http://127.1.0.9/x and 127.1.0.9:80 and 127.1.0.9"),
    ],
)
def test_names_that_a_cluster_resolves_are_replaced(text: str, replaced: str) -> None:
    assert NAMES.replaced(text) == replaced


@pytest.mark.parametrize(
    "text",
    [
        "ring",
        "model.ring()",
        "import web",
        "the web-server",
        "/data/ring-worker-0.ring/x",
        "ring-worker-0",
        "my_web:80",
        "1.5",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert NAMES.replaced(text) == text


@pytest.mark.parametrize("text", ["http://late/x", "late:80", "late.lab.svc", "late"])
def test_a_service_without_pods_is_noted_where_its_name_is_used(text: str) -> None:
    names = PlainNames("lab", set(), {("lab", "late"): []}, lambda host, subdomain, namespace: "127.9.9.9")
    assert names.replaced(text) == text
    assert names.without_addresses == {("lab", "late")}
    names = PlainNames("lab", set(), {("lab", "late"): []}, lambda host, subdomain, namespace: "127.9.9.9")
    assert names.replaced("too late for that") == "too late for that"
    assert not names.without_addresses


async def test_a_pod_that_uses_such_a_name_gets_one_event(open_folder: Path) -> None:
    late = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "late", "namespace": "default"},
        "spec": {"selector": {"app": "late"}, "ports": [{"port": 80}]},
    }
    settings = ProcessSettings(open_folder / "run", open_folder / "claims", runtime_named("plain"))
    parts = Parts(scheduler=None, controller=None, admission=None, process=settings)
    async with LocalCluster(0, objects=[*machine.manifests(1, 4, 8 << 30), late], parts=parts) as local:
        cluster = ProcessCluster(local, open_folder)
        env = [{"name": "FIRST", "value": "http://late:80"}, {"name": "SECOND", "value": "late.default.svc"}]
        await cluster.run("p", "true", env=env)
        reasons = [event["reason"] for event in await cluster.events("p", 2)]
    assert sorted(reasons) == ["NameNotResolved", "Started"]
