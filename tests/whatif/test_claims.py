"""Volumes, devices and cpus of jobs in what-if questions: those of a bind are taken, those of a pod that ends are free."""

from datetime import timedelta
from typing import Any

import pytest

from tests.whatif.asking import ask, batch_job, bodies, find, job, remedies
from volcanopy.scheduler.model.plan import Bind, Evict
from volcanopy.whatif.expected import StartEstimate
from volcanopy.whatif.starts import Start
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import NOW, config, world

DEVICE = """
node n1 cpu=4
deviceclass gpu driver=gpu.example.com
devices n1 count=1
claim a-0-gpu class=gpu owner=a-0 {of_a}
claim b-0-gpu class=gpu owner=b-0
"""
WAITING = DEVICE.format(of_a="")
RUNNING = DEVICE.format(of_a="has=n1/0 users=a-0")


def test_two_new_jobs_do_not_get_one_device() -> None:
    text = WAITING + "job a: 1 x cpu=1 template=gpu\njob b: 1 x cpu=1 template=gpu"
    first, second = job(text, "a"), job(text, "b")
    assert (first.start, second.start) == (Start.NOW, Start.AFTER)
    assert second.after == ('job "a" (waiting)',)


def test_two_new_jobs_do_not_get_one_volume() -> None:
    text = """
    node n1 cpu=4
    storageclass local waits
    pv v1 size=10Gi class=local on=n1
    pvc one size=1Gi class=local
    pvc two size=1Gi class=local
    job a: 1 x cpu=1 pvc=one
    job b: 1 x cpu=1 pvc=two
    """
    assert job(text, "a").start is Start.NOW
    assert job(text, "b").start is not Start.NOW


def test_each_pod_of_a_new_job_gets_a_device_by_the_template_that_it_names() -> None:
    text = "node n1 cpu=4\ndeviceclass gpu driver=gpu.example.com\ndevices n1 count=2"
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    pod = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}
    assert job(text, "pair", None, template, batch_job("pair", 2, pod=pod)).start is Start.NOW
    assert job(text, "three", None, template, batch_job("three", 3, pod=pod)).start is Start.NEVER


def test_a_job_starts_after_the_one_that_has_its_device() -> None:
    text = RUNNING + "job a phase=Running: 1 x cpu=1 template=gpu on=n1\njob b: 1 x cpu=1 template=gpu"
    answer = job(text, "b")
    assert (answer.start, answer.after) == (Start.AFTER, ('job "a" (cpu 1)',))
    assert 'end of job "a" (cpu 1)' in remedies(text, "b")


def test_a_job_starts_after_the_one_that_has_its_cpus() -> None:
    """The report of a node lists the cpus of a pod until its agent has noticed the end."""
    text = """
    node n1 cpu=8
    numa n1 cpus=2x4 policy=single-numa-node manager=static
    job a phase=Running: 1 x cpu=4 memory=1Gi guaranteed on=n1 started=60 note.volcanopy.io/max-runtime=1h
    job b: 2 x cpu=4 memory=1Gi guaranteed note.volcanopy.io/numa-topology-policy=single-numa-node
    """
    cpus = [{"name": "main", "allocations": {"cpu": "0-3"}}]
    report = {"uid": "uid-default-a-0", "namespace": "default", "name": "a-0", "containerAllocations": cpus}
    manifests = bodies(text)
    manifests[1]["spec"]["podAllocations"] = [report]
    answer = find(ask(manifests, config("priority, gang, predicates, numa-aware")), "b")
    assert answer is not None
    assert answer.estimate == StartEstimate(NOW + timedelta(minutes=59), "walltime")


def test_an_evicted_pod_gets_a_device_again_when_the_preemptor_has_ended() -> None:
    text = (
        "class low value=1\nclass high value=9\n"
        + RUNNING
        + "job a min=0 priority=low phase=Running: 1 x cpu=1 template=gpu on=n1 priority=1\n"
        + "job b priority=high: 1 x cpu=1 template=gpu priority=9"
    )
    simulation = Simulation(world(text), config("priority, gang, predicates", "enqueue, allocate, preempt"))
    plans = [*simulation.cycles(5)]
    assert [str(effect) for plan in plans for effect in plan.of(Bind, Evict)] == [
        "evict a-0: preempt",
        "bind b-0 -> n1 (b-0-gpu=0)",
    ]
    simulation.cluster.remove("Pod", "default/b-0")
    assert [str(bind) for plan in simulation.cycles(5) for bind in plan.of(Bind)] == ["bind a-0 -> n1 (a-0-gpu=0)"]


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CLASS = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "disks.example.com"}


def storage_class(name: str, created: str, zone: str, mode: str) -> dict[str, Any]:
    """A default class, whose volumes are in one zone."""
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    term = {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": [zone]}]}
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": created}
    return CLASS | {"metadata": metadata, "volumeBindingMode": mode, "allowedTopologies": [term]}


@pytest.mark.parametrize("mode", ["Immediate", "WaitForFirstConsumer"])
@pytest.mark.parametrize("volume", ["of the job", "of the pods", "new"])
def test_claims_of_a_new_job_get_volumes_of_the_default_class(mode: str, volume: str) -> None:
    """The class that was created last is the default one."""
    classes = [
        storage_class("a", "2029-01-01T00:00:00Z", "a", mode),
        storage_class("b", "2029-02-01T00:00:00Z", "b", mode),
    ]
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": CLAIM}
    volumes = {
        "of the pods": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}],
        "new": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    pod = {"volumes": volumes.get(volume, [])}
    of_job: dict[str, Any] = (
        {"volumes": [{"mountPath": "/data", "volumeClaim": CLAIM}]} if volume == "of the job" else {}
    )
    new = [*classes, *([claim] if volume == "new" else []), batch_job("train", 2, pod=pod, **of_job)]
    answer = job("node n1 cpu=4 zone=a\nnode n2 cpu=4 zone=b", "train", None, *new)
    assert (answer.start, answer.nodes) == (Start.NOW, ("n2",))


def test_a_claim_of_a_new_job_that_the_api_server_rejects_is_the_headline() -> None:
    volumes = [{"mountPath": "/data", "volumeClaim": {"accessModes": "ReadWriteOnce"}}]
    answer = job("node n1 cpu=4", "train", None, batch_job("train", 2, volumes=volumes))
    assert answer.start is Start.NEVER
    assert answer.message == 'PersistentVolumeClaim "train-volume-0": spec.accessModes must be a list, not text'


@pytest.mark.parametrize(("zones", "helps"), [("", True), (" zones=a", True), (" zones=b", False)])
def test_a_job_whose_claim_is_bound_at_once_waits_for_the_provisioner(zones: str, helps: bool) -> None:
    text = f"""
    node n1 cpu=4 zone=a
    storageclass fast provisioner=disks.example.com{zones}
    pvc data size=1Gi class=fast
    """
    pod = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    for answer in job(text + "job w: 1 x cpu=1 pvc=data", "w"), job(text, "new", None, batch_job("new", pod=pod)):
        assert answer.message.endswith("pod has unbound immediate PersistentVolumeClaims")
        provisioned = [remedy.text for remedy in answer.remedies if remedy.kind == "volume"]
        assert provisioned == ['provisioning of a volume for PersistentVolumeClaim "data"'] * helps


def test_a_claim_without_a_provisioner_gets_no_volume() -> None:
    text = "node n1 cpu=4\npvc data size=1Gi class=manual\njob w: 1 x cpu=1 pvc=data"
    assert remedies(text, "w") == ['remove the volume "data"']
