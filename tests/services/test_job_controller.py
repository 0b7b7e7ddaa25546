"""The job controller at work on an API server: from a BatchJob to its end, through crashes and quarrels."""

import asyncio
from random import Random

from tests.services.service_cluster import Cluster, controller, task
from volcanopy.api import names
from volcanopy.kube.cache.followed_kinds import PODS
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import COMMANDS, JOBS
from volcanopy.kube.client.raw_kinds import PODS as RAW_PODS
from volcanopy.services.controllers.controller_service import run
from volcanopy.services.controllers.jobs import is_starting, times_pending_pods

SECRETS: Kind[Json] = Kind("", "v1", "Secret", "secrets", True, dict)


WEBHOOKS: Kind[Json] = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
    dict,
)


async def test_a_job_goes_from_pending_to_completed(cluster: Cluster) -> None:
    async with controller(cluster):
        await cluster.submit("hello", task("a", 2), task("b", 1), plugins={"env": [], "svc": [], "ssh": []})
        await cluster.until(lambda: cluster.phase("hello") == "Completed")
        assert cluster.message("hello") == "3 pods succeeded"
        assert sorted(cluster.pods) == ["hello-a-0", "hello-a-1", "hello-b-0"]
        await cluster.until(lambda: "hello" not in cluster.groups)
        await cluster.until(lambda: not cluster.jobs["hello"]["status"].get("controlledResources"))
        assert (await cluster.client.list(SECRETS, cluster.namespace)).items == []


async def test_the_spec_of_the_user_is_not_changed(cluster: Cluster) -> None:
    async with controller(cluster):
        await cluster.submit("plain")
        await cluster.until(lambda: cluster.phase("plain") == "Completed")
        metadata = cluster.jobs["plain"]["metadata"]
        assert not metadata.get("annotations")
        assert not metadata.get("finalizers")
        assert metadata["generation"] == 1


async def test_a_job_that_admission_would_have_rejected_runs_or_says_which_pods_it_waits_for(cluster: Cluster) -> None:
    parts = {"totalPartitions": 2, "partitionSize": 2}
    waits, runs = 'admitted to queue "default": {} required pods started', "{} pods running"
    contradictory: dict[str, tuple[str, Json]] = {
        "minimum": (waits.format("2/9"), {"minAvailable": 9}),
        "success": (runs.format("2/2"), {"minSuccess": 9}),
        "minimum-of-a-task": (waits.format("2/3"), {"tasks": [task("a", 2, minAvailable=3)]}),
        "parallel": (waits.format("2/3"), {"tasks": [task("a", 3, parallelism=2)]}),
        "unknown": (waits.format("0/1"), {"tasks": [task("a", dependsOn={"name": ["z"]})]}),
        "itself": (waits.format("0/1"), {"tasks": [task("a", dependsOn={"name": ["a"]})]}),
        "partitions": (runs.format("3/3"), {"tasks": [task("a", 3, partitionPolicy=parts)]}),
        "minimum-of-partitions": (
            runs.format("4/4"),
            {"tasks": [task("a", 4, minAvailable=3, partitionPolicy={**parts, "minPartitions": 1})]},
        ),
        "alternative": (
            runs.format("2/2"),
            {"alternatives": [{"name": "x", "tasks": [{"name": "z", "template": {"spec": {}}}]}]},
        ),
        "l" + "o" * 60 + "ng": (runs.format("2/2"), {}),
        "with.dots": (runs.format("2/2"), {}),
    }
    cluster.ends = ""
    async with controller(cluster):
        for name, (_, spec) in contradictory.items():
            await cluster.submit(name, **{"tasks": [task("a", 2)], **spec})
        expected = {name: message for name, (message, _) in contradictory.items()}
        await cluster.until(lambda: {name: cluster.message(name) for name in expected} == expected)


async def test_ssh_keys_are_created_once_as_a_pair(cluster: Cluster) -> None:
    cluster.ends = ""
    async with controller(cluster):
        await cluster.submit("keys", plugins={"ssh": []})
        await cluster.until(lambda: cluster.phase("keys") == "Running")
        made = await cluster.client.get(SECRETS, cluster.namespace, "keys-ssh")
        assert set(made["data"]) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}
    async with controller(cluster):
        await cluster.client.patch(JOBS, cluster.namespace, "keys", {"spec": {"minAvailable": 1}})
        await cluster.until(lambda: cluster.jobs["keys"]["status"]["observedGeneration"] == 2)
        assert (await cluster.client.get(SECRETS, cluster.namespace, "keys-ssh"))["data"] == made["data"]


