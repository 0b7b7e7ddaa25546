"""What the controllers of workloads decide from an object and its pods."""

import itertools
from typing import Any

import pytest

from volcanopy.kube.client.kinds import Json
from volcanopy_local.workloads import deployment, job, plan, replica_set, stateful_set
from volcanopy_local.workloads.plan import Effect, ObjectCreation, ObjectDeletion, SetStatus, Update, template_hash

NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:10:00Z"
_uids = itertools.count(1)


def workload(kind: str, name: str = "w", status: Json | None = None, **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "n", "uid": f"{kind}-{name}", "generation": 1},
        "spec": {"template": template, **spec},
        "status": status or {},
    }


def pod(
    owner: Json, name: str = "", phase: str = "Running", *, ready: bool = True, deleted: bool = False, **metadata: Any
) -> Json:
    number = next(_uids)
    made = {
        "name": name or f"p{number}",
        "namespace": "n",
        "uid": f"u{number}",
        "creationTimestamp": NOW,
        "ownerReferences": [{"uid": owner["metadata"]["uid"], "controller": True}],
        **metadata,
    }
    if deleted:
        made["deletionTimestamp"] = NOW
    conditions = [{"type": "Ready", "status": "True" if ready and phase == "Running" else "False"}]
    return {"metadata": made, "spec": {"nodeName": "n1"}, "status": {"phase": phase, "conditions": conditions}}


def created(effects: list[Effect]) -> int:
    return sum(isinstance(effect, ObjectCreation) and effect.kind == "Pod" for effect in effects)


def deleted(effects: list[Effect]) -> list[str]:
    return [effect.body["metadata"]["name"] for effect in effects if isinstance(effect, ObjectDeletion)]


def status_of(effects: list[Effect]) -> Json:
    return next((effect.status for effect in effects if isinstance(effect, SetStatus)), {})


# ReplicaSets


def test_missing_pods_are_created_and_those_that_ended_replaced() -> None:
    owner = workload("ReplicaSet", replicas=3)
    effects = replica_set.reconcile(owner, [pod(owner), pod(owner, phase="Failed"), pod(owner, deleted=True)])
    assert (created(effects), status_of(effects)["replicas"]) == (2, 1)


def test_surplus_pods_that_are_not_ready_are_deleted_first() -> None:
    owner = workload("ReplicaSet", replicas=1)
    pods = [pod(owner, "a"), pod(owner, "b", ready=False), pod(owner, "c")]
    assert deleted(replica_set.reconcile(owner, pods))[0] == "b"
    assert len(deleted(replica_set.reconcile(owner, pods))) == 2


def test_a_settled_replica_set_needs_nothing() -> None:
    owner = workload("ReplicaSet", replicas=1)
    pods = [pod(owner)]
    owner["status"] = status_of(replica_set.reconcile(owner, pods))
    assert replica_set.reconcile(owner, pods) == []


# Deployments


class Rollout:
    """Carries a deployment's effects out on ReplicaSets whose pods become available at once or never."""

    def __init__(self, replicas: int) -> None:
        self.deployment = workload("Deployment", replicas=replicas, selector={"matchLabels": {"app": "w"}})
        self.sets: dict[str, Json] = {}

    def step(self) -> bool:
        effects = deployment.reconcile(self.deployment, list(self.sets.values()), NOW)
        for effect in effects:
            match effect:
                case ObjectCreation(_, body):
                    body["metadata"]["uid"] = body["metadata"]["name"]
                    self.sets[body["metadata"]["name"]] = body
                case Update("ReplicaSet", body, patch):
                    target = self.sets[body["metadata"]["name"]]
                    target["spec"] |= patch.get("spec", {})
                    target["metadata"]["annotations"] |= patch.get("metadata", {}).get("annotations", {})
                case ObjectDeletion(_, body):
                    del self.sets[body["metadata"]["name"]]
                case SetStatus(status):
                    self.deployment["status"] = status
        for each in self.sets.values():
            size = each["spec"]["replicas"]
            each["status"] = {"replicas": size, "readyReplicas": size, "availableReplicas": size}
        return bool(effects)

    def settle(self) -> None:
        for _ in range(30):
            if not self.step():
                return
        raise AssertionError("the rollout does not end")

    def sizes(self) -> list[int]:
        return sorted((each["spec"]["replicas"] for each in self.sets.values()), reverse=True)

    def new_image(self, image: str) -> None:
        template = self.deployment["spec"]["template"]
        container = {**template["spec"]["containers"][0], "image": image}
        self.deployment["spec"]["template"] = {**template, "spec": {"containers": [container]}}


def test_the_pods_of_a_new_template_replace_the_others_at_once() -> None:
    rollout = Rollout(4)
    rollout.settle()
    assert rollout.sizes() == [4]
    rollout.new_image("j")
    rollout.step()
    assert rollout.sizes() == [4, 0]
    rollout.settle()
    assert rollout.sizes() == [4]
    conditions = {each["type"]: each["reason"] for each in rollout.deployment["status"]["conditions"]}
    assert conditions == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}


def test_null_and_absent_fields_of_a_template_are_the_same() -> None:
    rollout = Rollout(1)
    rollout.settle()
    template = rollout.deployment["spec"]["template"]
    rollout.deployment["spec"]["template"] = {
        **template,
        "metadata": {**template["metadata"], "creationTimestamp": None},
    }
    assert not rollout.step()


