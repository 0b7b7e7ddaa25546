"""Manifests from files: YAML or JSON, several documents, lists, folders, standard input."""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from volcanopy.api.messages import yaml_problem
from volcanopy.cli.yaml_budget import check_budget
from volcanopy.client.errors import CommandError
from volcanopy.client.files import text_of

SUFFIXES = (".yaml", ".yml", ".json")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as Kubernetes reads it: dates stay text, and keys are text, as in JSON."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        if all(isinstance(key, str) for key in mapping):
            return mapping
        return {key if isinstance(key, str) else json.dumps(key): value for key, value in mapping.items()}


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True)
class Manifest:
    """An object of a file, with its place there."""

    source: str
    number: int
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body["kind"])

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return str(self.body["apiVersion"]).rpartition("/")[0]

    @property
    def name(self) -> str:
        """``namespace/name``, without the parts that are missing."""
        metadata = self.body.get("metadata") or {}
        return "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))

    @property
    def place(self) -> str:
        """File, document, kind and name, for messages."""
        return f"{self.source}, document {self.number} ({self.kind} {self.name})"


def read(paths: Iterable[str]) -> list[Manifest]:
    """Return all objects of files, of the manifests in folders, or of standard input for ``-``; raises CommandError."""
    return [manifest for path in paths for source, text in _texts(path) for manifest in parsed(source, text)]


def parsed(source: str, text: str) -> list[Manifest]:
    """Return the objects of a text; raises CommandError, which names the source."""
    documents = enumerate(_documents(source, text), start=1)
    return [manifest for number, document in documents for manifest in _objects(source, number, document)]


def _texts(path: str) -> Iterator[tuple[str, str]]:
    if path == "-":
        yield "standard input", sys.stdin.read()
        return
    place = Path(path)
    files = sorted(file for file in place.iterdir() if file.suffix in SUFFIXES) if place.is_dir() else [place]
    if not files:
        raise CommandError(f"{path}: no manifest ({', '.join(SUFFIXES)}) in this folder")
    for file in files:
        yield str(file), text_of(file)


def _documents(source: str, text: str) -> list[Any]:
    stripped = text.lstrip()
    try:
        if stripped.startswith("{"):
            try:
                return [json.loads(stripped)]
            except json.JSONDecodeError:
                pass  # flow-style YAML begins with a brace too, and the YAML error is more precise
        check_budget(text)
        return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except RecursionError:
        raise CommandError(f"{source}: invalid JSON: too many levels of nesting") from None
    except yaml.YAMLError as error:
        raise CommandError(f"{source}: {yaml_problem(error, text)}") from None
    except ValueError as error:  # a date that does not exist, or a number of more than 4,300 digits
        raise CommandError(f"{source}: a value cannot be read: {str(error).partition(';')[0]}") from None


def _objects(source: str, number: int, document: Any) -> Iterator[Manifest]:
    if not isinstance(document, dict):
        raise CommandError(f"{source}, document {number}: not a mapping: a manifest has apiVersion and kind")
    for key in ("apiVersion", "kind"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise CommandError(f"{source}, document {number}: {key} is missing")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            if isinstance(item, dict):
                inherited = {"apiVersion": document["apiVersion"], "kind": document["kind"].removesuffix("List")}
                item = {**inherited, **item} if document["kind"] != "List" else item  # noqa: PLW2901
            yield from _objects(source, number, item)
        return
    if not isinstance(document.get("metadata") or {}, dict):
        raise CommandError(f"{source}, document {number} ({document['kind']}): metadata must be a mapping")
    yield Manifest(source, number, document)
