"""The ground that all words of the API stand on: camelCase on the wire, unknown fields by policy, exact errors.

Objects come from two sides. What a person wrote (a file, an admission request) is read with ``unknown="refuse"``: a
misspelt field is an error with its path. What an API server sent is read with ``unknown="ignore"``: it may be newer
than we are.
"""

import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
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
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails

from volcanopy.api import quantity

Json = dict[str, Any]
"""A JSON object as it came."""

MOST_PROBLEMS = 100
"""So many problems of one object are told: who has more has another problem."""

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""What a DNS label may look like (at most 63 characters)."""

PATH_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""What a DNS subdomain, the name of most objects, may look like (at most 253 characters)."""

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
    """A CEL rule of a custom resource: what must hold where one field speaks about another.

    ``says`` is the sentence for the one who broke it; ``field`` the path (``.minAvailable``) that it is reported at.
    An API server refuses a definition whose rules might cost too much: lists that rules run over have a greatest size.
    """

    expression: str
    says: str
    field: str = ""

    def schema(self) -> Json:
        """The entry of ``x-kubernetes-validations``."""
        entry = {"rule": self.expression, "message": self.says}
        if self.field:
            entry["fieldPath"] = self.field
        return entry


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with an object: where, and what to do about it."""

    path: str
    says: str

    def __str__(self) -> str:
        return f"{self.path}: {self.says}" if self.path else self.says


class InvalidObjectError(ValueError):
    """An object that cannot be read; ``problems`` names everything that is wrong with it."""

    def __init__(self, what: str, problems: Iterable[Problem]) -> None:
        self.what = what
        self.problems = tuple(problems)
        super().__init__(f"{what} is not valid: " + "; ".join(map(str, self.problems)))


class Model(BaseModel):
    """The base of all that users write."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        if cls.rules:
            handler.resolve_ref_schema(schema)["x-kubernetes-validations"] = [rule.schema() for rule in cls.rules]
        return schema

    @classmethod
    def read(cls, data: Mapping[str, Any], unknown: Literal["refuse", "ignore"] = "ignore") -> Self:
        """The object that a JSON object stands for. Raises InvalidObjectError with every problem and its path."""
        try:
            return cls.model_validate(data, extra="forbid" if unknown == "refuse" else "ignore")
        except ValidationError as error:
            raise InvalidObjectError(
                cls.__name__, map(_problem, error.errors(include_url=False)[:MOST_PROBLEMS])
            ) from None

    def write(self) -> Json:
        """The JSON object that stands for this one, without what is not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def path_of(steps: Iterable[str | int]) -> str:
    """A path as Kubernetes writes it: ``spec.tasks[0].name``."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


_SHOWN = reprlib.Repr()  # the cost of showing a value does not grow with it
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 200
_SHOWN.maxlist = _SHOWN.maxdict = 20


def _problem(error: ErrorDetails) -> Problem:
    path = path_of(error["loc"])
    match error["type"]:
        case "extra_forbidden":
            return Problem(path, "no such field: correct its name or leave it out")
        case "missing":
            return Problem(path, "is required")
        case _:
            given = _SHOWN.repr(error["input"])
            given = given if len(given) <= 80 else given[:77] + "..."
            says = error["msg"].removeprefix("Value error, ")
            return Problem(path, f"{given}: {says[:1].lower()}{says[1:]}")


def parse_duration(value: object) -> object:
    """A duration in Go's notation (``90s``, ``1h30m``) as a timedelta; anything else is left for pydantic to judge."""
    if not isinstance(value, str):
        if isinstance(value, timedelta):
            return value
        raise ValueError("a duration is a text such as 90s, 10m or 1h30m")
    if value == "0":
        return timedelta(0)
    if re.fullmatch(DURATION_PATTERN, value) is None:
        raise ValueError("a duration is a text such as 90s, 10m or 1h30m")
    total = sum((Fraction(n) * _MICROSECONDS[unit] for n, unit in _DURATION_PARTS.findall(value)), Fraction(0))
    if total > 10**17:
        raise ValueError("a duration is at most some thousand years")
    return timedelta(microseconds=int(total))


def format_duration(value: timedelta) -> str:
    """A timedelta in Go's notation: ``1h30m0s``, ``2.5s``."""
    micros = value // timedelta(microseconds=1)
    seconds, rest = divmod(micros, 10**6)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{head}{seconds}{fraction}s"


def format_time(value: datetime) -> str:
    """A moment as Kubernetes writes it: UTC, whole seconds."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _quantity(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError("a quantity is a whole number or a text such as 500m, 2 or 1.5Gi")
    quantity.parse(value)
    return value


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
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
        }
    ),
]
ResourceList = dict[str, Quantity]
Label = Annotated[str, Field(pattern=NAME_PATTERN, max_length=63)]
Subdomain = Annotated[str, Field(pattern=PATH_PATTERN, max_length=253)]
