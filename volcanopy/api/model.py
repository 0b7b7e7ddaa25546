"""Base of the full models of API objects: camelCase on the wire, validation errors with paths, shared parts and types.

An object that a user wrote (a file, an admission request) is read with ``unknown="forbid"``: a misspelt field is an error
with its path. An object from an API server is read with ``unknown="ignore"``: the server may be newer than this program.
"""

import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from functools import lru_cache, reduce
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    Strict,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails

from volcanopy.api import quantity
from volcanopy.api.attribute_docstrings import attribute_docstrings
from volcanopy.api.bindings import VOLCANOPY, Binding, binding_of
from volcanopy.api.messages import MESSAGE_LENGTH, shortened
from volcanopy.api.times import format_time

Json = dict[str, Any]
"""A decoded JSON object."""

MOST_PROBLEMS = 100
"""Maximum number of problems that are reported for one object."""

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""A DNS label (at most 63 characters)."""

PATH_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""A DNS subdomain, the form of most object names (at most 253 characters)."""

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$"

_DURATION_PARTS = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h)")
_MICROSECONDS = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "ms": Fraction(1000),
    "s": Fraction(10**6),
    "m": Fraction(60 * 10**6),
    "h": Fraction(3600 * 10**6),
}


@dataclass(frozen=True)
class Rule:
    """A CEL validation rule of a custom resource.

    ``message`` is reported when the rule fails, at the path ``field`` (``.minAvailable``). Lists that rules iterate over need
    a maximum size, because an API server rejects definitions whose rules may exceed the cost limit.
    """

    expression: str
    message: str
    field: str = ""

    def schema(self) -> Json:
        """Return the entry of ``x-kubernetes-validations``."""
        entry = {"rule": self.expression, "message": self.message}
        if self.field:
            entry["fieldPath"] = self.field
        return entry


@dataclass(frozen=True)
class Problem:
    """A validation error of an object: the path of the field and a message in the form of Kubernetes' field errors."""

    path: str
    message: str
    warning: bool = False
    """Whether the object is accepted all the same."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def invalid(path: str, value: object, detail: str) -> Problem:
    """Return the problem of a field whose value is not valid."""
    return Problem(path, f"Invalid value: {shown(value)}: {detail}")


def duplicate(path: str, value: object) -> Problem:
    """Return the problem of a value that occurs twice."""
    return Problem(path, f"Duplicate value: {shown(value)}")


def not_found(path: str, kind: str, name: str, fix: str = "") -> Problem:
    """Return the problem of a reference to an object that does not exist; ``fix`` is appended after a colon."""
    return Problem(path, f"Not found: {kind} {shown(name)}" + (f": {fix}" if fix else ""))


def forbidden(path: str, detail: str) -> Problem:
    """Return the problem of a field that must not be set or changed."""
    return Problem(path, f"Forbidden: {detail}")


def unsupported(path: str, value: object, supported: Iterable[str]) -> Problem:
    """Return the problem of a value that is not one of those supported."""
    return Problem(path, f"Unsupported value: {shown(value)}: supported values: {quoted(supported)}")


def too_many(path: str, number: int, limit: int) -> Problem:
    """Return the problem of a list or map with too many entries."""
    return Problem(path, f"Too many: {number}: must have at most {quantity.counted(limit, 'item')}")


def too_long(path: str, text: str, limit: int, detail: str = "") -> Problem:
    """Return the problem of a text with more than ``limit`` characters; ``detail`` is appended after a colon."""
    message = f"Too long: {shown(text)} has {len(text)} characters, must have at most {limit}"
    return Problem(path, message + (f": {detail}" if detail else ""))


def quoted(texts: Iterable[str]) -> str:
    """Return texts in double quotes, separated by commas: the first ones, and how many more there are.

    A message that names them stands for each of thousands of fields.
    """
    items = list(texts)
    more = f" and {len(items) - _MAX_QUOTED} more" if len(items) > _MAX_QUOTED else ""
    return ", ".join(f'"{text}"' for text in items[:_MAX_QUOTED]) + more


_MAX_QUOTED = 16


ATOMIC: JsonDict = {"x-kubernetes-list-type": "atomic"}
"""Schema of a list that server-side apply replaces as a whole."""
NO_DEFAULT: JsonDict = {"x-volcanopy-no-default": True}
"""Schema of a field whose default is not written into objects."""


def keyed(field: str) -> JsonDict:
    """Return the schema of a list that server-side apply merges by a field of its items."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [field]}


