"""Values of annotations that volcanopy reads are rejected if they are not valid."""

from typing import Any

import pytest

from tests.admission.test_object_apis import CONTEXT, message, written
from volcanopy.admission.annotation_values import FORMS
from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.api import names
from volcanopy.api.bindings import BINDINGS, Binding

VALID = {
    "must be true or false": ["true", "False", "1"],
    "must be a duration such as 90s, 10m or 1h30m": ["90s", "1h30m", "0"],
    "must be an integer greater than 0 or a percentage from 1% to 99%": ["1", "50%"],
    'must be "*"': ["*"],
    "must be an integer": ["0", "-5"],
    'must be an integer greater than 0, or "all"': ["2", "all"],
    "must be hard or soft": ["hard"],
    "must be the number of a tier": ["2"],
}
KINDS = ("Pod", "BatchJob", "PodGroup")


def problems(manifest: dict[str, Any], **more: Any) -> str:
    return message(manifest, **more)


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", FORMS)
def test_a_value_of_another_form_is_rejected_with_its_rule(binding: Binding, kind: str, key: str) -> None:
    for value in ("maybe", "-1s", ""):
        if not FORMS[key].accepts(value):
            text = problems(written(binding, kind, annotations={key: value}))
            path = f"metadata.annotations[{binding.key(key)}]"
            assert f'{path}: Invalid value: "{value}": {FORMS[key].rule}' in text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", FORMS)
def test_a_valid_value_is_accepted(kind: str, key: str) -> None:
    for value in VALID[FORMS[key].rule]:
        assert problems(written(BINDINGS[0], kind, annotations={key: value})) == ""


@pytest.mark.parametrize("kind", ["PodGroup", "BatchJob"])
def test_an_unchanged_value_is_accepted(kind: str) -> None:
    manifest = written(BINDINGS[0], kind, annotations={names.PREEMPTABLE: "maybe"})
    assert problems(manifest, old=manifest) == ""


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
def test_values_in_templates_are_checked(binding: Binding) -> None:
    manifest = written(binding, "BatchJob")
    key = binding.key(names.PREEMPTABLE)
    task = manifest["spec"]["tasks"][0]
    task["template"] = {**task["template"], "metadata": {"labels": {key: "maybe"}}}
    expected = f'spec.tasks[0].template.metadata.labels[{key}]: Invalid value: "maybe": must be true or false'
    assert expected in problems(manifest)


def test_pods_that_the_controllers_create_are_accepted() -> None:
    policy = AdmissionPolicy(controllers=["ana"])
    manifest = written(BINDINGS[0], "Pod", annotations={names.PREEMPTABLE: "maybe"})
    context = Context(CONTEXT.queues, CONTEXT.check_plugins, policy=policy)
    assert "must be true or false" in problems(manifest, context=context)
    manifest["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    ]
    assert problems(manifest, context=context) == ""
