"""Admission of Volcano's API: its rules are those of volcanopy, and jobs get the defaults that Volcano's clients read in them."""

from pathlib import Path
from typing import Any

import pytest

from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import mutate, review, validate
from volcanopy.api import core, names
from volcanopy.api.batch import BatchJob
from volcanopy.api.bindings import BINDINGS, VOLCANO, VOLCANOPY
from volcanopy.jobcontroller.plugins.registry import plugin_problems, plugins_of
from volcanopy.services.admission.policy_file import with_schedulers
from volcanopy.services.admission.webhook_configuration import Registration

Json = dict[str, Any]
POLICY = AdmissionPolicy(scheduler_names=["volcanopy", "volcano"])


def queue(name: str, **spec: Any) -> core.Queue:
    """An open queue of volcanopy's API."""
    return core.Queue(metadata=core.Meta(name=name), spec=core.QueueSpec(**spec), status=core.QueueStatus(state="Open"))


QUEUES = {"root": queue("root"), "default": queue("default"), "team": queue("team")}


def context(**fields: Any) -> Context:
    return Context(queues=QUEUES, policy=POLICY, **fields)


def asked(group: str, kind: str, manifest: Json, operation: str = "CREATE", old: Json | None = None) -> Json:
    """A review of an object of Volcano's API."""
    request: Json = {
        "uid": "1",
        "kind": {"group": group, "kind": kind},
        "operation": operation,
        "namespace": "default",
        "name": manifest["metadata"]["name"],
        "object": manifest,
        "userInfo": {"username": "ana", "groups": []},
    }
    return {"request": request | ({"oldObject": old} if old else {})}


def job(*tasks: Json, **spec: Any) -> Json:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    listed = [{"template": template, **task} for task in tasks]
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}}
    return {**body, "spec": {"tasks": listed, **spec}}


def patched(answer: Json) -> Json:
    """The values of a patch by path."""
    import base64
    import json

    patch = json.loads(base64.b64decode(answer["response"]["patch"]))
    return {operation["path"]: operation["value"] for operation in patch}


def refusal(answer: Json) -> str:
    response = answer["response"]
    return "" if response["allowed"] else str(response["status"]["message"])


def test_a_job_gets_the_defaults_of_volcano() -> None:
    made = job({"replicas": 3}, {"name": "ps", "replicas": 2, "minAvailable": 1}, plugins={"mpi": []})
    values = patched(mutate(asked("batch.volcano.sh", "Job", made), context()))
    assert [(task["name"], task["minAvailable"], task["maxRetry"]) for task in values["/spec/tasks"]] == [
        ("default0", 3, 3),
        ("ps", 1, 3),
    ]
    assert (values["/spec/minAvailable"], values["/spec/maxRetry"], values["/spec/queue"]) == (4, 3, "default")
    assert values["/spec/plugins"] == {"mpi": [], "svc": [], "ssh": []}


def test_a_task_without_replicas_has_none_as_clients_of_volcano_omit_zero() -> None:
    made = job({"name": "a"}, {"name": "b", "replicas": 2})
    assert [task.replicas for task in BatchJob.bound(VOLCANO).read(made).spec.tasks] == [0, 2]
    answer = review(asked("batch.volcano.sh", "Job", made), context())
    assert 'spec.tasks[0].replicas: 0: task "a" has no pods' in answer["response"]["warnings"]
    assert patched(mutate(asked("batch.volcano.sh", "Job", made), context()))["/spec/minAvailable"] == 2


def test_given_values_are_kept() -> None:
    made = job({"name": "a", "replicas": 3, "minAvailable": 2, "maxRetry": 1}, minAvailable=1, maxRetry=5, queue="team")
    values = patched(mutate(asked("batch.volcano.sh", "Job", made), context()))
    assert {path: value for path, value in values.items() if path.startswith("/spec")} == {}


def test_a_partition_policy_gives_the_minimum_of_a_task() -> None:
    policy = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}
    made = job({"name": "a", "replicas": 8, "partitionPolicy": policy})
    values = patched(mutate(asked("batch.volcano.sh", "Job", made), context()))
    assert values["/spec/minAvailable"] == 6


