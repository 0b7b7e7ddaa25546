"""The definitions under Volcano's groups: every field of Volcano's own definitions exists with the same type.

The table ``volcano_fields.txt`` has the facts: the names, columns and fields of Volcano's definitions, without the fields of pod
templates and volume claims, which are those of Kubernetes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from volcanopy.api.bindings import BINDINGS, VOLCANO, VOLCANOPY
from volcanopy.api.volcano_crds import crds_of

TABLE = Path(__file__).with_name("volcano_fields.txt")
Json = dict[str, Any]


@dataclass
class Facts:
    """What Volcano publishes about a kind."""

    name: str
    kind: str
    scope: str
    short_names: list[str]
    version: str
    columns: list[tuple[str, str, str, int]] = field(default_factory=list)
    fields: list[tuple[str, str]] = field(default_factory=list)


def facts() -> Iterator[Facts]:
    """Every kind of the table."""
    kind: Facts | None = None
    for line in TABLE.read_text().splitlines():
        words = line.split()
        if line.startswith("  "):
            assert kind is not None
            kind.fields.append((words[0], words[1]))
        elif line.startswith("| "):
            assert kind is not None
            kind.columns.append((words[1], words[2], words[3], int(words[4])))
        else:
            if kind is not None:
                yield kind
            short = [] if words[3] == "-" else words[3].split(",")
            kind = Facts(words[0], words[1], words[2], short, words[4])
    assert kind is not None
    yield kind


FACTS = tuple(facts())


@cache
def definitions() -> dict[str, Json]:
    """The definitions of Volcano's API by name."""
    return {definition["metadata"]["name"]: definition for definition in crds_of((VOLCANO,))}


def step_into(schema: Json, step: str) -> Json | None:
    """The schema of ``name``, ``[]`` or ``{}`` below another one, None if it allows no such field."""
    below: Json | None
    match step:
        case "[]":
            below = schema.get("items")
        case "{}":
            below = schema.get("additionalProperties")
        case _:
            below = schema.get("properties", {}).get(step)
    return below


def type_at(schema: Json, path: str) -> str:
    """The type of the field at a path; ``anything`` below a field that accepts every content, empty if it is unknown."""
    at: Json | None = schema
    for step in path.replace("[]", ".[]").replace("{}", ".{}").split(".")[1:]:
        if at is not None and at.get("x-kubernetes-preserve-unknown-fields"):
            return "anything"
        at = None if at is None else step_into(at, step)
    if at is None:
        return ""
    return "int-or-string" if at.get("x-kubernetes-int-or-string") else str(at.get("type"))


def test_every_kind_of_volcano_is_defined() -> None:
    assert set(definitions()) == {kind.name for kind in FACTS}


@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.name)
def test_every_field_of_volcano_has_the_same_type(kind: Facts) -> None:
    schema = definitions()[kind.name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert len(kind.fields) > 5
    differing = {path: (type_at(schema, path), theirs) for path, theirs in kind.fields}
    assert {path: pair for path, pair in differing.items() if pair[0] not in {pair[1], "anything"}} == {}


@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.name)
def test_names_versions_and_columns_are_those_of_volcano(kind: Facts) -> None:
    spec = definitions()[kind.name]["spec"]
    version = spec["versions"][0]
    columns = [
        (column["name"], column["jsonPath"], column["type"], column.get("priority", 0))
        for column in version.get("additionalPrinterColumns", ())
    ]
    assert (spec["names"]["kind"], spec["scope"], version["name"]) == (kind.kind, kind.scope, kind.version)
    assert sorted(spec["names"].get("shortNames", ())) == sorted(kind.short_names)
    assert spec["names"]["plural"] == kind.name.partition(".")[0]
    assert columns == kind.columns


def test_only_a_pod_group_has_no_status_subresource_though_it_has_a_status() -> None:
    without = {
        definition["spec"]["names"]["kind"]
        for definition in definitions().values()
        if "status" in definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        and "subresources" not in definition["spec"]["versions"][0]
    }
    assert without == {"PodGroup"}


def test_both_apis_have_different_definitions() -> None:
    names = [definition["metadata"]["name"] for definition in crds_of(BINDINGS)]
    assert len(names) == len(set(names)) == len(crds_of((VOLCANOPY,))) + len(definitions())


def test_no_rule_at_the_root_is_stricter_than_volcano() -> None:
    """Such a rule is evaluated for each status, also of an object that Volcano has admitted."""
    schemas = [
        version["schema"]["openAPIV3Schema"]
        for definition in definitions().values()
        for version in definition["spec"]["versions"]
    ]
    assert [schema["x-kubernetes-validations"] for schema in schemas if "x-kubernetes-validations" in schema] == []
