"""No way around the submitters of a queue: what was checked at creation cannot be changed afterwards."""

import copy
import json
from typing import Any

import msgspec
import pytest

from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.request import Request, at
from volcanopy.admission.review import mutated, validate
from volcanopy.api.core import PodGroup, Queue

CONTROLLER = "system:serviceaccount:volcanopy-system:volcanopy-controller"
QUEUE, GROUP = "scheduling.volcanopy.io/queue-name", "scheduling.k8s.io/group-name"
QUEUES = {
    name: msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue)
    for name, spec in {
        "root": {},
        "default": {},
        "own": {"administrators": {"users": ["eve"]}},
        "open": {"submitters": {"users": ["*"]}},
        "fast": {"submitters": {"users": ["bob"]}},
        "small": {"capability": {"cpu": "4"}},
    }.items()
}
Json = dict[str, Any]


def context(controllers: tuple[str, ...], further: Json) -> Context:
    """A cluster with a PodGroup of bob in queue fast."""
    groups = {
        f"team/{user}s": msgspec.convert(
            {
                "metadata": {
                    "name": f"{user}s",
                    "namespace": "team",
                    "annotations": {"volcanopy.io/submitted-by": user},
                },
                "spec": {"queue": queue, "minMember": 1},
            },
            PodGroup,
        )
        for user, queue in (("bob", "fast"), ("eve", "open"))
    }
    policy = AdmissionPolicy.read({"controllers": list(controllers), **further}, unknown="forbid")
    return Context(queues=QUEUES, policy=policy, pod_groups=groups)


def answer(
    kind: str,
    before: Json | None,
    after: Json,
    user: str = "eve",
    controllers: tuple[str, ...] = (CONTROLLER,),
    policy: Json | None = None,
    request: Json | None = None,
) -> Json:
    groups = {"Pod": "", "PodGroup": "scheduling.volcanopy.io", "JobTemplate": "flow.volcanopy.io"}
    group = groups.get(kind, "batch.volcanopy.io")
    review = {
        "uid": "1",
        "operation": "UPDATE" if before else "CREATE",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "namespace": "team",
        "name": "x",
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": after,
        "oldObject": before,
        **(request or {}),
    }
    response: Json = validate({"request": review}, context(controllers, policy or {}))["response"]
    return response


def pod(**annotations: str) -> Json:
    notes = {"volcanopy.io/submitted-by": "eve", "volcanopy.io/submitter-groups": json.dumps(["system:authenticated"])}
    named = {{"queue": QUEUE, "group": GROUP}.get(key, key): value for key, value in annotations.items()}
    spec = {"schedulerName": "volcanopy", "containers": [{"name": "a", "image": "b"}]}
    return {"metadata": {"name": "x", "namespace": "team", "annotations": notes | named}, "spec": spec}


def group(queue: str, owner: str = "", submitter: str = "eve") -> Json:
    notes = {
        "volcanopy.io/submitted-by": submitter,
        "volcanopy.io/submitter-groups": json.dumps(["system:authenticated"]),
    }
    meta: Json = {"name": "x", "namespace": "team", "annotations": notes}
    if owner:
        version = "batch.volcanopy.io/v1alpha1" if owner == "BatchJob" else "apps/v1"
        meta["ownerReferences"] = [{"apiVersion": version, "kind": owner, "name": "o", "uid": "o", "controller": True}]
    kind = {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "PodGroup"}
    return {**kind, "metadata": meta, "spec": {"minMember": 1, "queue": queue}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pod(queue="open"), pod(queue="fast")),
        (pod(), pod(queue="fast")),
        (pod(queue="open"), pod()),
        (pod(group="mine"), pod(group="bobs")),
        (pod(), pod(group="bobs")),
        (pod(group="mine"), pod()),
    ],
)
@pytest.mark.parametrize("controllers", [(CONTROLLER,), ()])
def test_the_queue_and_the_group_of_a_pod_cannot_be_changed_after_its_creation(
    before: Json, after: Json, controllers: tuple[str, ...]
) -> None:
    response = answer("Pod", before, after, controllers=controllers)
    assert not response["allowed"]
    assert "metadata.annotations[" in response["status"]["message"]


