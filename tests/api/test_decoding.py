"""Null is the same as an absent field: for each field of each read model, on each path into the product."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

import volcanopy.api
from volcanopy.api import batch, core, decoding
from volcanopy.api.builtin import storage
from volcanopy.api.model import InvalidObjectError
from volcanopy.api.read_model import ReadModel


def _models() -> list[type[ReadModel]]:
    for module in pkgutil.walk_packages(volcanopy.api.__path__, "volcanopy.api."):
        importlib.import_module(module.name)

    def below(model: type[ReadModel]) -> Iterator[type[ReadModel]]:
        for child in model.__subclasses__():
            yield child
            yield from below(child)

    return sorted((model for model in below(ReadModel) if model.__module__.startswith("volcanopy.api")), key=str)


def example(kind: inspect.Type, nulls: bool) -> Any:
    """A value of a type with every required field; with `nulls` also each other field as null."""
    match kind:
        case inspect.StructType(fields=fields):
            required = {field.encode_name: example(field.type, nulls) for field in fields if field.required}
            optional = {field.encode_name: None for field in fields if not field.required} if nulls else {}
            return optional | required
        case inspect.StrType():
            return "a"
        case inspect.IntType():
            return 1
        case inspect.FloatType():
            return 1.0
        case inspect.DateTimeType():
            return "2026-01-01T00:00:00Z"
        case _:
            raise AssertionError(f"no example of a required {kind}")


@pytest.mark.parametrize("model", _models(), ids=lambda model: f"{model.__module__}.{model.__name__}")
def test_each_null_field_of_a_read_model_is_as_if_it_were_absent(model: type[ReadModel]) -> None:
    kind = inspect.type_info(model)
    absent = decoding.convert(example(kind, nulls=False), model)
    body = example(kind, nulls=True)
    assert decoding.convert(body, model) == absent
    assert decoding.decode(msgspec.json.encode(body), model) == absent


@pytest.mark.parametrize("model", _models(), ids=lambda model: f"{model.__module__}.{model.__name__}")
def test_nulls_below_a_field_are_absent_too(model: type[ReadModel]) -> None:
    kind = inspect.type_info(model)
    assert isinstance(kind, inspect.StructType)
    base = example(kind, nulls=False)
    for field in kind.fields:
        for inner in _structs_of(field.type):
            for wrapped in _shapes(field.type, inner):
                with_nulls = base | {field.encode_name: wrapped(example(inner, nulls=True))}
                without = base | {field.encode_name: wrapped(example(inner, nulls=False))}
                assert decoding.convert(with_nulls, model) == decoding.convert(without, model), field.name


def _structs_of(kind: inspect.Type) -> list[inspect.StructType]:
    match kind:
        case inspect.StructType():
            return [kind]
        case inspect.UnionType(types=types):
            return [each for member in types for each in _structs_of(member)]
        case (
            inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item) | inspect.DictType(value_type=item)
        ):
            return _structs_of(item)
    return []


def _shapes(kind: inspect.Type, inner: inspect.StructType) -> list[Any]:
    """Functions that put a value of `inner` into a value of `kind`."""
    match kind:
        case inspect.UnionType(types=types):
            return [shape for member in types for shape in _shapes(member, inner)]
        case inspect.ListType() | inspect.VarTupleType():
            return [lambda value: [value]]
        case inspect.DictType():
            return [lambda value: {"key": value}]
        case inspect.StructType():
            return [lambda value: value] if kind == inner else []
    return []


def test_a_node_with_an_untagged_image_is_read() -> None:
    body = b'{"metadata":{"name":"n"},"status":{"images":[{"names":null,"sizeBytes":5}],"allocatable":{"cpu":"4"}}}'
    node = decoding.decode(body, core.Node)
    assert node.status.allocatable == {"cpu": "4"}
    assert [image.names for image in node.status.images] == [()]


def test_a_csinode_without_drivers_is_read() -> None:
    assert decoding.decode(b'{"metadata":{"name":"n"},"spec":{"drivers":null}}', storage.CSINode).spec.drivers == ()


def test_a_null_label_is_absent_and_free_content_is_unchanged() -> None:
    pod = decoding.convert(
        {
            "metadata": {"name": "p", "labels": {"a": None, "b": "c"}},
            "spec": {"volumes": [{"name": "v", "ephemeral": {"spec": None}, "persistentVolumeClaim": None}]},
        },
        core.Pod,
    )
    assert pod.metadata.labels == {"b": "c"}
    assert pod.spec.volumes[0].ephemeral == {"spec": None}


def test_what_is_wrong_besides_a_null_is_still_reported() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"allocatable"):
        decoding.decode(b'{"metadata":{"name":"n"},"status":{"images":null,"allocatable":7}}', core.Node)


def test_a_null_in_a_full_model_is_absent_where_the_field_has_no_null() -> None:
    body = _job(minAvailable=None, plugins=None, policies=None, tasks=[_task(policies=None)])
    assert batch.BatchJob.read(body, unknown="forbid") == batch.BatchJob.read(_job(tasks=[_task()]))


def test_a_required_field_that_is_null_is_required() -> None:
    with pytest.raises(InvalidObjectError, match=r"spec\.tasks\[0\]\.template: Required value"):
        batch.BatchJob.read(_job(tasks=[{"name": "a", "template": None}]))


def _job(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "j", "namespace": "default", "labels": None}, "spec": spec}


def _task(**fields: Any) -> dict[str, Any]:
    return {"name": "a", "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}, **fields}
