"""The generated read models of custom resources."""

from typing import Any

import msgspec
import pytest
from pydantic import Field, create_model

from hack import readmodels
from volcanopy.api import alternatives, core, model, scheduling
from volcanopy.api.crd import RESOURCES


def test_the_read_models_are_those_of_the_full_models() -> None:
    differing = [path.name for path, text in readmodels.sources().items() if path.read_text("utf-8") != text]
    assert differing == [], "call `make golden`"


@pytest.mark.parametrize(
    ("annotation", "default", "text"),
    [
        (str, ..., 'str = ""'),
        (str | None, None, 'str = ""'),
        (model.Duration | None, None, 'str = ""'),
        (model.Int32, Field(ge=1), "int = 1"),
        (model.Int32 | None, None, "int | None = None"),
        (model.Bool, True, "bool = True"),
        (model.Bool | None, None, "bool | None = None"),
        (model.Time, ..., "datetime | None = None"),
        (model.ResourceList | None, None, "Quantities = {}"),
        (dict[str, model.ResourceList], Field(default_factory=dict), "dict[str, Quantities] = {}"),
        (dict[str, Any] | None, None, "dict[str, Any] | None = None"),
        (list[model.Label], Field(default_factory=list), "tuple[str, ...] = ()"),
        (model.LabelSelector | None, None, "LabelSelector | None = None"),
        (model.ObjectMeta, ..., "Meta"),
    ],
)
def test_a_field_of_a_full_model_becomes_a_field_with_a_default(annotation: Any, default: Any, text: str) -> None:
    full = create_model("Full", __base__=model.Model, field=(annotation, default))
    assert readmodels.field_of(full, "field") == text


def test_every_kind_that_is_read_often_has_a_read_model() -> None:
    names = {resource.model.__name__ for resource in RESOURCES} - {full.__name__ for full in readmodels.KINDS}
    assert names == {"Command", "CronBatchJob", "JobHistory"}, "they are few, and read with the full model"


@pytest.mark.parametrize(
    ("read", "full"),
    [
        (core.QueueUser(name=""), scheduling.QueueUser),
        (core.PodMove(pod="", node=""), scheduling.PodMove),
        (core.EstimatedStart(), scheduling.EstimatedStart),
        (core.SelectedAlternative(), alternatives.SelectedAlternative),
        (core.Explanation(), scheduling.Explanation),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_scheduler_writes_has_the_required_fields(read: core.ReadModel, full: type[model.Model]) -> None:
    assert full.problems(msgspec.to_builtins(read)) == ()