def test_the_controller_assigns_a_group_to_a_pod() -> None:
    assert answer("Pod", pod(), pod(group="x-group"), user=CONTROLLER)["allowed"]
    assert answer("Pod", pod(), pod(group="x-group"), controllers=())["allowed"], "if it is not named"


def test_other_annotations_of_a_pod_may_change() -> None:
    assert answer("Pod", pod(queue="open"), pod(queue="open", note="x"))["allowed"]


@pytest.mark.parametrize("user", ["eve", "bob"])
@pytest.mark.parametrize("controllers", [(CONTROLLER,), ()])
def test_the_group_of_a_job_stays_in_the_queue_of_the_job(user: str, controllers: tuple[str, ...]) -> None:
    """Also if the owner reference is removed in the same update."""
    before = group("open", owner="BatchJob", submitter=user)
    for after in (group("fast", owner="BatchJob", submitter=user), group("fast", submitter=user)):
        response = answer("PodGroup", before, after, user=user, controllers=controllers)
        assert not response["allowed"]
        assert "the queue of the PodGroup of a job is that of the job" in response["status"]["message"]


@pytest.mark.parametrize(("submitter", "expected"), [("eve", False), ("bob", True)])
def test_annotations_of_a_workload_lead_only_to_queues_of_its_submitter(submitter: str, expected: bool) -> None:
    """A Deployment names a queue: the controller creates or moves the PodGroup of its pods."""
    made = group("fast", owner="ReplicaSet", submitter=submitter)
    assert answer("PodGroup", None, made, user=CONTROLLER)["allowed"] is expected
    before = group("open", owner="ReplicaSet", submitter=submitter)
    assert answer("PodGroup", before, made, user=CONTROLLER)["allowed"] is expected


def test_a_group_of_a_job_is_created_again_by_the_controller() -> None:
    assert answer("PodGroup", None, group("fast", owner="BatchJob", submitter="bob"), user=CONTROLLER)["allowed"]


def job(name: str, submitter: str = "bob", **annotations: str) -> Json:
    notes = {
        "volcanopy.io/submitted-by": submitter,
        "volcanopy.io/submitter-groups": json.dumps(["system:authenticated"]),
        **annotations,
    }
    container = {"name": "a", "image": "b"}
    spec = {"queue": "open", "tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [container]}}}]}
    return {
        "apiVersion": "x",
        "kind": "x",
        "metadata": {"name": name, "namespace": "team", "annotations": notes},
        "spec": spec,
    }


def cron(submitter: str, image: str, *, suspend: bool = False) -> Json:
    made = job("c", submitter)
    made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"] = image
    made["spec"] = {"schedule": "@daily", "suspend": suspend, "jobTemplate": {"spec": made["spec"]}}
    return {**made, "apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "CronBatchJob"}


def template(submitter: str, image: str) -> Json:
    made = job("t", submitter)
    made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"] = image
    return {**made, "apiVersion": "flow.volcanopy.io/v1alpha1", "kind": "JobTemplate"}


def of_flow(author: str) -> Json:
    made = job("j", "bob", **{"volcanopy.io/template-submitted-by": author})
    made["spec"]["queue"] = "fast"
    return {**made, "apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob"}


@pytest.mark.parametrize("user", ["eve", "bob", "system:serviceaccount:kube-system:x", CONTROLLER])
@pytest.mark.parametrize(
    ("before", "after"), [(cron("bob", "x"), cron("bob", "y")), (template("bob", "x"), template("bob", "y"))]
)
def test_only_the_submitter_changes_what_runs_later(before: Json, after: Json, user: str) -> None:
    kind = before["kind"]
    response = answer(kind, before, after, user=user)
    assert response["allowed"] is (user != "eve")
    if user == "eve":
        assert 'only its submitter "bob" may change it' in response["status"]["message"]


def test_a_cron_job_of_another_user_may_be_suspended() -> None:
    assert answer("CronBatchJob", cron("bob", "x"), cron("bob", "x", suspend=True))["allowed"]


@pytest.mark.parametrize(("author", "expected"), [("eve", False), ("bob", True)])
def test_a_job_of_a_flow_runs_only_templates_of_users_of_its_queue(author: str, expected: bool) -> None:
    response = answer("BatchJob", None, of_flow(author), user=CONTROLLER)
    assert response["allowed"] is expected
    if not expected:
        assert "metadata.annotations[volcanopy.io/template-submitted-by]" in response["status"]["message"]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (pod(group="bobs"), 'PodGroup "bobs" belongs to user "bob"'),
        (pod(group="none"), 'Not found: PodGroup "none"'),
        ({**pod(), "spec": {**pod()["spec"], "nodeName": "n1"}}, "pods are bound by the scheduler"),
    ],
)
def test_a_pod_does_not_join_what_it_may_not(made: Json, message: str) -> None:
    assert message in answer("Pod", None, made)["status"]["message"]
    assert message not in str(answer("Pod", None, made, user=CONTROLLER))