async def test_a_failed_pod_restarts_the_job_by_its_policy(cluster: Cluster) -> None:
    cluster.ends = ""
    async with controller(cluster):
        await cluster.submit("again", task("a", 2), policies=[{"event": "PodFailed", "action": "RestartJob"}])
        await cluster.until(lambda: cluster.phase("again") == "Running")
        await cluster.set_pod("again-a-0", "Failed", 3)
        await cluster.until(lambda: cluster.jobs["again"]["status"]["retryCount"] == 1)
        await cluster.until(lambda: cluster.phase("again") == "Running")
        births = {name: cluster.pod_births[name] for name in ("again-a-0", "again-a-1")}
        assert births == {"again-a-0": 2, "again-a-1": 2}


async def test_a_pod_with_a_field_that_cannot_be_read_is_not_taken_as_deleted(cluster: Cluster) -> None:
    cluster.ends = ""
    policies = [{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}]
    condition = {"type": "example.com/Old", "status": "True", "lastTransitionTime": "0000-01-01T00:00:00Z"}
    async with controller(cluster):
        await cluster.submit("old", task("a", 2), policies=policies)
        await cluster.until(lambda: cluster.phase("old") == "Running")
        conditions = {"status": {"conditions": [condition]}}
        await cluster.client.patch_status(RAW_PODS, cluster.namespace, "old-a-0", conditions)
        await cluster.set_pod("old-a-1", "Succeeded")
        await cluster.until(lambda: cluster.jobs["old"]["status"].get("succeeded") == 1)
        assert cluster.jobs["old"]["status"]["running"] == 1
        assert not cluster.jobs["old"]["status"].get("retryCount")
        assert cluster.pod_births["old-a-0"] == 1


async def test_suspend_and_resume_by_command(cluster: Cluster) -> None:
    cluster.ends = ""
    async with controller(cluster):
        await cluster.submit("pause", task("a", 2))
        await cluster.until(lambda: cluster.phase("pause") == "Running")
        await cluster.client.create(COMMANDS, cluster.namespace, command(cluster, "pause", "AbortJob"))
        await cluster.until(lambda: cluster.phase("pause") == "Aborted")
        await cluster.client.create(COMMANDS, cluster.namespace, command(cluster, "pause", "ResumeJob"))
        await cluster.until(lambda: cluster.phase("pause") == "Running")
        assert (await cluster.client.list(COMMANDS, cluster.namespace)).items == []


def command(cluster: Cluster, job: str, action: str) -> Json:
    """A Command for a job."""
    target = {
        "apiVersion": JOBS.api_version,
        "kind": "BatchJob",
        "name": job,
        "uid": cluster.jobs[job]["metadata"]["uid"],
    }
    return {
        "apiVersion": COMMANDS.api_version,
        "kind": "Command",
        "metadata": {"name": f"{job}-{action.lower()}", "namespace": cluster.namespace},
        "action": action,
        "target": target,
    }


async def test_a_deleted_job_leaves_nothing(cluster: Cluster) -> None:
    cluster.ends = ""
    async with controller(cluster):
        await cluster.submit("gone", task("a", 3), plugins={"svc": []})
        await cluster.until(lambda: cluster.phase("gone") == "Running")
        await cluster.client.delete(JOBS, cluster.namespace, "gone", propagation="Background")
        await cluster.until(lambda: not cluster.pods and not cluster.groups)


async def test_a_job_is_deleted_when_its_time_to_live_is_over(cluster: Cluster) -> None:
    async with controller(cluster):
        await cluster.submit("brief", ttlSecondsAfterFinished=0)
        await cluster.until(lambda: "brief" in cluster.jobs)
        await cluster.until(lambda: "brief" not in cluster.jobs)


async def test_a_job_that_a_policy_completes_is_dismantled_and_deleted_after_its_time_to_live(cluster: Cluster) -> None:
    """The PodGroup is gone before the job is Completed, so that no event but the job's own status follows."""
    cluster.ends = ""
    policy = {"event": "PodFailed", "action": "CompleteJob"}
    async with controller(cluster):
        await cluster.submit("kept", task("a", 2), policies=[policy], plugins={"svc": []})
        await cluster.submit("brief", task("a", 2), policies=[policy], ttlSecondsAfterFinished=1)
        await cluster.until(lambda: cluster.phase("kept") == cluster.phase("brief") == "Running")
        await cluster.set_pod("kept-a-0", "Failed", 3)
        await cluster.set_pod("brief-a-0", "Failed", 3)
        await cluster.until(lambda: "brief" not in cluster.jobs)
        await cluster.until(lambda: cluster.phase("kept") == "Completed")
        await cluster.until(lambda: not cluster.jobs["kept"]["status"].get("controlledResources"))


