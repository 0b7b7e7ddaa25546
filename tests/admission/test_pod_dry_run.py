"""Dry runs of pods as pure functions: the requests to the API server and the meaning of its responses."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.admission.golden_cases import world
from tests.admission.test_flows import cron
from volcanopy.admission.context import AdmissionPolicy, Context, DryRun, DryRunResult
from volcanopy.admission.pod_dry_run import dry_run_findings, dry_runs
from volcanopy.admission.request import Request
from volcanopy.admission.review import validate
from volcanopy.api import names
from volcanopy.api.batch import BatchJob, TaskSpec
from volcanopy.api.flow import JobTemplate
from volcanopy.api.model import Json, Problem
from volcanopy.installed.job_plugins import job_registry
from volcanopy.services.admission.pod_dry_run import pod_maker

WORLD = replace(world({}), make_pod=pod_maker(job_registry()))


def task(name: str, replicas: int = 1) -> Json:
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def batch_job(*tasks: Json, name: str = "j", **spec: Any) -> Json:
    return {
        "apiVersion": names.BATCH_V1ALPHA1,
        "kind": "BatchJob",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"tasks": list(tasks), **spec},
    }


def body(manifest: Json, old: Json | None = None) -> Json:
    kind = {"group": manifest["apiVersion"].partition("/")[0], "kind": manifest["kind"]}
    operation = "CREATE" if old is None else "UPDATE"
    request = {
        "uid": "u",
        "kind": kind,
        "operation": operation,
        "namespace": "team",
        "object": manifest,
        "oldObject": old,
    }
    return {"request": request}


def asked(manifest: Json, old: Json | None = None, context: Context = WORLD) -> tuple[DryRun, ...]:
    request = Request.of(body(manifest, old))
    assert request is not None
    return dry_runs(request, context)


def test_the_dry_run_uses_the_pod_that_the_controller_creates() -> None:
    (trial,) = asked(batch_job(task("a"), plugins={"svc": []}, volumes=[{"mountPath": "/d", "volumeClaimName": "c"}]))
    assert trial.path == "spec.tasks[0].template"
    assert isinstance(trial.pod, dict)
    spec = trial.pod["spec"]
    assert spec["schedulerName"] == names.SCHEDULER
    assert {"name": "job-volume-0", "persistentVolumeClaim": {"claimName": "c"}} in spec["volumes"]
    assert spec["subdomain"]  # of the plugin


def test_the_dry_run_pod_has_no_owner_and_is_marked() -> None:
    (trial,) = asked(batch_job(task("a")))
    assert isinstance(trial.pod, dict)
    assert set(trial.pod["metadata"]) == {"name", "namespace", "labels", "annotations"}
    assert trial.pod["metadata"]["labels"][names.DRY_RUN] == "true"
    assert names.GROUP_NAME not in trial.pod["metadata"]["annotations"]


def test_jobs_of_equal_templates_have_equal_dry_runs() -> None:
    first, second = asked(batch_job(task("a"), task("b", 7), plugins={"ssh": [], "svc": []}, name="one"))
    (third,) = asked(batch_job(task("a", 3), plugins={"ssh": []}, name="two"))
    (fourth,) = asked(batch_job(task("z", 5), plugins={"ssh": []}, name="three"))
    assert third.pod == fourth.pod
    assert first.path != second.path


def test_unchanged_templates_have_no_dry_run() -> None:
    before = cron(name="c")
    assert asked(cron(name="c", suspend=True), before)
    assert not asked(before, before)
    assert not asked(batch_job(task("a"), minAvailable=1), batch_job(task("a")))


def test_unreadable_templates_have_no_dry_run() -> None:
    assert not asked(batch_job({"name": "a", "bogus": 1}))
    assert not asked(batch_job(task("a")), context=replace(WORLD, make_pod=None))
    allowed = replace(WORLD, policy=AdmissionPolicy(pod_rejected="allow"))
    assert not asked(batch_job(task("a")), context=allowed)


def test_a_missing_priority_class_has_its_own_warning() -> None:
    (trial,) = asked(batch_job(task("a"), priorityClassName="none-such"))
    assert isinstance(trial.pod, dict)
    assert "priorityClassName" not in trial.pod["spec"]
    (trial,) = asked(batch_job(task("a"), priorityClassName="high"))
    assert isinstance(trial.pod, dict)
    assert trial.pod["spec"]["priorityClassName"] == "high"


def test_a_template_with_too_many_values_is_not_sent() -> None:
    result = task("a")
    result["template"]["spec"]["containers"][0]["args"] = ["x"] * 100_000
    (trial,) = asked(batch_job(result))
    assert trial.pod == "the pods of the tasks exceed 262144 bytes in total"


def test_a_failing_plugin_gives_a_warning() -> None:
    def made(_: BatchJob) -> Callable[[TaskSpec], Json | str]:
        return lambda _: "no pod can be made of the template: ZeroDivisionError: x"

    (trial,) = asked(batch_job(task("a")), context=replace(WORLD, make_pod=made))
    assert trial.pod == "no pod can be made of the template: ZeroDivisionError: x"


TEMPLATE = {"spec": {"containers": [{"name": "main"}, {"name": "side"}], "volumes": [{"name": "v"}]}}
POD = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "containers": [{"name": "plugged", "env": [{"name": "X"}]}, {"name": "main"}, {"name": "side", "env": [1]}],
        "volumes": [{"name": "v"}, {"name": "added"}],
    },
}


def said(answer: DryRunResult, policy: AdmissionPolicy | None = None, *, immediate: bool = True) -> list[str]:
    """The problems, and the warnings with a mark before them."""
    trial = DryRun("spec.tasks[3].template", TEMPLATE, POD, immediate)
    message = dry_run_findings([(trial, answer)], policy or AdmissionPolicy())
    return [f"warning: {item}" if item.warning else str(item) for item in message]


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("spec.restartPolicy", "spec.tasks[3].template.spec.restartPolicy: wrong"),
        ("metadata.labels[a/b.c]", "spec.tasks[3].template.metadata.labels[a/b.c]: wrong"),
        ("spec.containers[1].image", "spec.tasks[3].template.spec.containers[0].image: wrong"),
        ("spec.containers[2].env[0].name", "spec.tasks[3].template.spec.containers[1].env: {}"),
        ("spec.containers[0].env[0].name", "spec.tasks[3].template.spec.containers: {}"),
        ("spec.volumes[1].name", "spec.tasks[3].template.spec.volumes: {}"),
        ("spec.volumes[0]", "spec.tasks[3].template.spec.volumes[0]: wrong"),
        ("spec.volumes[9]", "spec.tasks[3].template.spec.volumes: {}"),
    ],
)
def test_a_pod_path_is_mapped_to_the_template(path: str, there: str) -> None:
    message = there.replace("{}", f"{path} of the pod: wrong")
    assert said(DryRunResult(422, "Pod is invalid", (Problem(path, "wrong"),))) == [message]


AT = "spec.tasks[3].template: "


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (DryRunResult(201), []),
        (DryRunResult(409, 'pods "dry-run" already exists'), []),
        (
            DryRunResult(
                403, 'pods "dry-run" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
            ),
            [f'{AT}the API server rejects the pod: violates PodSecurity "restricted:latest": runAsNonRoot != true'],
        ),
        (
            DryRunResult(
                403, 'pods "dry-run" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
            ),
            [
                f"warning: {AT}the API server currently rejects the pod: exceeded quota: q, requested: pods=1,"
                " used: pods=2, limited: pods=2"
            ],
        ),
        (
            DryRunResult(400, 'admission webhook "x" does not support dry run'),
            [f'warning: {AT}the API server could not check the pod: admission webhook "x" does not support dry run'],
        ),
        (
            DryRunResult(403, 'pods is forbidden: User "x" cannot create resource "pods" in API group ""'),
            [
                f"warning: {AT}the API server could not check the pod: "
                'pods is forbidden: User "x" cannot create resource "pods" in API group ""'
            ],
        ),
        (
            DryRunResult(422, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"),
            [f"{AT}the API server rejects the pod: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"],
        ),
        (
            DryRunResult(201, warnings=("spec.containers[1].env[1]: hides another", "would violate PodSecurity")),
            [
                "warning: spec.tasks[3].template.spec.containers[0].env[1]: hides another",
                f"warning: {AT}would violate PodSecurity",
            ],
        ),
    ],
)
def test_a_response_is_translated_to_a_problem(answer: DryRunResult, told: list[str]) -> None:
    assert said(answer) == told


@pytest.mark.parametrize("code", [0, 401, 404, 429, 500, 503])
def test_an_unreachable_server_is_a_warning_or_a_rejection_as_configured(code: int) -> None:
    silent = DryRunResult(code, "it did not answer")
    assert said(silent)[0].startswith("warning: ")
    assert not said(silent, AdmissionPolicy(pod_unchecked="allow"))
    assert said(silent, AdmissionPolicy(pod_unchecked="reject"))[0].startswith(AT)


def test_rejections_may_be_configured_as_warnings() -> None:
    refusal = DryRunResult(422, "", (Problem("spec.restartPolicy", "wrong"),))
    message = said(refusal, AdmissionPolicy(pod_rejected="warn"))
    assert message == ["warning: spec.tasks[3].template.spec.restartPolicy: wrong"]


def test_rules_of_the_namespace_are_warnings_for_later_pods() -> None:
    security = DryRunResult(403, "violates PodSecurity")
    assert said(security, immediate=False)[0].startswith("warning: ")
    assert not said(DryRunResult(422, "", (Problem("spec", "wrong"),)), immediate=False)[0].startswith("warning: ")


def test_a_timeout_of_many_tasks_is_reported_once() -> None:
    trial = DryRun("spec.tasks[0].template", TEMPLATE, POD)
    message = list(dry_run_findings([(trial, DryRunResult(0, "silent"))] * 9, AdmissionPolicy()))
    assert len(message) == 1


def test_dry_run_rejections_are_listed_with_the_others() -> None:
    result = batch_job(task("a"), queue="nope", minAvailable=9)
    (trial,) = asked(result)
    context = replace(
        WORLD, dry_runs=((trial, DryRunResult(422, "", (Problem("spec.containers[0].image", "Required"),))),)
    )
    message = validate(body(result), context)["response"]["status"]["message"]
    assert "spec.minAvailable: Invalid value: 9" in message
    assert 'spec.queue: Not found: queue "nope"' in message
    assert "spec.tasks[0].template.spec.containers[0].image: Required" in message


def test_a_flow_has_dry_runs_of_the_tasks_that_it_changes() -> None:
    source = JobTemplate.read(
        {
            "apiVersion": names.FLOW_V1ALPHA1,
            "kind": "JobTemplate",
            "metadata": {"name": "t", "namespace": "team"},
            "spec": {"tasks": [task("a"), task("b")]},
        }
    )
    change = {"name": "b", "template": {"spec": {"restartPolicy": "Sometimes"}}}
    manifest = {
        "apiVersion": names.FLOW_V1ALPHA1,
        "kind": "JobFlow",
        "metadata": {"name": "f", "namespace": "team"},
        "spec": {"flows": [{"name": "t"}, {"name": "u", "template": "t", "patch": {"jobSpec": {"tasks": [change]}}}]},
    }
    [trial] = asked(manifest, context=replace(WORLD, job_templates={"t": source}))
    assert trial.path == "spec.flows[1].patch.jobSpec.tasks[0].template"
    assert not trial.immediate
    assert isinstance(trial.pod, dict)
    assert trial.pod["spec"]["restartPolicy"] == "Sometimes"
    rejection = DryRunResult(422, "x", (Problem("spec.restartPolicy", "Unsupported value"),))
    [problem] = dry_run_findings([(trial, rejection)], WORLD.policy)
    assert str(problem) == "spec.flows[1].patch.jobSpec.tasks[0].template.spec.restartPolicy: Unsupported value"
    assert asked(manifest) == ()
    assert asked(manifest, manifest, replace(WORLD, job_templates={"t": source})) == ()
