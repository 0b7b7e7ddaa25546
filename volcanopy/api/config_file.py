"""Configuration files in YAML: of the scheduler, the controllers and admission."""

from typing import Any, TypeVar

import yaml

from volcanopy.api.messages import yaml_problem
from volcanopy.api.model import InvalidObjectError, Model, quoted

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

M = TypeVar("M", bound=Model)


class ConfigError(ValueError):
    """An invalid configuration file; the text names the keys and what they must be."""


def mapping_of(text: str, example: str) -> dict[Any, Any]:
    """Return the content of a file as a mapping, empty for an empty file. Raises ConfigError; ``example`` is such a mapping.

    A file with a ConfigMap that has one key has the content of this key.
    """
    try:
        content = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(yaml_problem(error, text)) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"must be a mapping such as {example}, is a {type(content).__name__}")
    if content.get("apiVersion") == "v1" and content.get("kind") == "ConfigMap":
        data = content.get("data")
        texts = {key: value for key, value in data.items() if isinstance(value, str)} if isinstance(data, dict) else {}
        if len(texts) != 1:
            keys = f"{len(texts)} keys in data ({quoted(texts)})" if texts else "no key in data"
            raise ConfigError(
                f"must be a configuration, is a ConfigMap with {keys}: write the value of one key to a file"
            )
        return mapping_of(texts.popitem()[1], example)
    return content


def read_config(model: type[M], text: str, example: str) -> M:
    """Parse a file with the fields of a model, which all have defaults. Raises ConfigError with every problem."""
    try:
        return model.read(mapping_of(text, example), unknown="forbid")
    except InvalidObjectError as error:
        raise ConfigError("; ".join(map(str, error.problems))) from None
