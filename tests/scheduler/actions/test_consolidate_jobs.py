"""consolidate together with the job controller: it creates the moved pods again, and they run on their reserved nodes."""

from typing import Any

from tests.scheduler.actions.test_consolidate import config
from volcanopy.scheduler.model.plan import Evict
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.engine import Budget, Engine
from volcanopy_testing.notation import NOW, world


def batch_job(name: str, cpu: int, replicas: int, **annotations: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": NOW.isoformat(),
            "annotations": {f"volcanopy.io/{key}": text for key, text in annotations.items()},
        },
        "spec": {
            "minAvailable": replicas,
            "tasks": [{"name": "w", "replicas": replicas, "template": {"spec": {"containers": [container]}}}],
        },
    }


def test_moved_pods_of_a_job_are_created_again_and_the_gang_starts() -> None:
    """Gangs of two spread over the nodes; one moves whole, so that another gang gets two empty nodes."""
    cluster = Cluster(world("node n1 cpu=4\nnode n2 cpu=4\nnode n3 cpu=4\nnode n4 cpu=4"))
    engine = Engine(cluster, config(after="0s"), NOW)
    for job in (batch_job("a", 2, 2, movable="true"), batch_job("b", 2, 2)):
        cluster.put_manifest(job)
    engine.settle()
    engine.run(Budget(20), frozenset())
    before = {pod.metadata.name: (pod.spec.node_name, pod.metadata.uid) for pod in cluster.of_kind("Pod").values()}
    assert len({node for node, _ in before.values()}) == 4
    cluster.put_manifest(batch_job("g", 4, 2))
    engine.settle()
    result = engine.run(Budget(40), frozenset())
    after = {pod.metadata.name: pod.spec.node_name for pod in cluster.of_kind("Pod").values()}
    evictions = [effect for plan in result.plans for effect in plan.of(Evict)]
    assert sorted(effect.pod for effect in evictions) == ["default/a-w-0", "default/a-w-1"]
    assert all(after[effect.pod.removeprefix("default/")] == effect.moved_to for effect in evictions)
    assert sorted(after) == ["a-w-0", "a-w-1", "b-w-0", "b-w-1", "g-w-0", "g-w-1"]
    assert all(after.values())
    assert len({after["g-w-0"], after["g-w-1"]}) == 2
    assert {name: after[name] for name in ("b-w-0", "b-w-1")} == {name: before[name][0] for name in ("b-w-0", "b-w-1")}
    job = cluster.objects["BatchJob", "default/a"]
    assert job["status"]["state"]["phase"] == "Running"
    assert job["status"].get("retryCount", 0) == 0