def test_a_job_of_volcanopy_gets_no_such_defaults() -> None:
    made = job({"name": "a", "replicas": 3}, queue="team") | {"apiVersion": names.BATCH_V1ALPHA1, "kind": "BatchJob"}
    values = patched(mutate(asked(names.BATCH, "BatchJob", made), context()))
    assert {path for path in values if path.startswith("/spec")} == set()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (job({"name": "a", "replicas": 1}, minAvailable=2), "spec.minAvailable: Invalid value: 2: must not be greater"),
        (job({"name": "a", "replicas": 1}, {"name": "a", "replicas": 1}), 'spec.tasks[1].name: Duplicate value: "a"'),
        (job({"name": "a", "replicas": 1}, queue="none"), 'spec.queue: Not found: queue "none"'),
        (job({"name": "a", "replicas": 1}, colour="red"), "spec.colour: Unknown field"),
    ],
)
def test_a_job_that_is_not_valid_is_rejected(made: Json, message: str) -> None:
    assert message in refusal(review(asked("batch.volcano.sh", "Job", made), context()))


def test_a_valid_job_is_allowed_without_a_warning_about_its_scheduler() -> None:
    made = job({"name": "a", "replicas": 1}, queue="team", schedulerName="volcano")
    answer = review(asked("batch.volcano.sh", "Job", made), context())
    assert refusal(answer) == ""
    assert not answer["response"].get("warnings")


def test_a_queue_with_the_name_of_one_of_the_other_api_is_rejected() -> None:
    made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"}, "spec": {}}
    answer = validate(asked("scheduling.volcano.sh", "Queue", made), context())
    assert "Queue of scheduling.volcanopy.io has this name: choose another name" in refusal(answer)


@pytest.mark.parametrize("name", sorted(names.SHARED_QUEUES))
def test_the_queues_of_every_api_are_admitted_in_each(name: str) -> None:
    made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
    seen = Context(queues={name: queue(name) for name in names.SHARED_QUEUES}, policy=POLICY)
    assert refusal(validate(asked("scheduling.volcano.sh", "Queue", made), seen)) == ""


def test_an_object_of_another_api_is_no_way_round_the_rules_for_a_queue() -> None:
    seen = Context(
        queues={
            "root": queue("root"),
            "default": queue("default", administrators=core.Subjects(users=("ben",))),
        },
        policy=POLICY,
    )

    def answer(name: str, operation: str, **spec: Any) -> str:
        made = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
        }
        old = made | {"spec": {}} if operation == "UPDATE" else None
        return refusal(validate(asked("scheduling.volcano.sh", "Queue", made, operation, old), seen))

    for operation in ("CREATE", "UPDATE"):
        assert 'may not change queue "default"' in answer("default", operation, weight=2)
        assert "immutable for the root queue" in answer("root", operation, capability={"cpu": "4"})


def test_fields_that_only_volcano_has_are_accepted() -> None:
    spec = {"extendClusters": [{"name": "a", "weight": 1}]}
    made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "new"}, "spec": spec}
    assert refusal(validate(asked("scheduling.volcano.sh", "Queue", made), context())) == ""


