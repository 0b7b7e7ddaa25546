"""Validation of single jobs beyond the schema."""

from typing import Any

import pytest

from tests.admission.test_review import CONTEXT
from volcanopy.admission.jobs import immutability_problems, job_problems, job_warnings
from volcanopy.api.batch import BatchJobSpec
from volcanopy.jobcontroller.plugins.registry import plugin_problems

Json = dict[str, Any]


def task(name: str = "a", *, resources: Json | None = None, init: Json | None = None, **fields: Any) -> Json:
    """A task of one container."""
    pod: Json = {"containers": [{"name": "c", "image": "busybox", **({"resources": resources} if resources else {})}]}
    if init is not None:
        pod["initContainers"] = [{"name": "i", "image": "busybox", "resources": init}]
    return {"name": name, "replicas": 1, "template": {"spec": pod}, **fields}


def refusals(*tasks: Json, **spec: Any) -> list[str]:
    """The problems of a job."""
    metadata = {"name": "j", "namespace": "ns"}
    manifest = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "metadata": metadata}
    return [
        str(job_problem)
        for job_problem in job_problems(manifest | {"spec": {"tasks": list(tasks), **spec}}, plugin_problems)
    ]


WHOLE = (
    "spec.tasks[0].template.spec.{}[0].resources.requests[cpu]: Invalid value: {}: "
    'topologyPolicy "restricted" requires a whole number of CPUs'
)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (task(topologyPolicy="restricted", resources={"requests": {"cpu": "2"}}), []),
        (task(topologyPolicy="restricted", resources={"requests": {"cpu": "2000m"}}), []),
        (task(topologyPolicy="restricted", resources={"limits": {"cpu": 2}}), []),
        (task(topologyPolicy="none", resources={"requests": {"cpu": "1500m"}}), []),
        (
            task(topologyPolicy="restricted", resources={"requests": {"cpu": "1500m"}}),
            [WHOLE.format("containers", '"1500m"')],
        ),
        (task(topologyPolicy="restricted"), [WHOLE.format("containers", 0)]),
        (
            task(topologyPolicy="restricted", resources={"limits": {"cpu": "1"}}, init={"requests": {"cpu": "100m"}}),
            [WHOLE.format("initContainers", '"100m"')],
        ),
    ],
)
def test_numa_policies_require_whole_cpus(made: Json, expected: list[str]) -> None:
    assert refusals(made) == expected


@pytest.mark.parametrize(
    ("tasks", "spec", "says"),
    [
        ([], {}, "spec.tasks: "),
        ([task(), task()], {}, 'spec.tasks[1].name: Duplicate value: "a"'),
        (
            [task("a", replicas=4)],
            {"minAvailable": 5},
            "spec.minAvailable: Invalid value: 5: must not be greater than the sum of task replicas (4): lower it or raise replicas",
        ),
        (
            [task(replicas=2, minAvailable=3)],
            {},
            "spec.tasks[0].minAvailable: Invalid value: 3: must not be greater than replicas (2): lower it or raise replicas",
        ),
        ([task()], {"policies": [{"event": "PodFailed", "action": "Foo"}]}, "spec.policies[0].action: "),
        ([task()], {"policies": [{"exitCode": 3, "action": "Foo"}]}, "spec.policies[0].action: "),
        ([task()], {"policies": [{"event": "PodRunning", "action": "AbortJob"}]}, "spec.policies[0].event: "),
        ([task()], {"policies": [{"event": "OutOfSync", "action": "AbortJob"}]}, "spec.policies[0].event: "),
        ([task()], {"plugins": {"nope": []}}, 'spec.plugins.nope: Not found: job plugin "nope"'),
        ([task("worker")], {"plugins": {"mpi": []}}, 'spec.plugins.mpi: Not found: task "master"'),
        ([task(dependsOn={"name": ["z"]})], {}, 'spec.tasks[0].dependsOn.name[0]: Not found: task "z"'),
        (
            [task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})],
            {},
            "spec.tasks: Invalid value: dependsOn has a cycle: a -> b -> a",
        ),
        ([task()], {"volumes": [{"mountPath": "a:b", "volumeClaimName": "x"}]}, "spec.volumes[0].mountPath: "),
    ],
)
def test_an_invalid_job_gives_a_one_line_message(tasks: list[Json], spec: Json, says: str) -> None:
    said = refusals(*tasks, **spec)
    assert len(said) == 1
    assert said[0].startswith(says)


@pytest.mark.parametrize(
    "made",
    [
        task(policies=[{"events": ["PodFailed", "PodFailed"], "action": "RestartJob"}]),
        task(policies=[{"exitCode": 137, "action": "TerminateJob"}]),
        {**task(), "template": {"spec": {"containers": [{"name": "c", "securityContext": {"privileged": True}}]}}},
    ],
)
def test_a_valid_job_is_accepted(made: Json) -> None:
    assert refusals(made) == []


