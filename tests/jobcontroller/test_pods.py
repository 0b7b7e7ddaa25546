"""Exactly how pods are made."""

from typing import Any

import pytest

from tests.jobcontroller.world import World, job, task
from volcanopy.api import names
from volcanopy.jobcontroller.plugins.ssh import Ssh


def pods_of(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The pods of a job that is admitted."""
    return World(manifest).settle().admit().settle().pods


def test_the_composed_example() -> None:
    worker = task("gpu-worker", 2)
    worker["template"]["metadata"] = {"labels": {"app": "x"}, "annotations": {"note": "y"}}
    manifest = job(
        task("ps"),
        worker,
        name="tf",
        queue="q1",
        plugins={"env": [], "svc": [], "ssh": []},
        annotations={"volcanopy.io/preemptable": "true", "other": "no"},
        priorityClassName="high",
    )
    pod = pods_of(manifest)["tf-gpu-worker-1"]
    assert pod["metadata"]["labels"] == {
        "app": "x",
        "volcanopy.io/task-index": "1",
        "volcanopy.io/task-spec": "gpu-worker",
        "volcanopy.io/job-name": "tf",
        "volcanopy.io/job-namespace": "ns",
        "volcanopy.io/queue-name": "q1",
    }
    assert pod["metadata"]["annotations"] == {
        "note": "y",
        "scheduling.k8s.io/group-name": "tf-u1",
        "volcanopy.io/preemptable": "true",
    }
    spec = pod["spec"]
    assert (spec["schedulerName"], spec["hostname"], spec["subdomain"]) == ("volcanopy", "tf-gpu-worker-1", "tf")
    assert (spec["priorityClassName"], spec["restartPolicy"]) == ("high", "Never")

    def from_hosts(key: str) -> dict[str, Any]:
        return {"name": key, "valueFrom": {"configMapKeyRef": {"name": "tf-svc", "key": key}}}

    container = spec["containers"][0]
    assert container["env"] == [
        {"name": "VK_TASK_INDEX", "value": "1"},
        {"name": "VC_TASK_INDEX", "value": "1"},
        *map(from_hosts, ("VC_PS_HOSTS", "VC_PS_NUM", "VC_GPU_WORKER_HOSTS", "VC_GPU_WORKER_NUM")),
    ]
    assert container["volumeMounts"] == [
        {"name": "tf-svc", "mountPath": "/etc/volcano"},
        {"name": "tf-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"},
    ]
    assert spec["volumes"][1]["secret"]["defaultMode"] == 0o600


@pytest.mark.parametrize(("queue", "noted"), [("q" * 63, False), ("q" * 64, True)])
def test_a_queue_whose_name_is_too_long_for_a_label_is_an_annotation(queue: str, noted: bool) -> None:
    metadata = pods_of(job(task("a"), queue=queue))["job-a-0"]["metadata"]
    assert (names.QUEUE_NAME in metadata["labels"], names.QUEUE_NAME in metadata["annotations"]) == (not noted, noted)


def test_the_objects_of_svc() -> None:
    world = World(job(task("ps"), task("gpu-worker", 2), name="tf", plugins={"svc": []})).settle()
    assert world.objects["ConfigMap/tf-svc"]["data"] == {
        "ps.host": "tf-ps-0.tf",
        "VC_PS_HOSTS": "tf-ps-0.tf",
        "VC_PS_NUM": "1",
        "gpu_worker.host": "tf-gpu-worker-0.tf\ntf-gpu-worker-1.tf",
        "VC_GPU_WORKER_HOSTS": "tf-gpu-worker-0.tf,tf-gpu-worker-1.tf",
        "VC_GPU_WORKER_NUM": "2",
    }
    selector = {"volcanopy.io/job-name": "tf", "volcanopy.io/job-namespace": "ns"}
    assert world.objects["Service/tf"]["spec"] == {
        "clusterIP": "None",
        "selector": selector,
        "publishNotReadyAddresses": False,
    }
    policy = world.objects["NetworkPolicy/tf"]["spec"]
    assert policy["ingress"] == [{"from": [{"podSelector": {"matchLabels": selector}}]}]
    assert world.status["controlledResources"] == {"plugin-svc": "svc"}


def test_scaling_updates_only_the_hosts() -> None:
    world = World(job(task(replicas=1), plugins={"svc": ["--disable-network-policy"], "ssh": []})).started()
    config = dict(world.objects["Secret/job-ssh"]["stringData"])
    world.edit(tasks=[task(replicas=2)])
    assert [str(effect) for effect in world.plan().effects if str(effect).startswith("apply")] == [
        "apply ConfigMap/job-svc"
    ]
    world.settle()
    assert world.objects["Secret/job-ssh"]["stringData"] == config
    assert world.objects["ConfigMap/job-svc"]["data"]["VC_A_NUM"] == "2"
    assert "NetworkPolicy/job" not in world.objects


def test_a_fixed_hostname_gives_one_host() -> None:
    fixed = task("a", 2)
    fixed["template"]["spec"] |= {"hostname": "h", "subdomain": "d"}
    world = World(job(fixed, plugins={"svc": [], "ssh": []})).settle()
    assert world.objects["ConfigMap/job-svc"]["data"]["VC_A_HOSTS"] == "h.d"
    assert "Host h\n  HostName h.d\n  Port 22\n" in world.objects["Secret/job-ssh"]["stringData"]["config"]


def test_ssh_matches_the_longest_task_name_first() -> None:
    world = World(job(task("a"), task("a-b"), plugins={"ssh": ["--ssh-port=2022"]})).settle()
    config = world.objects["Secret/job-ssh"]["stringData"]["config"]
    assert config.index("Host job-a-b-*") < config.index("Host job-a-*")
    assert "Port 2022" in config


def test_given_ssh_keys_are_used() -> None:
    plugins = {"ssh": ["--ssh-private-key=private", "--ssh-public-key", "public"]}
    world = World(job(plugins=plugins)).settle()
    data = world.objects["Secret/job-ssh"]["stringData"]
    assert (data["id_rsa"], data["authorized_keys"]) == ("private\n", "public\n")
    assert Ssh.name == "ssh"


def test_partitions_are_labelled() -> None:
    policy = {"totalPartitions": 3, "partitionSize": 2}
    pods = pods_of(job(task(replicas=6, partitionPolicy=policy)))
    ids = [pods[f"job-a-{index}"]["metadata"]["labels"]["volcanopy.io/partition-id"] for index in range(6)]
    assert ids == ["0", "0", "1", "1", "2", "2"]


def test_volumes_are_mounted_in_every_container_and_claims_created_once() -> None:
    volumes = [
        {"mountPath": "/data", "volumeClaimName": "mine"},
        {"mountPath": "/more", "volumeClaimName": "mine"},
        {"mountPath": "/new", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
    ]
    world = World(job(volumes=volumes)).settle().admit().settle()
    spec = world.pods["job-a-0"]["spec"]
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"]] == ["mine", "job-volume-2"]
    assert [volume_mount["mountPath"] for volume_mount in spec["containers"][0]["volumeMounts"]] == [
        "/data",
        "/more",
        "/new",
    ]
    assert world.objects["PersistentVolumeClaim/job-volume-2"]["spec"] == {"accessModes": ["ReadWriteOnce"]}


def test_template_fields_precede_job_fields() -> None:
    own = task()
    own["template"]["spec"] |= {"schedulerName": "other", "priorityClassName": "low", "restartPolicy": "OnFailure"}
    spec = pods_of(job(own, priorityClassName="high"))["job-a-0"]["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"], spec["restartPolicy"]) == ("other", "low", "OnFailure")


def test_a_disruption_budget_is_copied_with_one_of_its_two_fields() -> None:
    notes = {"volcanopy.io/jdb-min-available": "1", "volcanopy.io/jdb-max-unavailable": "2"}
    annotations = pods_of(job(annotations=notes))["job-a-0"]["metadata"]["annotations"]
    assert [key for key in annotations if "jdb" in key] == ["volcanopy.io/jdb-min-available"]
