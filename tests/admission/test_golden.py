"""Every rule of admission has a case that shows it at work: ``golden/<case>/input.yaml`` and ``output.yaml``."""

import json

import pytest

from tests.admission.golden_cases import answered, cases, question, read, world
from volcanopy.admission.review import validate


@pytest.mark.parametrize("name", cases())
def test_a_case_has_its_golden_response(name: str) -> None:
    agreed = read(name, "output")
    agreed.pop("kubectl", None)
    assert answered(read(name, "input")) == agreed


@pytest.mark.parametrize("name", [name for name in cases() if read(name, "output")["allowed"]])
def test_defaulted_objects_pass_validation(name: str) -> None:
    said, agreed = read(name, "input"), read(name, "output")
    asked = question(said)
    if asked["request"]["object"] is not None:
        asked["request"]["object"] = _patched(asked["request"]["object"], agreed.get("patch", []))
    assert validate(asked, world(said))["response"]["allowed"]


def _patched(result: dict[str, object], operations: list[dict[str, object]]) -> dict[str, object]:
    import jsonpatch

    made: dict[str, object] = jsonpatch.apply_patch(json.loads(json.dumps(result)), operations)
    return made
