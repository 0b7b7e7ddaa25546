"""``python -m hack.readmodels`` writes the read models of custom resources from their full models.

The read models of ``volcanopy.api.batch`` are in ``volcanopy.api.batch_read``, and so on. They read every object that a server
returns: enums, durations and patterns are texts, and a field that is absent has the default of the full model, or the zero value
of its type as in Go.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from volcanopy.api import alternatives, batch, core, flow, lifecycle, model, read_model, scheduling, topology
from volcanopy.api.crd import RESOURCES

API = Path(read_model.__file__).parent
MODULES = (alternatives, batch, flow, lifecycle, scheduling, topology)
"""The modules whose full models have read models."""
KINDS = [kind.model for kind in RESOURCES if kind.model.__name__ not in ("Command", "CronBatchJob", "JobHistory")]
"""The kinds that are read often: a Command is read once, cron jobs and records of jobs are few."""
SHARED: dict[type[Any], str] = {
    model.ObjectMeta: "Meta",
    model.Condition: "Condition",
    scheduling.PodGroupCondition: "Condition",
    model.LabelSelector: "LabelSelector",
    model.OwnerReference: "OwnerReference",
}
"""The read models of what objects of all kinds share, those of Kubernetes too. They are written by hand."""
DEFINITIONS = {"PodTemplateSpec": core.PodTemplate, "NodeAffinity": core.NodeAffinity, "Toleration": core.Toleration}
"""The read models of definitions of Kubernetes. Other definitions are read as JSON."""
EXCEPTIONS = {
    (scheduling.PodGroupSpec, "min_resources"): "Quantities | None = None",  # no requests differ from no value
    (scheduling.QueueSpec, "guarantee"): "Guarantee = Guarantee()",
    (scheduling.PodGroupSpec, "queue"): 'str = ""',  # the queue of an object without one is decided by admission
    (batch.BatchJobSpec, "queue"): 'str = ""',
    (scheduling.QueueUser, "name"): "str",  # required fields of what is written: defaults are not written
    (scheduling.PodMove, "pod"): "str",
    (scheduling.PodMove, "node"): "str",
}
"""Fields that differ from the rules."""
JSON_FIELDS = {(scheduling.QueueSpec, "affinity"), (flow.FlowDependsOn, "probe")}
"""Fields with models that are read as JSON, by a policy and by the full model."""


def sources() -> dict[Path, str]:
    """Return the text of each module of read models."""
    return {API / f"{_stem(module.__name__)}.py": _module(module) for module in MODULES}


def _stem(module: str) -> str:
    return module.removeprefix("volcanopy.api.") + "_read"


def _module(module: ModuleType) -> str:
    classes = "".join(
        _class(kind) for kind in vars(module).values() if _is_model(kind) and HOMES.get(kind) == module.__name__
    )
    imports = "".join(_imports(classes, _stem(module.__name__)))
    head = (
        f'"""Read models of :mod:`{module.__name__}`, written by ``make golden`` from the full models."""\n\n{imports}'
    )
    ruff = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(API / "read.py"), "-"]
    return subprocess.run(ruff, input=head + classes, capture_output=True, text=True, check=True).stdout


def _class(kind: type[model.Model]) -> str:
    fields = "".join(f"    {name}: {field_of(kind, name)}\n" for name in kind.model_fields if name != "kind")
    return f"\n\nclass {kind.__name__}(ReadModel, frozen=True, kw_only=True, gc=False):\n{fields}"


def field_of(kind: type[model.Model], name: str) -> str:
    """Return the type and the default of a field."""
    field = kind.model_fields[name]
    if (kind, name) in EXCEPTIONS:
        return EXCEPTIONS[kind, name]
    if (kind, name) in JSON_FIELDS:
        return "dict[str, Any] | None = None"
    text, zero = _type(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation)
    return f"{text} = {_default(field, zero)}" if zero else text


def _default(field: FieldInfo, zero: str) -> str:
    """Return the default of the full model, or the zero value of the type."""
    default = field.default
    if default is PydanticUndefined:
        least = [limit.ge for limit in field.metadata if hasattr(limit, "ge")]
        return str(least[0]) if least else zero
    return zero if default is None or isinstance(default, model.Model) else _literal(default)


def _literal(value: Any) -> str:
    return '"' + value + '"' if isinstance(value, str) else repr(value)


def _type(annotation: Any) -> tuple[str, str]:
    """Return a type of a read model and its zero value; none for metadata, which each object has."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        schemas = [item.json_schema or {} for item in arguments[1:] if isinstance(item, WithJsonSchema)]
        definition = next((schema.get("x-volcanopy-definition", "") for schema in schemas), "").rpartition(".")[2]
        if definition not in DEFINITIONS:
            return _type(arguments[0])
        name = DEFINITIONS[definition].__name__
        return (f"{name} | None", "None") if NoneType in get_args(arguments[0]) else (name, f"{name}()")
    if origin in (Union, UnionType) and NoneType in arguments:
        text, zero = _type(next(argument for argument in arguments if argument is not NoneType))
        return (text, zero) if zero in ("None", "()", "{}", '""') and "Any" not in text else (f"{text} | None", "None")
    if annotation == model.ResourceList:
        return "Quantities", "{}"
    if origin is dict:
        return f"dict[str, {_type(arguments[1])[0]}]", "{}"
    if origin is list:
        return f"tuple[{_type(arguments[0])[0]}, ...]", "()"
    if annotation is datetime:
        return "datetime | None", "None"
    if annotation is model.ObjectMeta:
        return "Meta", ""
    if _is_model(annotation):
        name = SHARED.get(annotation, annotation.__name__)
        return name, f"{name}()"
    if annotation is Any:
        return "Any", "None"
    if annotation in (int, bool):
        return annotation.__name__, "0" if annotation is int else "False"
    return "str", '""'


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, model.Model)


def _read_models(annotation: Any) -> Iterator[type[model.Model]]:
    """Yield the models that a type mentions and those of their fields, but not those that are shared or read as JSON."""
    if _is_model(annotation) and annotation not in SHARED:
        yield annotation
        for name, field in annotation.model_fields.items():
            if (annotation, name) not in JSON_FIELDS:
                yield from _read_models(field.annotation)
    for argument in get_args(annotation):
        yield from _read_models(argument)


HOMES: dict[Any, str] = {parent: parent.__module__ for kind in KINDS for parent in _read_models(kind)}
"""The module of each full model that has a generated read model."""


def _imports(classes: str, own: str) -> Iterator[str]:
    """Yield the imports of what the classes name."""
    mentioned = set(re.findall(r"\b[A-Za-z]\w+", classes)) - set(re.findall(r"class (\w+)", classes))
    if "datetime" in mentioned:
        yield "from datetime import datetime\n"
    if "Any" in mentioned:
        yield "from typing import Any\n"
    yield "\n"
    homes = dict.fromkeys((*SHARED.values(), "ReadModel", "Quantities"), "read_model")
    homes |= {kind.__name__: kind.__module__.removeprefix("volcanopy.api.") for kind in DEFINITIONS.values()}
    homes |= {kind.__name__: _stem(module) for kind, module in HOMES.items()}
    homes = {name: home for name, home in homes.items() if name in mentioned and home != own}
    for home in sorted(set(homes.values())):
        yield f"from volcanopy.api.{home} import {', '.join(sorted(name for name in homes if homes[name] == home))}\n"


if __name__ == "__main__":
    for path, text in sources().items():
        path.write_text(text, "utf-8")