class InvalidObjectError(ValueError):
    """An object that does not match its model; ``problems`` lists every error."""

    def __init__(self, what: str, problems: Iterable[Problem]) -> None:
        self.what = what
        self.problems = tuple(problems)
        super().__init__(f"{what} is not valid: " + "; ".join(map(str, self.problems)))


class Model(BaseModel):
    """Base of the full models."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, defer_build=True
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
    binding: ClassVar[Binding] = VOLCANOPY
    """The API under whose names objects of this model are served."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        definition = handler.resolve_ref_schema(schema)
        if cls.rules:
            definition["x-kubernetes-validations"] = [rule.schema() for rule in cls.rules]
        for name, text in attribute_docstrings(cls).items():
            if name in cls.model_fields:
                definition["properties"][cls.model_fields[name].alias or name]["description"] = text
        return schema

    @classmethod
    def read(cls, data: Mapping[str, Any], unknown: Literal["forbid", "ignore"] = "ignore") -> Self:
        """Parse a JSON object, as the model in the API that it is of; null is the same as an absent field.

        Raises InvalidObjectError with every problem and its path.
        """
        model = cls._of_api(data)
        while True:
            try:
                return model.model_validate(data, extra=unknown)
            except ValidationError as error:
                problems = error.errors(include_url=False)
            nulls = [
                problem["loc"] for problem in problems if problem["type"] != "missing" and problem["input"] is None
            ]
            content = reduce(_without, nulls, data)
            if content is data:
                raise InvalidObjectError(model.__name__, map(_problem, problems[:MOST_PROBLEMS]))
            data = content

    @classmethod
    def _of_api(cls, data: Mapping[str, Any]) -> type[Self]:
        """Return the model of an object's API."""
        return cls.bound(binding_of(str(data.get("apiVersion") or ""))) if "api_version" in cls.model_fields else cls

    @classmethod
    def bound(cls, binding: Binding) -> type[Self]:
        """Return the model under the names of an API, which is derived from it; itself if the API lacks the kind."""
        if binding is cls.binding or not binding.models:
            return cls
        import_module(binding.models)
        return next((model for model in cls.__subclasses__() if model.binding is binding), cls)

    @classmethod
    def problems(cls, data: Mapping[str, Any]) -> tuple[Problem, ...]:
        """Return every problem of a JSON object that a user wrote; none if it matches the model."""
        try:
            cls.read(data, unknown="forbid")
        except InvalidObjectError as error:
            return error.problems
        return ()

    def write(self) -> Json:
        """Return the object as JSON, without fields that are not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def write_given(self) -> Json:
        """Return the fields that were set explicitly as JSON, without defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def path_of(steps: Iterable[str | int]) -> str:
    """Return a path in the notation of Kubernetes: ``spec.tasks[0].name``."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


_SHOWN = reprlib.Repr()  # the cost of showing a value does not grow with the value
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 200
_SHOWN.maxlist = _SHOWN.maxdict = 20


def shown(value: object) -> str:
    """Return a value for a message: texts in double quotes, at most 80 characters."""
    text = f'"{value}"' if isinstance(value, str) and len(value) <= 200 else _SHOWN.repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _without(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value without the null member at a path of an error; the value itself if there is none."""
    step, *rest = path or ("",)
    if isinstance(value, Mapping) and step in value:
        if not rest:
            return {name: member for name, member in value.items() if name != step} if value[step] is None else value
        member = _without(value[step], tuple(rest))
        return value if member is value[step] else {**value, step: member}
    if isinstance(value, list) and isinstance(step, int) and step < len(value) and rest:
        member = _without(value[step], tuple(rest))
        return value if member is value[step] else [*value[:step], member, *value[step + 1 :]]
    return value


UNKNOWN_FIELD = "Unknown field: correct its name or remove it"


def _problem(error: ErrorDetails) -> Problem:
    path, value, context = path_of(error["loc"]), error["input"], error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return Problem(path, UNKNOWN_FIELD)
        case "missing":
            return Problem(path, "Required value")
        case "enum" | "literal_error":
            return unsupported(path, value, re.findall(r"'([^']*)'", str(context["expected"])))
        case "too_long":
            return too_many(path, context["actual_length"], context["max_length"])
        case "too_short":
            least = context["min_length"]
            return Problem(
                path, f"Too few: {context['actual_length']}: must have at least {quantity.counted(least, 'item')}"
            )
        case "string_too_long":
            return too_long(path, str(value), context["max_length"])
        case _:
            message = error["msg"].removeprefix("Value error, ")
            message = message.replace("Input should", "must").replace("String should", "must")
            return invalid(path, value, f"{message[:1].lower()}{message[1:]}")


