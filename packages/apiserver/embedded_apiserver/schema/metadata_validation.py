"""Errors of fields of built-in kinds, and the validation of names, labels and annotations of every kind."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from embedded_apiserver.field_errors import DUPLICATE, FORBIDDEN, INVALID, NOT_SUPPORTED, REQUIRED, TOO_LONG, FieldError
from embedded_apiserver.store.object_store import Body


def required(path: str, detail: str = "") -> FieldError:
    """The field must be there."""
    return FieldError(path, REQUIRED, detail)


def wrong(path: str, value: Any, detail: str) -> FieldError:
    """The field's value breaks a rule."""
    return FieldError(path, INVALID, detail, value)


def unsupported(path: str, value: Any, allowed: Iterable[str]) -> FieldError:
    """The field's value is not one of the allowed values."""
    supported = ", ".join(f'"{word}"' for word in allowed)
    return FieldError(path, NOT_SUPPORTED, f"supported values: {supported}", value)


def missing_fields(owner: Body, path: str, *keys: str) -> Iterator[FieldError]:
    """Yield the fields that must be there and are not."""
    return (required(f"{path}.{key}") for key in keys if not owner.get(key))


def faults_of(path: str, value: Any, texts: Iterable[str]) -> Iterator[FieldError]:
    """Yield what is wrong with the value of a field."""
    return (wrong(path, value, text) for text in texts)


def not_supported(path: str, value: Any, allowed: Sequence[str]) -> Iterator[FieldError]:
    """Yield a fault if the field's value is not one of the allowed values."""
    if value not in allowed:
        yield unsupported(path, value, allowed)


def out_of_range(path: str, number: float | None, low: int, high: int) -> Iterator[FieldError]:
    """Yield a fault if the field has a number that is not in the range."""
    if number is not None and not low <= number <= high:
        yield wrong(path, number, f"must be between {low} and {high}, inclusive")


def duplicate(path: str, value: Any) -> FieldError:
    """The value was there already."""
    return FieldError(path, DUPLICATE, "", value)


def forbidden_field(path: str, detail: str) -> FieldError:
    """The field may not be set, or not be changed."""
    return FieldError(path, FORBIDDEN, detail)


def too_long(path: str, limit: int) -> FieldError:
    """The value has more bytes than allowed."""
    return FieldError(path, TOO_LONG, f"may not be more than {limit} bytes")


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
SERVICE_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and "
    "end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_FINALIZERS = frozenset({"foregroundDeletion", "orphan", "kubernetes", "customresourcecleanup.apiextensions.k8s.io"})
ANNOTATIONS_LIMIT = 256 * 1024
REMEMBERED = 1024
"""Texts of a kind whose check is remembered: keys and namespaces come again, the name of a pod does not."""


@lru_cache(maxsize=REMEMBERED)
def label_faults(value: str) -> tuple[str, ...]:
    """Why the text is no DNS label (container and namespace names)."""
    text = "must not contain dots" if _SUBDOMAIN.fullmatch(value) else LABEL_TEXT
    faults = () if _LABEL.fullmatch(value) else (text,)
    return (*faults, "must be no more than 63 characters") if len(value) > 63 else faults


@lru_cache(maxsize=REMEMBERED)
def subdomain_faults(value: str) -> tuple[str, ...]:
    """Why the text is no DNS subdomain (most names)."""
    faults = () if _SUBDOMAIN.fullmatch(value) else (SUBDOMAIN_TEXT,)
    return (*faults, "must be no more than 253 characters") if len(value) > 253 else faults


def service_faults(value: str) -> tuple[str, ...]:
    """Why the text is no name of a Service."""
    faults = () if _SERVICE.fullmatch(value) else (SERVICE_TEXT,)
    return (*faults, "must be no more than 63 bytes") if len(value) > 63 else faults


def path_segment_faults(value: str) -> tuple[str, ...]:
    """Why the text cannot stand in a path (names of RBAC objects)."""
    if value in {".", ".."}:
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{mark}'" for mark in "/%" if mark in value)


@lru_cache(maxsize=REMEMBERED)
def qualified_faults(key: str) -> tuple[str, ...]:
    """Why the text is no label or annotation key."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {QUALIFIED_TEXT} {optional}",)
    faults: list[str] = []
    if slash:
        if not prefix:
            faults.append("prefix part must be non-empty")
        faults += [f"prefix part {text}" for text in subdomain_faults(prefix) if prefix]
    if not name:
        faults.append("name part must be non-empty")
    elif len(name) > 63:
        faults.append("name part must be no more than 63 bytes")
    if not _QUALIFIED.fullmatch(name):
        faults.append(f"name part {QUALIFIED_TEXT}")
    return tuple(faults)


@lru_cache(maxsize=REMEMBERED)
def label_value_faults(value: str) -> tuple[str, ...]:
    """Why the text is no label value."""
    faults = () if len(value) <= 63 else ("must be no more than 63 bytes",)
    return faults if _LABEL_VALUE.fullmatch(value) else (*faults, LABEL_VALUE_TEXT)


def label_map_faults(labels: Body | None, path: str) -> list[FieldError]:
    """What is wrong with a map of labels."""
    faults: list[FieldError] = []
    for key, value in (labels or {}).items():
        faults += faults_of(path, key, qualified_faults(key))
        faults += faults_of(path, value, label_value_faults(value))
    return faults


def _owner_faults(owners: list[Body]) -> list[FieldError]:
    faults: list[FieldError] = []
    controllers = 0
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]"
        if not owner.get("apiVersion"):
            faults.append(wrong(f"{path}.apiVersion", "", "version must not be empty"))
        empty = [key for key in ("kind", "name", "uid") if not owner.get(key)]
        faults += [wrong(f"{path}.{key}", "", "must not be empty") for key in empty]
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        text = 'Only one reference can have Controller set to true. Found "true" in references for '
        names = [f"{owner['kind']}/{owner['name']}" for owner in owners if owner.get("controller")]
        faults.append(wrong("metadata.ownerReferences", owners, text + " and ".join(names)))
    return faults


def metadata_faults(metadata: Body, name_rule: Any, *, builtin: bool) -> list[FieldError]:
    """Errors of an object's metadata; `name_rule` returns the errors of a name of this kind."""
    faults: list[FieldError] = []
    name = metadata.get("name")
    if not name:
        faults.append(required("metadata.name", "name or generateName is required"))
    elif broken := name_rule(name):
        faults += [wrong("metadata.name", name, text) for text in broken]
    if metadata.get("labels"):
        faults += label_map_faults(metadata["labels"], "metadata.labels")
    annotations = metadata.get("annotations")
    if annotations:
        size = 0
        for key, value in annotations.items():
            size += len(key) + len(value)
            if broken := qualified_faults(key.lower()):
                faults += [wrong("metadata.annotations", key, text) for text in broken]
        if size > ANNOTATIONS_LIMIT:
            faults.append(too_long("metadata.annotations", ANNOTATIONS_LIMIT))
    if metadata.get("ownerReferences"):
        faults += _owner_faults(metadata["ownerReferences"])
    if not metadata.get("finalizers"):
        return faults
    for index, finalizer in enumerate(metadata["finalizers"]):
        path = f"metadata.finalizers[{index}]"
        faults += [wrong(path, finalizer, text) for text in qualified_faults(finalizer)]
        if builtin and "/" not in finalizer and finalizer not in _FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            faults.append(wrong(path, finalizer, text))
    return faults