REPLICA_SETS = "system:serviceaccount:kube-system:replicaset-controller"


def test_a_pod_of_a_workload_is_bound_by_the_scheduler() -> None:
    """Kubernetes' controllers create what a user has written into a Deployment; kubelets create the pods of their node."""
    bound = {**pod(), "spec": {**pod()["spec"], "nodeName": "n1"}}
    assert "pods are bound by the scheduler" in answer("Pod", None, bound, user=REPLICA_SETS)["status"]["message"]
    assert "pods are bound by the scheduler" not in str(answer("Pod", None, bound, user="system:node:n1"))


def of_workload(**annotations: str) -> Json:
    """The PodGroup that the controllers create for a ReplicaSet."""
    made = group("open", owner="ReplicaSet")
    made["metadata"] |= {"name": "podgroup-o", "annotations": made["metadata"]["annotations"] | annotations}
    return made


def test_no_user_writes_the_pod_group_of_a_workload() -> None:
    """It may have powers that its user has not: the controllers copy them from pods that were reviewed."""
    request = {"name": "podgroup-o"}
    made = of_workload(**{"volcanopy.io/preemptable": "false"})
    message = answer("PodGroup", None, made, request=request)["status"]["message"]
    assert "only the controllers create the PodGroup of a ReplicaSet" in message
    assert answer("PodGroup", None, made, user=CONTROLLER, request=request)["allowed"]
    own = {**of_workload(), "metadata": {**of_workload()["metadata"], "ownerReferences": []}}
    message = answer("PodGroup", own, made, request=request)["status"]["message"]
    assert "only the controllers create the PodGroup of a ReplicaSet" in message


@pytest.mark.parametrize("prefix", ["podgroup", "my-job"])
def test_no_user_occupies_the_name_of_the_pod_group_of_a_workload_or_job(prefix: str) -> None:
    made = group("open")
    made["metadata"]["name"] = name = f"{prefix}-3d3f1f43-6a8e-4d4f-9d2b-5c9f7f1f0a11"
    message = answer("PodGroup", None, made, request={"name": name})["status"]["message"]
    assert "only the controllers create a PodGroup whose name ends with a uid" in message
    assert answer("PodGroup", None, made, user=CONTROLLER, request={"name": name})["allowed"]
    assert answer("PodGroup", made, made, request={"name": name})["allowed"]


