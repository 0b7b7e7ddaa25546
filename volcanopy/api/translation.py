"""Translation of objects between volcanopy's names and those of another API, at the edges of the program.

Inside, labels, annotations, selectors and references to owners have volcanopy's names, whatever the API of the object. The
object itself keeps its ``apiVersion`` and ``kind``: they state the API in which it is written and named to its user. The
content of pods (``spec`` of a pod and of a template) belongs to the user and is not touched.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from volcanopy.api.bindings import BINDINGS, VOLCANOPY, Binding, binding_of, binding_of_scheduler, with_own_keys
from volcanopy.api.decoding import convert
from volcanopy.api.read_model import OwnerReference

Json = dict[str, Any]
T = TypeVar("T", bound=Any)

_KEYED = frozenset({"labels", "annotations", "matchLabels", "selector"})
"""The maps whose keys are labels or annotations."""
_KEY = re.compile(rf"[\w.-]*\b{re.escape(VOLCANOPY.domain)}/[\w./-]+")


def with_own_names(manifest: Json, binding: Binding) -> Json:
    """Return an object of an API with volcanopy's names inside. A value that is given under volcanopy's name is kept."""
    if binding is VOLCANOPY:
        return manifest
    translated: Json = _translated(manifest, _own_names(binding), _pod(manifest))
    return translated | {key: manifest[key] for key in ("apiVersion", "kind") if key in manifest}


def with_names_of_its_api(manifest: Json) -> Json:
    """Return an object with volcanopy's names, from those of the API that its ``apiVersion`` names."""
    return with_own_names(manifest, binding_of(str(manifest.get("apiVersion") or "")))


def with_names_of_scheduler(pod: Json) -> Json:
    """Return a pod with volcanopy's names, from those of the API of its scheduler."""
    return with_own_names(pod, binding_of_scheduler(str((pod.get("spec") or {}).get("schedulerName") or "")))


def with_api_names(manifest: Json, binding: Binding) -> Json:
    """Return an object, or a merge patch of one, with the names of the API that it is written to."""
    if binding is VOLCANOPY:
        return manifest
    translated: Json = _translated(manifest, _api_names(binding), _pod(manifest))
    return translated


def with_api_selector(selector: str, binding: Binding) -> str:
    """Return a label selector with the names of an API."""
    return _KEY.sub(lambda match: binding.key(match[0]), selector)


def read_with_own_names(item: T, bindings: Iterable[Binding], *, only: bool = False) -> T:
    """Return a read model with volcanopy's names of labels, annotations and owners; the keys of the APIs stay, unless ``only``.

    An object that has an API, by its group or the scheduler of a pod, is translated from that API only.
    """
    meta, api = item.metadata, _api_of(item)
    if api is not None:
        bindings = (api,)
        # The only labels of read models outside of the metadata.
        if only and getattr(getattr(item, "spec", None), "sub_group_policy", None):
            return convert(with_own_names(to_builtins(item), api), type(item))
    labels, annotations = _keys(meta.labels, bindings, only), _keys(meta.annotations, bindings, only)
    owners = meta.owner_references
    if any(binding_of(owner.api_version) is not VOLCANOPY for owner in owners):
        owners = tuple(map(_own_owner, owners))
    if labels is meta.labels and annotations is meta.annotations and owners is meta.owner_references:
        return item
    return replace(item, metadata=replace(meta, labels=labels, annotations=annotations, owner_references=owners))


def _keys(texts: Mapping[str, str], bindings: Iterable[Binding], only: bool) -> Mapping[str, str]:
    labels = with_own_keys(texts, bindings)
    if not only or labels is texts:
        return labels
    aliases = {alias for binding in bindings for alias in binding.aliases}
    return {key: text for key, text in labels.items() if key not in aliases}


def _api_of(item: Any) -> Binding | None:
    """Return the API whose names an object has; None for objects of administrators, such as nodes, that may have those of all."""
    if (api_version := getattr(item, "api_version", None)) is not None:
        return binding_of(api_version)
    scheduler = getattr(getattr(item, "spec", None), "scheduler_name", None)
    return None if scheduler is None else binding_of_scheduler(scheduler)


def _own_owner(owner: OwnerReference) -> OwnerReference:
    api_version, kind = own_reference(owner.api_version, owner.kind)
    return replace(owner, api_version=api_version, kind=kind)


def every_name(key: str) -> frozenset[str]:
    """Return the names of a label or annotation in every API."""
    return frozenset(binding.key(key) for binding in BINDINGS)


def name_for_scheduler(key: str, scheduler_name: str) -> str:
    """Return the name of a label or annotation in the API of a scheduler's pods."""
    return binding_of_scheduler(scheduler_name).key(key)


def own_reference(api_version: str, kind: str) -> tuple[str, str]:
    """Return volcanopy's names of the API version and kind of a reference."""
    binding = binding_of(api_version)
    group, slash, version = api_version.partition("/")
    group, kind = binding.own(group, kind) if binding is not VOLCANOPY else (group, kind)
    return f"{group}{slash}{version}", kind


def _pod(manifest: Mapping[str, Any]) -> str:
    """Return the name of the member in which a template has a pod, for a pod; empty for another object."""
    return "template" if manifest.get("kind") == "Pod" else ""


class _Names(NamedTuple):
    """One direction of the translation: the other name of a label or annotation, and those of a reference."""

    key: Callable[[str], str]
    reference: Callable[[str, str], tuple[str, str]]


def _own_names(binding: Binding) -> _Names:
    def reference(api_version: str, kind: str) -> tuple[str, str]:
        return own_reference(api_version, kind) if binding_of(api_version) is binding else (api_version, kind)

    return _Names(lambda key: binding.aliases.get(key, key), reference)


def _api_names(binding: Binding) -> _Names:
    def reference(api_version: str, kind: str) -> tuple[str, str]:
        is_own = api_version.partition("/")[0].endswith(f".{VOLCANOPY.domain}")
        return (binding.api_version(api_version), binding.kind(kind)) if is_own else (api_version, kind)

    return _Names(binding.key, reference)


def _translated(value: Any, names: _Names, member: str = "") -> Any:
    """Return JSON with the other names; ``member`` is the name under which it stands."""
    if isinstance(value, list | tuple):
        return [_translated(item, names, member) for item in value]
    if not isinstance(value, Mapping):
        return value
    result = {key: _member(key, content, names, member) for key, content in value.items()}
    if member in _KEYED:  # a value under volcanopy's name comes last, and counts
        return {names.key(key): result[key] for key in sorted(result, key=lambda key: bool(_KEY.match(key)))}
    if isinstance(key := result.get("key"), str) and member == "matchExpressions":
        result["key"] = names.key(key)
    match result:
        case {"apiVersion": str(api_version), "kind": str(kind)}:
            result["apiVersion"], result["kind"] = names.reference(api_version, kind)
    return result


def _member(key: str, content: Any, names: _Names, member: str) -> Any:
    if key == "spec" and member == "template":
        return content
    if key == "matchLabelKeys" and isinstance(content, list | tuple):
        return [names.key(name) if isinstance(name, str) else name for name in content]
    return _translated(content, names, key)