async def test_a_name_conflict_is_reported_in_the_job_status(cluster: Cluster) -> None:
    cluster.ends = ""
    spec = {"containers": [{"name": "c", "image": "busybox"}]}
    foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "taken-a-0"}, "spec": spec}
    await cluster.client.create(PODS.raw, cluster.namespace, foreign)
    async with controller(cluster):
        await cluster.submit("taken")
        says = "Pod taken-a-0 exists and does not belong to this job: delete it"
        await cluster.until(lambda: cluster.message("taken") == says)
        await cluster.client.delete(PODS.raw, cluster.namespace, "taken-a-0", grace=0)
        await cluster.until(lambda: cluster.phase("taken") == "Running")


async def test_a_job_waits_in_its_queue_while_a_pod_of_an_earlier_job_terminates_and_names_it(cluster: Cluster) -> None:
    cluster.ends = ""
    spec = {"containers": [{"name": "c", "image": "busybox"}]}
    metadata = {"name": "again-a-0", "finalizers": ["example.com/keep"]}
    await cluster.client.create(
        PODS.raw, cluster.namespace, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    )
    await cluster.client.delete(PODS.raw, cluster.namespace, "again-a-0", grace=0)
    async with controller(cluster):
        await cluster.submit("again", task("a", 2), minAvailable=2)
        await cluster.until(lambda: cluster.message("again") == "Pod again-a-0 of an earlier job is being deleted")
        assert (await cluster.group("again"))["spec"]["minMember"] == 2
        await cluster.client.patch(PODS.raw, cluster.namespace, "again-a-0", {"metadata": {"finalizers": None}})
        await cluster.until(lambda: cluster.phase("again") == "Running")


async def test_a_job_waits_in_its_queue_while_a_webhook_for_pods_cannot_be_called_and_names_it(
    cluster: Cluster,
) -> None:
    cluster.ends = ""
    name = f"{cluster.namespace}.policy.example.com"
    hook = {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
    }
    await cluster.client.create(WEBHOOKS, None, {"metadata": {"name": name}, "webhooks": [hook]})
    async with controller(cluster):
        await cluster.submit("waits", task("a", 2), minAvailable=2)
        await cluster.until(lambda: f'failed calling webhook "{name}"' in cluster.message("waits"))
        assert (await cluster.group("waits"))["spec"]["minMember"] == 2
        await cluster.client.delete(WEBHOOKS, None, name)
        await cluster.until(lambda: cluster.phase("waits") == "Running")


async def test_a_repeatedly_killed_controller_neither_loses_nor_duplicates_pods(cluster: Cluster) -> None:
    random = Random(5)
    submitted = [f"gang-{number}" for number in range(20)]
    for name in submitted:
        await cluster.submit(name, task("a", 3), plugins={"svc": []})

    def over() -> bool:
        return all(cluster.phase(name) == "Completed" for name in submitted)

    kills = 0
    while not over() and kills < 6:
        running = asyncio.create_task(run(cluster.connection, stop=asyncio.Event()))
        with_luck = asyncio.create_task(cluster.until(over, 120))
        await asyncio.wait({with_luck}, timeout=random.uniform(0.1, 1.2))
        with_luck.cancel()
        running.cancel()
        await asyncio.gather(running, with_luck, return_exceptions=True)
        kills += 1
    async with controller(cluster):
        await cluster.until(over, 60)
    assert kills
    assert len(cluster.pod_births) == 60
    assert set(cluster.pod_births.values()) == {1}
    assert {cluster.jobs[name]["status"]["retryCount"] for name in submitted} == {0}


async def test_pods_have_owner_labels(cluster: Cluster) -> None:
    cluster.ends = ""
    async with controller(cluster):
        await cluster.submit("mine")
        await cluster.until(lambda: cluster.phase("mine") == "Running")
        pod = cluster.pods["mine-a-0"]
        assert pod["metadata"]["annotations"][names.GROUP_NAME] == (await cluster.group("mine"))["metadata"]["name"]
        assert pod["metadata"]["ownerReferences"][0]["uid"] == cluster.jobs["mine"]["metadata"]["uid"]


def test_the_first_status_of_a_job_waits_for_its_start_unless_it_waits_for_something_else() -> None:
    started, waiting = (
        {"state": {"phase": "Pending", "reason": reason}} for reason in ("WaitingForPods", "NotAdmitted")
    )
    assert is_starting({}, started)
    assert not is_starting({}, waiting)
    assert not is_starting({"status": waiting}, started)


def test_a_job_is_planned_soon_after_its_pods_are_created_if_a_policy_times_how_long_they_are_pending() -> None:
    def timed(of_job: Json, of_task: Json) -> bool:
        return times_pending_pods({"spec": {"policies": [of_job], "tasks": [{"policies": [of_task]}]}})

    failed, pending = {"event": "PodFailed"}, {"event": "PodPending", "timeout": "10s"}
    assert timed(pending, failed)
    assert timed(failed, {"events": ["PodFailed", "PodPending"], "timeout": "10s"})
    assert not timed(failed, {"event": "*"})
    assert not times_pending_pods({"spec": {"tasks": [{"name": "a"}]}})
