"""Objects as documents: JSON, YAML and names, as kubectl prints them."""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import yaml

from volcanopy.cli.framework.options import Document, Format
from volcanopy.client.kinds import resource
from volcanopy.kube.client.kinds import Json, Kind


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """YAML without anchors: objects that are shared in memory are written out each time."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def whole(kind: Kind[Any], body: Json) -> Json:
    """Return the object with its type, which items of a list lack, and without ``managedFields``."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": metadata}


def as_list(kind: Kind[Any], bodies: Sequence[Json]) -> Json:
    """Return several objects as a List."""
    items = [whole(kind, body) for body in bodies]
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


def text(document: Json, form: Format | Document) -> str:
    """Return a document as JSON or YAML, with a newline at its end."""
    if form.value == "json":
        return json.dumps(document, indent=4, ensure_ascii=False) + "\n"
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def print_report(document: Json, form: StrEnum) -> None:
    """Print a document in the format of a report: ``json`` or ``yaml``."""
    print(text(document, Format(form.value)), end="")


def name(kind: Kind[Any], body: Json) -> str:
    """Return the object as ``kind.group/name``."""
    return f"{resource(kind)}/{body['metadata']['name']}"
