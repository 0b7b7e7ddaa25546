"""Objects as documents: JSON, YAML and names, as kubectl prints them."""

import json
from collections.abc import Sequence
from typing import Any

import yaml

from volcanopy.cli.framework.kinds import resource
from volcanopy.cli.framework.options import Document, Format
from volcanopy.kube.client.kinds import Json, Kind


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """YAML without anchors: what is shared in memory is written out each time."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def cleaned(body: Json) -> Json:
    """The object without what only the API server's bookkeeping needs."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {**body, "metadata": metadata}


def whole(kind: Kind[Any], body: Json) -> Json:
    """The object with its type, which the items of a list do not have."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **cleaned(body)}


def as_list(kind: Kind[Any], bodies: Sequence[Json]) -> Json:
    """Several objects as one."""
    items = [whole(kind, one) for one in bodies]
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


def text(document: Json, form: Format | Document) -> str:
    """A document as JSON or YAML, with a newline at its end."""
    if form.value == "json":
        return json.dumps(document, indent=4, ensure_ascii=False) + "\n"
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def name(kind: Kind[Any], body: Json) -> str:
    """The object as ``kind.group/name``."""
    return f"{resource(kind)}/{body['metadata']['name']}"