def test_limits_on_submitters_hold_for_pods_with_names_of_volcano() -> None:
    guarded = queue("guarded", submitters=core.Subjects(users=("ben",)))
    notes = {"scheduling.volcano.sh/queue-name": "guarded"}
    spec = {"schedulerName": "volcano", "containers": [{"name": "main", "image": "busybox"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": notes}, "spec": spec}
    seen = Context(queues=QUEUES | {"guarded": guarded}, policy=POLICY)
    assert "guarded" in refusal(validate(asked("", "Pod", pod), seen))


def test_a_pod_cannot_be_moved_to_another_queue_under_a_name_of_volcano() -> None:
    guarded = queue("guarded", submitters=core.Subjects(users=("ben",)))
    spec = {"schedulerName": "volcano", "containers": [{"name": "main", "image": "busybox"}]}

    def pod(name: str) -> Json:
        metadata = {"name": "p", "annotations": {"scheduling.volcano.sh/queue-name": name}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    policy = POLICY.model_copy(update={"controllers": ["controller"]})
    seen = Context(queues=QUEUES | {"guarded": guarded}, policy=policy)
    assert refusal(validate(asked("", "Pod", pod("guarded"), "UPDATE", pod("team")), seen))
    registered = Registration("https://x:1", bindings=BINDINGS, policy=policy)
    [changed] = [
        condition["expression"]
        for _, configuration in registered.configurations()
        for webhook in configuration["webhooks"]
        if webhook["name"].startswith("podorigins")
        for condition in webhook["matchConditions"]
        if condition["name"] == "changed-after-creation"
    ]
    assert "'scheduling.volcano.sh/queue-name'" in changed
    assert f"'{names.POD_QUEUE_NAME}'" in changed


def test_the_queue_of_a_pod_group_is_that_of_its_namespace() -> None:
    namespace = core.Namespace(metadata=core.Meta(name="default", annotations={names.POD_QUEUE_NAME: "team"}))
    made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}}
    values = patched(
        mutate(asked("scheduling.volcano.sh", "PodGroup", made), context(namespaces={"default": namespace}))
    )
    assert values["/spec/queue"] == "team"


def test_a_status_in_the_form_of_volcano_does_not_disturb_an_update() -> None:
    before = job({"name": "a", "replicas": 1}, queue="team")
    status = {"state": {"phase": "Running"}, "conditions": [{"status": "Running"}]}
    answer = review(asked("batch.volcano.sh", "Job", before | {"status": status}, "UPDATE", before), context())
    assert refusal(answer) == ""


def test_webhooks_are_registered_for_the_served_apis() -> None:
    def rules(*bindings: Any) -> set[tuple[str, str]]:
        configurations = Registration(
            "https://x:1",
            bindings=bindings,
            policy=with_schedulers(POLICY, [binding.scheduler_name for binding in bindings]),
        )
        return {
            (rule["apiGroups"][0], resource)
            for _, configuration in configurations.configurations()
            for webhook in configuration["webhooks"]
            for rule in webhook["rules"]
            for resource in rule["resources"]
        }

    ours, theirs = rules(VOLCANOPY), rules(VOLCANO)
    assert (names.BATCH, "batchjobs") in ours
    assert ("batch.volcano.sh", "jobs") in theirs
    assert {(VOLCANO.group(group), VOLCANO.plural(resource)) for group, resource in ours} == theirs
    assert rules(*BINDINGS) == ours | theirs


UNUSED = [
    ("scheduling.volcano.sh/v1beta1", "Queue", "spec.extendClusters", [{"name": "other"}], {"weight": 1}),
    *(
        ("batch.volcano.sh/v1alpha1", "CronJob", f"spec.jobTemplate.metadata.{field}", value, {"schedule": "@daily"})
        for field, value in {"name": "a", "namespace": "b", "finalizers": ["example.org/c"]}.items()
    ),
]


@pytest.mark.parametrize(("version", "kind", "path", "value", "spec"), UNUSED, ids=lambda part: str(part)[:40])
def test_a_field_without_effect_gets_a_warning(version: str, kind: str, path: str, value: object, spec: Json) -> None:
    made: Json = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": dict(spec)}
    if kind == "CronJob":
        made["spec"]["jobTemplate"] = {"spec": job({"name": "a", "replicas": 1})["spec"]}
    *parents, last = path.split(".")
    at = made
    for step in parents:
        at = at.setdefault(step, {})
    at[last] = value
    response = review(asked(version.partition("/")[0], kind, made), context())["response"]
    assert response["allowed"], refusal({"response": response})
    assert [line for line in response["warnings"] if line.startswith(f"{path}: field has no effect: ")]


def test_every_field_without_effect_has_a_case_above_and_stands_in_the_documentation() -> None:
    declared = {path for paths in VOLCANO.without_effect.values() for path in paths}
    assert {case[2] for case in UNUSED} == declared
    page = (Path(__file__).parents[2] / "docs" / "migrating-from-volcano.md").read_text()
    assert [path for path in declared if f"`{path}`" not in page] == []


def flow(*jobs: Json) -> Json:
    body = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f"}}
    return body | {"spec": {"flows": list(jobs)}}


def after(name: str, *targets: str) -> Json:
    return {"name": name, "dependsOn": {"targets": list(targets)}}


def test_a_flow_of_volcano_may_be_empty_and_repeat_a_name_with_a_warning() -> None:
    for made in (flow(), flow({"name": "a"}, after("b", "a", "a"))):
        assert review(asked("flow.volcano.sh", "JobFlow", made), context())["response"]["allowed"]
    repeated = review(
        asked("flow.volcano.sh", "JobFlow", flow({"name": "a"}, after("b", "a"), {"name": "a"})), context()
    )
    assert repeated["response"]["allowed"]
    assert repeated["response"]["warnings"] == [
        'spec.flows[2].name: Duplicate value: "a": the first entry of this name counts'
    ]


def test_the_jobs_of_a_flow_of_volcano_are_immutable() -> None:
    old = flow({"name": "a"})
    changed = asked("flow.volcano.sh", "JobFlow", flow({"name": "a"}, after("b", "a")), "UPDATE", old)
    assert "field is immutable" in refusal(review(changed, context()))
    assert review(asked("flow.volcano.sh", "JobFlow", flow(), "UPDATE", flow()), context())["response"]["allowed"]


@pytest.mark.parametrize(
    ("queue_name", "owner", "expected"),
    [("default", None, "team"), ("root", None, None), ("default", "Job", None)],
    ids=["the default queue", "another queue", "of a job"],
)
def test_a_pod_group_in_the_default_queue_is_in_that_of_its_namespace(
    queue_name: str, owner: str | None, expected: str | None
) -> None:
    namespace = core.Namespace(metadata=core.Meta(name="default", annotations={names.POD_QUEUE_NAME: "team"}))
    metadata: Json = {"name": "g"}
    if owner:
        reference = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": owner, "name": "train", "uid": "u"}
        metadata["ownerReferences"] = [reference | {"controller": True}]
    made: Json = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata}
    answer = mutate(
        asked("scheduling.volcano.sh", "PodGroup", made | {"spec": {"queue": queue_name}}),
        context(namespaces={"default": namespace}),
    )
    values = patched(answer) if "patch" in answer["response"] else {}
    assert values.get("/spec/queue") == expected


@pytest.mark.parametrize("form", ["job", "cron job"])
def test_an_argument_that_a_plugin_does_not_know_is_ignored_with_a_warning(form: str) -> None:
    made = job({"name": "a", "replicas": 1}, plugins={"ssh": ["--no-root", "--ssh-port=2022"], "svc": []})
    kind, prefix = "Job", ""
    if form == "cron job":
        kind, prefix = "CronJob", "spec.jobTemplate."
        template = {"spec": made["spec"]}
        made = made | {"kind": kind, "spec": {"schedule": "@daily", "jobTemplate": template}}
    checked = context(check_plugins=plugin_problems)
    response = review(asked("batch.volcano.sh", kind, made), checked)["response"]
    assert response["allowed"], refusal({"response": response})
    [warning] = [line for line in response["warnings"] if "plugins" in line]
    assert warning.startswith(f"{prefix}spec.plugins.ssh: argument --no-root has no effect: ssh takes --")


def test_pytorch_without_its_master_is_idle_with_a_warning_unless_the_job_names_the_task() -> None:
    made = job({"name": "a", "replicas": 1}, plugins={"pytorch": []})
    checked = context(check_plugins=plugin_problems)
    response = review(asked("batch.volcano.sh", "Job", made), checked)["response"]
    assert response["allowed"], refusal({"response": response})
    assert 'spec.plugins.pytorch: no effect: Not found: task "master"' in "\n".join(response["warnings"])
    assert [plugin.name for plugin in plugins_of(BatchJob.bound(VOLCANO).read(made))] == ["svc"]
    named = job({"name": "a", "replicas": 1}, plugins={"pytorch": ["--master=chief"]})
    assert 'Not found: task "chief"' in refusal(review(asked("batch.volcano.sh", "Job", named), checked))


def test_the_known_arguments_of_a_plugin_are_still_checked_and_used() -> None:
    wrong = job({"name": "a", "replicas": 1}, plugins={"ssh": ["--no-root", "--ssh-port=http"]})
    assert "--ssh-port" in refusal(
        review(asked("batch.volcano.sh", "Job", wrong), context(check_plugins=plugin_problems))
    )
    given = job({"name": "a", "replicas": 1}, plugins={"ssh": ["--no-root", "value", "--ssh-port", "2022", "-x"]})
    read = BatchJob.bound(VOLCANO).read(given)
    [ssh] = [plugin for plugin in plugins_of(read) if plugin.name == "ssh"]
    assert ssh.arguments.ssh_port == 2022


@pytest.mark.parametrize(("groups", "allowed"), [(0, True), (1, False)])
def test_a_queue_without_unfinished_pod_groups_can_be_deleted_whatever_its_status_says(
    groups: int, allowed: bool
) -> None:
    """The scheduler updates the status a moment after the last pod has gone."""
    status = core.QueueStatus(state="Closed", allocated={"pods": "8"})
    known = QUEUES | {"team": core.Queue(metadata=core.Meta(name="team"), spec=core.QueueSpec(), status=status)}
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"}, "spec": {}}
    asking = asked("scheduling.volcano.sh", "Queue", body, "DELETE", body)
    asking["request"]["object"] = None
    seen = Context(queues=known, policy=POLICY, pod_groups={}, unfinished={"team": groups} if groups else {})
    assert validate(asking, seen)["response"]["allowed"] is allowed