CHANGED: list[tuple[Json, list[str]]] = [
    ({"queue": "other"}, ["spec.queue"]),
    ({"plugins": {}}, ["spec.plugins"]),
    ({"maxRetry": 5}, ["spec.maxRetry"]),
    ({"policies": [{"event": "PodFailed", "action": "RestartJob"}]}, ["spec.policies"]),
    ({"ttlSecondsAfterFinished": 5, "minSuccess": 1}, ["spec.minSuccess", "spec.ttlSecondsAfterFinished"]),
    ({"networkTopology": {"mode": "soft"}}, ["spec.networkTopology"]),
    ({"volumes": [{"mountPath": "/a", "volumeClaimName": "x"}]}, ["spec.volumes"]),
    ({"tasks": [task("a", resources={"requests": {"cpu": "2"}}), task("b")]}, ["spec.tasks[0].template"]),
    ({"tasks": [task("b", maxRetry=1), task("a")]}, ["spec.tasks[0].maxRetry"]),
    ({"tasks": [task("a"), task("b", dependsOn={"name": ["a"]})]}, ["spec.tasks[1].dependsOn"]),
    ({"tasks": [task("a")]}, ["spec.tasks"]),
    ({"tasks": [task("a"), task("c")]}, ["spec.tasks"]),
    ({"tasks": [task("a", replicas=5), task("b", minAvailable=1)], "minAvailable": 1}, []),
    ({"priorityClassName": "x", "suspend": True, "activeDeadlineSeconds": 5}, []),
]


@pytest.mark.parametrize(("fields", "paths"), CHANGED)
def test_an_update_changes_no_field_of_a_job_that_decides_its_pods(fields: Json, paths: list[str]) -> None:
    before = {"spec": {"tasks": [task("a"), task("b")], "queue": "q", "plugins": {"svc": []}}}
    after = {"spec": before["spec"] | fields}
    found = list(immutability_problems(after, before))
    assert [each.path for each in found] == paths
    assert all(str(each).endswith("create a new job") and "Forbidden: " in str(each) for each in found)


@pytest.mark.parametrize(
    ("restarts", "warned"), [("OnFailure", True), ("Always", True), ("Never", False), (None, False)]
)
@pytest.mark.parametrize("of_task", [True, False])
def test_a_policy_for_an_exit_code_needs_pods_that_fail(restarts: str | None, warned: bool, of_task: bool) -> None:
    policies = [{"exitCode": 137, "action": "RestartJob"}]
    made = task(policies=policies if of_task else [])
    made["template"]["spec"] |= {"restartPolicy": restarts} if restarts else {}
    spec = BatchJobSpec.model_validate({"tasks": [made], "policies": [] if of_task else policies})
    warnings = [str(warning) for warning in job_warnings(spec, CONTEXT)]
    expected = (
        f'spec.tasks[0].template.spec.restartPolicy: Invalid value: "{restarts}": policies for exitCode 137 have no effect: '
        "containers restart, and the pod does not fail"
    )
    assert (expected in warnings) == warned


@pytest.mark.parametrize(
    ("policies", "warned"),
    [(["Always"], True), (["Always", "Always"], True), (["Always", "Never"], False), ([None], False)],
)
def test_a_job_of_which_every_container_restarts_after_success_does_not_end(
    policies: list[str | None], warned: bool
) -> None:
    tasks = [task(name) for name, _ in zip("ab", policies, strict=False)]
    for entry, policy in zip(tasks, policies, strict=True):
        entry["template"]["spec"] |= {"restartPolicy": policy} if policy else {}
    warnings = list(job_warnings(BatchJobSpec.model_validate({"tasks": tasks}), CONTEXT))
    assert any("does not end by itself" in str(warning) for warning in warnings) == warned


PARTITIONS = {"totalPartitions": 2, "partitionSize": 2}


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (
            {"tasks": [task()], "minAvailable": 9, "minSuccess": 8},
            [
                f"spec.{name}: Invalid value: {number}: must not be greater than the sum of task replicas (1): lower it or raise replicas"
                for name, number in (("minAvailable", 9), ("minSuccess", 8))
            ],
        ),
        (
            {"tasks": [task(minAvailable=3)]},
            [
                "spec.tasks[0].minAvailable: Invalid value: 3: must not be greater than replicas (1): lower it or raise replicas"
            ],
        ),
        (
            {"tasks": [task() | {"replicas": 3, "parallelism": 2}]},
            [
                "spec.tasks[0].parallelism: Invalid value: 2: must be at least minAvailable (3), which defaults to replicas: raise it,"
                " or set minAvailable"
            ],
        ),
        ({"tasks": [task() | {"replicas": 3, "parallelism": 2, "minAvailable": 2}]}, []),
        (
            {"tasks": [task() | {"replicas": 3, "partitionPolicy": PARTITIONS}]},
            ["spec.tasks[0].replicas: Invalid value: 3: must be totalPartitions * partitionSize (4)"],
        ),
        (
            {"tasks": [task(minAvailable=3) | {"replicas": 4, "partitionPolicy": {**PARTITIONS, "minPartitions": 1}}]},
            ["spec.tasks[0].minAvailable: Invalid value: 3: must be minPartitions * partitionSize (2), or not set"],
        ),
        ({"tasks": [task() | {"replicas": 4, "partitionPolicy": {**PARTITIONS, "minPartitions": 1}}]}, []),
        (
            {"tasks": [task(dependsOn={"name": ["z"]})]},
            ['spec.tasks[0].dependsOn.name[0]: Not found: task "z": tasks of the job are "a"'],
        ),
        ({"tasks": [task(dependsOn={"name": ["a"]})]}, ["spec.tasks: Invalid value: dependsOn has a cycle: a -> a"]),
    ],
)
def test_numbers_and_names_of_tasks_that_contradict_each_other_are_rejected(job: Json, expected: list[str]) -> None:
    assert refusals(*job["tasks"], **{name: value for name, value in job.items() if name != "tasks"}) == expected
