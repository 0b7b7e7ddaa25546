"""Null is the same as an absent field in what a webhook reviews and `plan` reads: a client in Go writes it for an empty list."""

import functools
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml

from tests.admission.golden_cases import answered, cases, read
from volcanopy.whatif.load import type_problems

Json = dict[str, Any]
DEFINITIONS = Path(__file__).parents[2] / "charts/volcanopy/crds"
REVIEWED = [name for name in cases() if read(name, "input").get("object")]
JOBS = [name for name in REVIEWED if read(name, "input")["object"]["kind"] == "BatchJob"]


@functools.cache
def schemas() -> dict[str, Json]:
    """The schemas by kind; that of a pod is the template of a job's tasks."""
    shapes = {}
    for path in DEFINITIONS.glob("*.yaml"):
        spec = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]
        shapes[spec["names"]["kind"]] = spec["versions"][0]["schema"]["openAPIV3Schema"]
    task = shapes["BatchJob"]["properties"]["spec"]["properties"]["tasks"]["items"]
    return {**shapes, "Pod": task["properties"]["template"]}


def with_nulls(value: Any, schema: Json) -> Any:
    """A value with null in each field that it lacks."""
    if isinstance(value, list):
        return [with_nulls(item, schema.get("items", {})) for item in value]
    fields = schema.get("properties")
    if not isinstance(value, dict) or not fields:
        return value
    return dict.fromkeys(fields) | {name: with_nulls(member, fields.get(name, {})) for name, member in value.items()}


def without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return value


@pytest.mark.parametrize("name", REVIEWED)
def test_nulls_do_not_change_the_answer(name: str) -> None:
    case = read(name, "input")
    filled = dict(case)
    for key in ("object", "old"):
        if case.get(key):
            filled[key] = with_nulls(case[key], schemas()[case[key]["kind"]])
    plain, answer = answered(case), answered(filled)
    stored, expected = (
        without_nulls(jsonpatch.apply_patch(asked["object"], reply.pop("patch", [])))
        for asked, reply in ((filled, answer), (case, plain))
    )
    assert answer == plain
    assert stored == without_nulls(expected)


@pytest.mark.parametrize("name", JOBS)
def test_nulls_do_not_change_what_is_wrong_with_the_types_of_a_job(name: str) -> None:
    manifest = read(name, "input")["object"]
    assert type_problems(with_nulls(manifest, schemas()["BatchJob"])) == type_problems(manifest)