@pytest.mark.parametrize(
    "key", ["volcanopy.io/preemptable", "volcano.sh/preemptable", "volcanopy.io/jdb-min-available"]
)
@pytest.mark.parametrize("part", ["annotations", "labels"])
def test_no_user_changes_the_powers_of_the_pod_group_of_a_workload(part: str, key: str) -> None:
    changed = of_workload()
    changed["metadata"][part] = {**changed["metadata"].get(part, {}), key: "false"}
    message = answer("PodGroup", of_workload(), changed, request={"name": "podgroup-o"})["status"]["message"]
    assert f"metadata.{part}[volcanopy.io/" in message
    assert "the controllers write the PodGroup of a ReplicaSet" in message


@pytest.mark.parametrize(("status", "expected"), [({"running": 1}, False), ({"phase": "Running"}, False), ({}, True)])
def test_a_group_is_not_deleted_while_its_pods_run(status: Json, expected: bool) -> None:
    request = {"operation": "DELETE", "object": None, "oldObject": {**group("open"), "status": status}}
    assert answer("PodGroup", None, {}, request=request)["allowed"] is expected
    administrator = {"userInfo": {"username": "admin", "groups": ["system:masters"]}}
    assert answer("PodGroup", None, {}, request=request | administrator)["allowed"] is expected
    for user in (CONTROLLER, "system:serviceaccount:kube-system:generic-garbage-collector"):
        assert answer("PodGroup", None, {}, user=user, request=request)["allowed"]


@pytest.mark.parametrize("kind", ["BatchJob", "CronBatchJob", "JobTemplate"])
def test_a_private_key_in_a_job_is_rejected_because_whoever_reads_the_job_reads_it(kind: str) -> None:
    made = {"BatchJob": of_flow("eve"), "CronBatchJob": cron("eve", "x"), "JobTemplate": template("eve", "x")}[kind]
    spec = made["spec"]["jobTemplate"]["spec"] if kind == "CronBatchJob" else made["spec"]
    spec["plugins"] = {"ssh": ["--ssh-private-key=a", "--ssh-public-key=b"]}
    message = answer(kind, None, made, user="bob")["status"]["message"]
    assert "spec.plugins.ssh[0]: Forbidden: --ssh-private-key is readable with the job" in message


@pytest.mark.parametrize(
    ("unpreemptable", "expected"), [(None, True), ({"users": ["eve"]}, True), ({"users": ["bob"]}, False)]
)
def test_who_protects_pods_from_eviction(unpreemptable: Json | None, expected: bool) -> None:
    made = pod(**{"volcanopy.io/preemptable": "false"})
    assert answer("Pod", None, made, policy={"unpreemptable": unpreemptable})["allowed"] is expected
    assert answer("Pod", pod(), made, policy={"unpreemptable": unpreemptable})["allowed"] is expected
    assert answer("Pod", made, made, policy={"unpreemptable": unpreemptable})["allowed"], "it is unchanged"


def test_requests_of_a_pod_grow_only_where_no_queue_limits_them() -> None:
    def sized(cpu: str, queue: str) -> Json:
        made = pod(queue=queue)
        container = {**made["spec"]["containers"][0], "resources": {"requests": {"cpu": cpu}}}
        return {**made, "spec": {**made["spec"], "containers": [container]}}

    assert answer("Pod", sized("1", "open"), sized("2", "open"))["allowed"]
    response = answer("Pod", sized("1", "small"), sized("2", "small"))
    assert 'queue "small" limits cpu: create a new pod' in response["status"]["message"]
    assert answer("Pod", sized("2", "small"), sized("1", "small"))["allowed"]


