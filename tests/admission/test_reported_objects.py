"""Objects as users of Volcano, Kueue and JobSet have reported them: accepted, or rejected with all that is wrong."""

from typing import Any

import pytest

from tests.admission.test_object_apis import message, written
from tests.admission.test_parents import cron, flow, job, refusal
from volcanopy.api import names
from volcanopy.api.batch import BatchJob, BatchJobStatus
from volcanopy.api.bindings import BINDINGS, VOLCANO, VOLCANOPY, Binding
from volcanopy.jobcontroller.job_podgroup import pod_group
from volcanopy.jobcontroller.pods import maker

Json = dict[str, Any]
EACH_API = pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)


def read(manifest: Json, binding: Binding, uid: str = "u1") -> BatchJob:
    return BatchJob.bound(binding).read({**manifest, "metadata": {**manifest["metadata"], "uid": uid}})


@EACH_API
def test_every_invalid_weight_of_a_hierarchy_is_named(binding: Binding) -> None:
    notes = {names.HIERARCHY: "root/sci", names.HIERARCHY_WEIGHTS: "bad/-1"}
    text = message(written(binding, "Queue", annotations=notes))
    key = binding.key(names.HIERARCHY_WEIGHTS)
    assert [f'[{key}]: Invalid value: "{weight}"' in text for weight in ("bad", "-1")] == [True, True]


@EACH_API
def test_the_name_of_a_tier_may_be_the_key_of_a_label(binding: Binding) -> None:
    topology = {"mode": "hard", "highestTierName": "volcano.sh/hyperNode"}
    assert refusal(job(binding, "j", networkTopology=topology)) == ""


@EACH_API
def test_an_invalid_label_is_not_called_an_annotation(binding: Binding) -> None:
    key = binding.key(names.PREEMPTABLE)
    text = message(written(binding, "BatchJob", labels={names.PREEMPTABLE: "maybe"}))
    assert f"metadata.labels[{key}]" in text
    assert "annotations" not in text


@EACH_API
@pytest.mark.parametrize("plugins", [{}, {"svc": []}])
def test_a_name_that_is_too_long_for_its_pods_is_rejected_with_a_remedy(binding: Binding, plugins: Json) -> None:
    assert "shorten the name of the job or task" in refusal(job(binding, "j" * 61, plugins=plugins))


@EACH_API
def test_a_cron_job_whose_pods_have_too_long_names_is_rejected(binding: Binding) -> None:
    text = refusal(cron(binding, "c" * 40, task="t" * 20))
    assert text.startswith("spec.jobTemplate.spec.tasks[0].name: Too long: ")


@EACH_API
def test_a_flow_whose_jobs_have_too_long_names_is_rejected(binding: Binding) -> None:
    assert refusal(flow(binding, "f" * 50, "step-of-this-flow")).startswith("spec.flows[0].name: Too long: ")


@EACH_API
def test_pods_of_a_job_join_its_pod_group_whatever_their_template_names(binding: Binding) -> None:
    manifest = job(binding, "j")
    template = manifest["spec"]["tasks"][0]["template"]
    template = {**template, "metadata": {"annotations": {names.GROUP_NAME: "another"}}}
    manifest["spec"]["tasks"][0] = {**manifest["spec"]["tasks"][0], "template": template}
    item = read(manifest, binding)
    pod = maker(item, BatchJobStatus(), item.spec.tasks[0], ())(0)
    assert pod["metadata"]["annotations"][names.GROUP_NAME] == "j-u1"


@EACH_API
def test_a_job_that_is_created_again_has_another_pod_group(binding: Binding) -> None:
    groups = [
        pod_group(read(job(binding, "j"), binding, uid), BatchJobStatus(), (), {})["metadata"]["name"]
        for uid in ("u1", "u2")
    ]
    assert groups == ["j-u1", "j-u2"]


def test_a_job_without_plugins_is_accepted_where_only_its_service_name_would_be_invalid() -> None:
    assert refusal(job(VOLCANO, "1.2")) == ""
    assert "begin with a letter" in refusal(job(VOLCANO, "1.2", plugins={"svc": []}))
    assert refusal(job(VOLCANOPY, "1a")) == ""