def parse_duration(value: object) -> timedelta:
    """Return a duration in Go's notation (``90s``, ``1h30m``) as a timedelta. Raises ValueError."""
    if isinstance(value, str):
        return _parsed_duration(value)
    if isinstance(value, timedelta):
        return value
    raise ValueError("must be a duration such as 90s, 10m or 1h30m")


@lru_cache(maxsize=4096)
def _parsed_duration(text: str) -> timedelta:
    """Return the duration: the pods of a cluster have few different ones, each read again in many cycles."""
    if text == "0":
        return timedelta(0)
    if re.fullmatch(DURATION_PATTERN, text) is None:
        raise ValueError("must be a duration such as 90s, 10m or 1h30m")
    total = sum((Fraction(n) * _MICROSECONDS[unit] for n, unit in _DURATION_PARTS.findall(text)), Fraction(0))
    if total > 10**17:
        raise ValueError("must be a duration of at most 3,000 years")
    return timedelta(microseconds=int(total))


def format_duration(value: timedelta) -> str:
    """Return a timedelta in Go's notation: ``1h30m0s``, ``2.5s``."""
    micros = value // timedelta(microseconds=1)
    seconds, rest = divmod(micros, 10**6)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{head}{seconds}{fraction}s"


def _quantity(value: object) -> object:
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise ValueError("a quantity is a string or an integer")
        quantity.parse(value)
    except ValueError:
        raise ValueError("must be a quantity such as 500m, 2 or 1.5Gi") from None
    return value


Message = Annotated[str, BeforeValidator(shortened)]
"""A message in a status, which may have texts of other programs: it is shortened instead of rejected."""
Bool = Annotated[bool, Strict()]
Int32 = Annotated[int, Strict(), Field(json_schema_extra={"format": "int32"})]
Int64 = Annotated[int, Strict(), Field(json_schema_extra={"format": "int64"})]
Time = Annotated[datetime, PlainSerializer(format_time, when_used="json")]
Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "maxLength": 32}),
]
Quantity = Annotated[
    str | int,
    BeforeValidator(_quantity),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "pattern": QUANTITY_PATTERN,
        }
    ),
]
ResourceList = dict[str, Quantity]
Label = Annotated[str, Field(pattern=NAME_PATTERN, max_length=63)]
Subdomain = Annotated[str, Field(pattern=PATH_PATTERN, max_length=253)]


class OwnerReference(Model):
    """Reference to an owner. The object is deleted when its owners are deleted."""

    api_version: str
    """API group and version of the referenced object."""
    kind: str
    """Kind of the referenced object."""
    name: str
    """Name of the referenced object."""
    uid: str
    """UID of the referenced object."""
    controller: Bool | None = None
    """Whether the reference points to the managing controller."""
    block_owner_deletion: Bool | None = None
    """Whether a foreground deletion of the referenced object waits until the object with the reference is deleted."""


class ObjectMeta(Model):
    """Standard metadata of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] = Field(default_factory=list)
    finalizers: list[str] = Field(default_factory=list)
    managed_fields: list[dict[str, Any]] = Field(default_factory=list)
    self_link: str = ""


class Condition(Model):
    """Condition of an object."""

    type: str = Field(max_length=316)
    """Type of the condition."""
    status: str = Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})
    """Status of the condition."""
    reason: str = Field(default="", max_length=1024)
    """Machine-readable reason of the last transition."""
    message: Message = Field(default="", max_length=MESSAGE_LENGTH)
    """Human-readable message about the last transition."""
    last_transition_time: Time | None = None
    """Time of the last transition."""


class LabelSelectorRequirement(Model):
    """Requirement of a label selector."""

    key: str
    """Label key."""
    operator: str = Field(json_schema_extra={"enum": ["In", "NotIn", "Exists", "DoesNotExist"]})
    """Operator that relates the key to the values."""
    values: list[str] = Field(default_factory=list)
    """Values for the operators In and NotIn."""


class LabelSelector(Model):
    """Label selector. All requirements must match."""

    match_labels: dict[str, str] | None = None
    """Required labels and their values."""
    match_expressions: list[LabelSelectorRequirement] = Field(default_factory=list)
    """Requirements on labels."""
