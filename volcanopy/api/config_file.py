"""Configuration files in YAML: of the scheduler, the controllers and admission."""

from typing import Any, TypeVar

import yaml

from volcanopy.api.model import InvalidObjectError, Model

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

M = TypeVar("M", bound=Model)


class ConfigError(ValueError):
    """An invalid configuration file; the text names the keys and what they must be."""


def mapping_of(text: str, example: str) -> dict[Any, Any]:
    """Return the content of a file as a mapping, empty for an empty file. Raises ConfigError; ``example`` is such a mapping."""
    try:
        content = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = "" if mark is None else f"line {min(mark.line + 1, max(len(text.splitlines()), 1))}: "
        raise ConfigError(f"{where}invalid YAML: {problem or ' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"must be a mapping such as {example}, is a {type(content).__name__}")
    return content


def read_config(model: type[M], text: str, example: str) -> M:
    """Parse a file with the fields of a model, which all have defaults. Raises ConfigError with every problem."""
    try:
        return model.read(mapping_of(text, example), unknown="forbid")
    except InvalidObjectError as error:
        raise ConfigError("; ".join(map(str, error.problems))) from None