# Jobs


def batch(**spec: Any) -> Json:
    return workload("Job", parallelism=spec.pop("parallelism", 1), completions=spec.pop("completions", 1), **spec)


def test_a_job_runs_its_parallelism_until_it_is_complete() -> None:
    owner = batch(parallelism=2, completions=3)
    assert created(job.reconcile(owner, [], NOW)) == 2
    pods = [pod(owner, phase="Succeeded"), pod(owner, phase="Succeeded")]
    assert created(job.reconcile(owner, pods, NOW)) == 1
    effects = job.reconcile(owner, [*pods, pod(owner, phase="Succeeded")], NOW)
    assert status_of(effects)["conditions"][0]["type"] == "Complete"
    assert (status_of(effects)["succeeded"], status_of(effects)["completionTime"]) == (3, NOW)


def test_an_indexed_job_runs_every_index_once() -> None:
    owner = batch(parallelism=3, completions=3, completionMode="Indexed")
    pods = [pod(owner, phase="Succeeded", annotations={job.INDEX: "1"}), pod(owner, annotations={job.INDEX: "0"})]
    effects = job.reconcile(owner, pods, NOW)
    bodies = [effect.body for effect in effects if isinstance(effect, ObjectCreation)]
    assert [body["metadata"]["annotations"][job.INDEX] for body in bodies] == ["2"]
    assert {"name": "JOB_COMPLETION_INDEX", "value": "2"} in bodies[0]["spec"]["containers"][0]["env"]


def test_a_job_fails_after_its_backoff_limit_or_deadline() -> None:
    owner = batch(backoffLimit=1)
    failed = [pod(owner, phase="Failed"), pod(owner, phase="Failed")]
    assert created(job.reconcile(owner, failed[:1], NOW)) == 1
    assert status_of(job.reconcile(owner, failed, NOW))["conditions"][0]["reason"] == "BackoffLimitExceeded"
    owner = batch(activeDeadlineSeconds=60)
    owner["status"] = {"startTime": NOW}
    running = pod(owner, "slow")
    effects = job.reconcile(owner, [running], LATER)
    assert (deleted(effects), status_of(effects)["conditions"][0]["reason"]) == (["slow"], "DeadlineExceeded")


def test_a_suspended_job_has_no_pods() -> None:
    owner = batch(suspend=True)
    assert created(job.reconcile(owner, [], NOW)) == 0
    assert deleted(job.reconcile(owner, [pod(owner, "a")], NOW)) == ["a"]


def test_a_finished_job_is_deleted_after_its_time_to_live() -> None:
    owner = batch(ttlSecondsAfterFinished=60)
    owner["status"] = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": NOW}]}
    assert job.reconcile(owner, [], NOW) == []
    assert deleted(job.reconcile(owner, [], LATER)) == ["w"]


# StatefulSets


def stateful(replicas: int, **spec: Any) -> tuple[Json, str]:
    owner = workload("StatefulSet", replicas=replicas, serviceName="svc", **spec)
    return owner, f"w-{template_hash(owner['spec']['template'])}"


def member(owner: Json, number: int, revision: str, **options: Any) -> Json:
    return pod(owner, f"w-{number}", labels={plan.REVISION: revision}, **options)


def test_pods_are_created_in_order_each_when_the_one_before_is_ready() -> None:
    owner, revision = stateful(2)
    names = [
        effect.body["metadata"]["name"]
        for effect in stateful_set.reconcile(owner, [])
        if isinstance(effect, ObjectCreation)
    ]
    assert names == ["w-0"]
    waiting = [member(owner, 0, revision, ready=False)]
    assert created(stateful_set.reconcile(owner, waiting)) == 0
    assert created(stateful_set.reconcile(owner, [member(owner, 0, revision)])) == 1


def test_parallel_pods_are_created_at_once_with_their_claims() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    owner, _ = stateful(2, podManagementPolicy="Parallel", volumeClaimTemplates=[claim])
    effects = [effect for effect in stateful_set.reconcile(owner, []) if isinstance(effect, ObjectCreation)]
    assert [effect.body["metadata"]["name"] for effect in effects] == ["data-w-0", "w-0", "data-w-1", "w-1"]
    spec = effects[1].body["spec"]
    assert spec["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0"}}]
    assert (spec["hostname"], spec["subdomain"]) == ("w-0", "svc")


def test_surplus_pods_are_deleted_from_the_last() -> None:
    owner, revision = stateful(1)
    pods = [member(owner, number, revision) for number in range(3)]
    assert deleted(stateful_set.reconcile(owner, pods)) == ["w-2"]


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_an_update_replaces_the_old_pods(policy: str) -> None:
    owner, revision = stateful(2, podManagementPolicy=policy)
    for ready in (True, False):
        old = [member(owner, 0, revision), member(owner, 1, "w-old", ready=ready)]
        assert deleted(stateful_set.reconcile(owner, old)) == ["w-1"]


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_settled_stateful_set_needs_nothing(policy: str) -> None:
    owner, revision = stateful(2, podManagementPolicy=policy)
    pods = [member(owner, number, revision) for number in range(2)]
    owner["status"] = status_of(stateful_set.reconcile(owner, pods))
    assert stateful_set.reconcile(owner, pods) == []