@pytest.mark.parametrize("value", ["a-job", ""])
@pytest.mark.parametrize("user", ["eve", "system:serviceaccount:kube-system:replicaset-controller"])
def test_only_the_controllers_set_the_label_of_pods_of_jobs(user: str, value: str) -> None:
    """Pods with it are not mutated: the queue and the submitter of others would be missing."""
    labelled = pod()
    labelled["metadata"]["labels"] = {"volcanopy.io/job-name": value}
    message = answer("Pod", None, labelled, user=user)["status"]["message"]
    assert "metadata.labels[volcanopy.io/job-name]: Forbidden: label is set by the controllers: remove it" in message
    assert "submitted-by" not in message, "the one cause is named"
    superusers = {"superusers": {"users": ["restore"]}}
    assert answer("Pod", None, labelled, user="restore", policy=superusers)["allowed"]
    assert answer("Pod", None, labelled, user=CONTROLLER)["allowed"]


@pytest.mark.parametrize("user", ["eve", REPLICA_SETS])
@pytest.mark.parametrize("group", ["eves", "none"])
def test_a_pod_of_a_group_names_no_queue_of_others(group: str, user: str) -> None:
    """It would count there without the group, which its user may delete or never create."""
    made = pod(group=group, queue="fast")
    message = answer("Pod", None, made, user=user)["status"]["message"]
    assert "metadata.annotations[scheduling.volcanopy.io/queue-name]: Forbidden: user" in message
    assert 'may not submit to queue "fast"' in message


@pytest.mark.parametrize(("group", "queue"), [("eves", "open"), ("none", None)])
def test_a_pod_names_the_queue_of_its_group_which_it_counts_in_without_the_group(group: str, queue: str | None) -> None:
    """The garbage collector deletes a PodGroup with its owner, also while its pods run."""
    made = pod(group=group)
    review = {
        "request": {"kind": {"group": "", "kind": "Pod"}, "operation": "CREATE", "namespace": "team", "object": made}
    }
    request = Request.of(review)
    assert request is not None
    after, _ = mutated(request, context((CONTROLLER,), {}))
    assert at(after.object, "metadata", "annotations").get(QUEUE) == queue


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_the_queue_of_a_pod_of_a_job_stays(part: str) -> None:
    """It counts there while it terminates after its job and PodGroup are gone."""
    owner = {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "name": "j",
        "uid": "j",
        "controller": True,
    }
    before, after = pod(), pod()
    for version, queue in ((before, "open"), (after, "fast")):
        version["metadata"] |= {"ownerReferences": [owner]}
        version["metadata"][part] = {**version["metadata"].get(part, {}), "volcanopy.io/queue-name": queue}
    message = answer("Pod", before, after)["status"]["message"]
    assert (
        f'metadata.{part}[volcanopy.io/queue-name]: Forbidden: {part[:-1]} is set by the controllers: keep "open"'
        in message
    )
    assert answer("Pod", before, before)["allowed"]


@pytest.mark.parametrize("key", ["learnt-estimate", "pods-created", "pods-rejected"])
def test_no_user_forges_what_the_job_controller_records_in_a_group(key: str) -> None:
    made = group("open")
    made["metadata"]["annotations"][f"volcanopy.io/{key}"] = "1s"
    for before in (None, group("open")):
        message = answer("PodGroup", before, made)["status"]["message"]
        assert f"metadata.annotations[volcanopy.io/{key}]: Forbidden: annotation is set by the controllers" in message
    assert answer("PodGroup", made, made)["allowed"], "it is unchanged"
    assert answer("PodGroup", None, made, user=CONTROLLER)["allowed"]


def test_administrators_of_a_queue_move_nothing_of_others_to_it() -> None:
    def in_own(made: Json) -> Json:
        spec = made["spec"]["jobTemplate"]["spec"] if made["kind"] == "CronBatchJob" else made["spec"]
        spec["queue"] = "own"
        return made

    for before in (group("open", submitter="bob"), cron("bob", "x"), template("bob", "x")):
        message = answer(before["kind"], before, in_own(copy.deepcopy(before)))["status"]["message"]
        assert 'only its submitter "bob" may change it' in message
    changed = in_own(template("bob", "y"))
    assert answer("JobTemplate", in_own(template("bob", "x")), changed)["allowed"], "of their own queue they may"
