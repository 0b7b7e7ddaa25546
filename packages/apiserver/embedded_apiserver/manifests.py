"""Objects in manifests: files with YAML or JSON, several documents, lists, and folders of such files."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from embedded_apiserver.store.object_store import Body
from embedded_apiserver.wire.yaml_budget import check_budget

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SUFFIXES = (".yaml", ".yml", ".json")
_FIRST = ("Namespace", "CustomResourceDefinition")
"""Kinds that other objects need."""


class ManifestError(Exception):
    """A file is no manifest; the message names file, document and reason."""


def read(paths: Iterable[Path]) -> list[Body]:
    """Return the objects of files and of the files in folders, namespaces and definitions first. Raises ManifestError."""
    objects = [body for path in paths for file in _files(path) for body in _objects(file)]
    return sorted(objects, key=lambda body: _FIRST.index(body["kind"]) if body["kind"] in _FIRST else len(_FIRST))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise ManifestError(f"{path}: no manifest ({', '.join(SUFFIXES)}) in this folder")
    return files


def _objects(file: Path) -> Iterator[Body]:
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".json":
            documents = [json.loads(text)]
        else:
            check_budget(text)
            documents = list(yaml.load_all(text, Loader=_LOADER))
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ManifestError(f"{file}: neither YAML nor JSON: {error}") from None
    for number, document in enumerate(documents, start=1):
        yield from _items(f"{file}, document {number}", document)


def _items(source: str, document: Any) -> Iterator[Body]:
    if document is None:
        return
    if not isinstance(document, dict):
        raise ManifestError(f"{source}: not a mapping: a manifest has apiVersion and kind")
    for key in ("apiVersion", "kind"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise ManifestError(f"{source}: {key} is missing")
    if document["kind"] == "List":
        for item in document.get("items") or ():
            yield from _items(source, item)
    elif isinstance(document.get("metadata"), dict):
        yield document
    else:
        raise ManifestError(f"{source} ({document['kind']}): metadata must be a mapping")
