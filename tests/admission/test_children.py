"""What the controllers create from an admitted job is accepted and can be read: amounts and sizes are checked on the job."""

import pytest

from tests.admission.test_entry import Json, job
from tests.admission.test_powers import answer
from volcanopy.admission import children


@pytest.mark.parametrize(
    ("amount", "sentence"),
    [
        ("1e99999", "cpu requested is too large: must be less than"),
        ("9" * 900, "cpu requested is too large: must be less than"),
        ("9" * 1001, "is not a quantity"),
        ("abc", "[cpu]: Invalid value: 'abc' is not a quantity"),
        (" 1", "is not a quantity"),
        ("\uff11", "is not a quantity"),
        (True, "is not a quantity"),
        ("-1", "must be greater than or equal to 0"),
        ("1e-99999", ""),
        ("1.5", ""),
    ],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers", "resources", "overhead"])
def test_amounts_in_templates_can_be_read(kind: str, amount: object, sentence: str) -> None:
    made = job("free", "1")
    spec = made["spec"]["tasks"][0]["template"]["spec"]
    amounts = {"cpu": amount}
    container = {"name": "a", "image": "b", "resources": {"requests": amounts}}
    spec |= {
        "containers": {"containers": [container]},
        "initContainers": {"initContainers": [container]},
        "resources": {"resources": {"requests": amounts}},
        "overhead": {"overhead": amounts},
    }[kind]
    message = answer(None, made)
    assert sentence in message
    assert bool(message) is bool(sentence)


def test_a_resource_list_has_at_most_as_many_resources_as_are_counted() -> None:
    made = job("free", "1")
    requests = {f"example.com/r{number}": "1" for number in range(children.MAX_RESOURCES + 1)}
    made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["requests"] = requests
    assert "resources.requests: Too many: 65: must have at most 64 items" in answer(None, made)


def test_a_template_has_at_most_as_many_containers_as_are_read() -> None:
    made = job("free", "1")
    spec = made["spec"]["tasks"][0]["template"]["spec"]
    spec["containers"] = [{"name": f"c{number}", "image": "b"} for number in range(children.MAX_CONTAINERS + 1)]
    assert "template.spec.containers: Too many: 1025: must have at most 1024 items" in answer(None, made)


def _of_size(made: Json, size: int) -> Json:
    notes = made["metadata"]["annotations"]
    so_far = sum(len(key) + len(value) for key, value in notes.items())
    return {**made, "metadata": {**made["metadata"], "annotations": notes | {"x": "a" * (size - so_far - 1)}}}


@pytest.mark.parametrize(("more", "accepted"), [(0, True), (1, False)])
def test_annotations_of_a_job_leave_room_for_those_of_its_children(more: int, accepted: bool) -> None:
    most = children.MAX_ANNOTATIONS - children.ADDED_ANNOTATIONS
    message = answer(None, _of_size(job("free", "1"), most + more))
    assert (message == "") is accepted
    assert accepted or f"metadata.annotations: Too long: {most + 1} bytes, must have at most {most}" in message


def test_annotations_of_a_template_count_with_those_of_the_job() -> None:
    made = _of_size(job("free", "1"), 150_000)
    made["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {"y": "b" * 150_000}}
    assert "spec.tasks[0].template.metadata.annotations: Too long: 300001 bytes with those of the job" in answer(
        None, made
    )
