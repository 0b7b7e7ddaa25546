"""Request of an AdmissionReview: the operation, the object with its size limits, and the user."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from volcanopy.api import names
from volcanopy.api.bindings import (
    BINDINGS,
    VOLCANOPY,
    Binding,
    binding_of,
    binding_of_scheduler,
    is_job,
    with_api_keys,
    with_own_keys,
)
from volcanopy.api.core import PodGroup, Queue
from volcanopy.api.model import Json, Model, Problem, shown, too_many
from volcanopy.api.subjects import account_of
from volcanopy.api.topology_read import HyperNode

M = TypeVar("M", bound=Model)
_ACCOUNT = "system:serviceaccount:"
_GENERATED, _LONGEST_BASE = 5, 58
"""Characters that the API server appends to ``generateName``, and of it."""


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request; the name is empty if it is unknown."""

    name: str = ""
    groups: tuple[str, ...] = ()

    @property
    def account(self) -> tuple[str, str] | None:
        """Namespace and name of the service account, if the user is one."""
        return account_of(self.name)


def account_user(namespace: str, name: str) -> User:
    """Return the user of a service account."""
    groups = ("system:serviceaccounts", f"{_ACCOUNT[:-1]}s:{namespace}", "system:authenticated")
    return User(f"{_ACCOUNT}{namespace}:{name}", groups)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to create, update or delete an object. ``object`` is None for a deletion, ``old`` for a creation."""

    uid: str = ""
    group: str = ""
    kind: str = ""
    operation: str = ""
    name: str = ""
    namespace: str = ""
    user: User = field(default_factory=User)
    object: Json | None = None
    old: Json | None = None
    dry_run: bool = False
    binding: Binding = VOLCANOPY
    """The API of the object. Group and kind, and the keys of labels and annotations, are those of volcanopy."""
    key_binding: Binding = VOLCANOPY
    """The API whose labels and annotations the object has; that of a pod follows from its scheduler."""
    written: Json | None = None
    """The object with the labels and annotations that the user wrote."""
    _parsed: dict[type[Model], Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """Group, kind and operation."""
        return self.group, self.kind, self.operation

    def read(self, model: type[M]) -> M:
        """Return the object as its full model, read once. Raises InvalidObjectError, whose problems the review reports."""
        bound_model = self.model(model)
        if bound_model not in self._parsed:
            self._parsed[bound_model] = bound_model.read(self.object or {}, unknown="forbid")
        parsed_object: M = self._parsed[bound_model]
        return parsed_object

    def model(self, model: type[M]) -> type[M]:
        """Return a model as it is in the object's API."""
        return model.bound(self.binding)

    def job_manifest(self, metadata: Json, spec: Json) -> Json:
        """Return a job of the object's API, with volcanopy's names of labels and annotations."""
        version, kind = self.binding.api_version(names.BATCH_V1ALPHA1), self.binding.kind(names.JOB_KIND)
        return with_own_names({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}, self.binding)

    def with_object(self, manifest: Json) -> "Request":
        """Return the request with another object."""
        return replace(self, object=manifest)

    def with_written(self, manifest: Json) -> "Request":
        """Return the request with another object, which has the labels and annotations of its API."""
        return replace(self, object=with_own_names(manifest, self.key_binding), written=manifest)

    def with_name(self) -> "Request":
        """Return the request with a name of the generated kind where the API server has not generated it yet.

        It does so after the mutating webhooks; the names of a job's children, and their lengths, follow from it.
        """
        metadata = at(self.object, "metadata")
        if not isinstance(metadata, dict) or metadata.get("name") or not isinstance(metadata.get("generateName"), str):
            return self
        name = f"{metadata['generateName'][:_LONGEST_BASE]}{'0' * _GENERATED}"
        return self.with_object({**(self.object or {}), "metadata": {**metadata, "name": name}})

    def in_its_api(self, manifest: Json) -> Json:
        """Return an object of this request with the labels and annotations of its API, for a patch."""
        metadata = manifest.get("metadata")
        if not self.key_binding.aliases or not isinstance(metadata, dict):
            return manifest
        return manifest | {
            "metadata": metadata
            | {
                part: with_api_keys(metadata[part], self.key_binding, _keys_of(self.written, part))
                for part in _KEYED
                if isinstance(metadata.get(part), dict)
            }
        }

    def problem_in_its_api(self, problem: Problem) -> Problem:
        """Return a problem that names the labels and annotations of the object's API."""
        if not self.key_binding.aliases:
            return problem
        known_keys = {key for part in _KEYED for key in _keys_of(self.written, part)}
        path, message = (
            _OWN_KEY.sub(lambda match: match[0] if match[0] in known_keys else self.key_binding.key(match[0]), text)
            for text in (problem.path, problem.message)
        )
        return replace(problem, path=path, message=message)

    @classmethod
    def of(cls, admission_review: Json) -> "Request | None":
        """Return the request of a review, if there is one."""
        request = admission_review.get("request")
        if not isinstance(request, dict):
            return None
        kind, user = _mapping(request.get("kind")), _mapping(request.get("userInfo"))
        manifest, old = request.get("object"), request.get("oldObject")
        content = _mapping(manifest if isinstance(manifest, dict) else old)
        metadata = _mapping(content.get("metadata"))
        group, name = _text(kind.get("group")), _text(kind.get("kind"))
        binding = binding_of(group)
        if binding is not VOLCANOPY:
            group, name = binding.own(group, name)
        keyed = binding_of_scheduler(_text(at(content, "spec", "schedulerName"))) if name == "Pod" else binding
        return cls(
            uid=_text(request.get("uid")),
            group=group,
            kind=name,
            binding=binding,
            key_binding=keyed,
            written=manifest if isinstance(manifest, dict) else None,
            operation=_text(request.get("operation")),
            name=_text(request.get("name")) or _text(metadata.get("name")),
            namespace=_text(request.get("namespace")) or _text(metadata.get("namespace")),
            user=User(
                _text(user.get("username")),
                tuple(group for group in list_at(user, "groups") if isinstance(group, str)),
            ),
            object=with_own_names(manifest, keyed) if isinstance(manifest, dict) else None,
            old=with_own_names(old, keyed) if isinstance(old, dict) else None,
            dry_run=request.get("dryRun") is True,
        )


_KEYED = ("labels", "annotations")
_OWN_KEY = re.compile(rf"[\w.-]*\b{re.escape(VOLCANOPY.domain)}/[\w./-]+")


def _keys_of(manifest: Json | None, part: str) -> Collection[str]:
    """Return the keys of the labels or annotations of an object."""
    content = at(manifest, "metadata", part)
    return content.keys() if isinstance(content, dict) else ()


def with_own_names(manifest: Json, binding: Binding) -> Json:
    """Return an object whose labels and annotations of an API have volcanopy's names as well."""
    metadata = manifest.get("metadata")
    if not binding.aliases or not isinstance(metadata, dict):
        return manifest
    parts = {part: metadata[part] for part in _KEYED if isinstance(metadata.get(part), dict)}
    return manifest | {
        "metadata": metadata | {part: dict(with_own_keys(content, (binding,))) for part, content in parts.items()}
    }


def own_keys(labels: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return labels or annotations with volcanopy's names of those of any API as well."""
    return with_own_keys(labels, BINDINGS)


def is_of_other_api(scheduler_name: str, binding: Binding) -> bool:
    """Return whether the pods of a scheduler have the names of another API."""
    return binding_of_scheduler(scheduler_name) is not binding


def keys_of_other_schedulers(labels: Mapping[str, Any], scheduler_name: str) -> Iterator[tuple[str, str, str]]:
    """Yield each key that pods of the scheduler do not have: with volcanopy's name, and the scheduler for which it counts."""
    for binding in BINDINGS:
        if is_of_other_api(scheduler_name, binding):
            for key in labels.keys() & binding.aliases.keys():
                yield key, binding.aliases[key], binding.scheduler_name


def is_job_owner(owner: Any) -> bool:
    """Whether an owner reference is to a job of one of the APIs."""
    return is_job(str(at(owner, "apiVersion")), str(at(owner, "kind")))


def is_shared_by_accounts(api_version: str) -> bool:
    """Whether service accounts may join PodGroups of other users in an API."""
    return binding_of(api_version).shared_groups


def at(value: Any, *steps: str) -> Any:
    """Return the value at a path of nested objects; None if a step is missing or not an object."""
    for step in steps:
        if not isinstance(value, dict):  # what JSON has; a check of Mapping costs ten times as much
            return None
        value = value.get(step)
    return value


def list_at(value: Any, *steps: str) -> list[Any]:
    """Return the list at a path of nested objects; an empty one if there is none."""
    items = at(value, *steps)
    return items if isinstance(items, list) else []


_OF_DELETION = frozenset({"finalizers", "managedFields", "resourceVersion"})
"""Metadata that changes when a finalizer is removed."""


def releases_finalizers(request: Request) -> bool:
    """Return whether the request only removes finalizers of an object that is being deleted.

    Such an object may be invalid by now, because what it names is gone or rules have changed: its deletion must end all the same.
    """
    old, new = request.old or {}, request.object or {}
    before, after = _mapping(old.get("metadata")), _mapping(new.get("metadata"))
    if not before.get("deletionTimestamp"):
        return False
    finalizers, remaining = before.get("finalizers") or [], after.get("finalizers") or []
    return (
        isinstance(finalizers, list)
        and isinstance(remaining, list)
        and all(finalizer in finalizers for finalizer in remaining)
        and _without(before, _OF_DELETION) == _without(after, _OF_DELETION)
        and _without(old, {"metadata"}) == _without(new, {"metadata"})
    )


def _without(content: Mapping[str, Any], keys: Collection[str]) -> Json:
    return {key: value for key, value in content.items() if key not in keys}


def annotations(manifest: Json | None) -> dict[str, str]:
    """Return the annotations of an object whose values are strings."""
    values = at(manifest, "metadata", "annotations")
    if not isinstance(values, dict):
        return {}
    return {key: value for key, value in values.items() if isinstance(value, str)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def unused_fields(request: Request) -> Iterator[Problem]:
    """Yield the fields of the object that exist in its API and that nothing reads."""
    for path, reason in request.binding.without_effect.get(request.kind, {}).items():
        value = at(request.object, *path.split("."))
        if value:
            yield Problem(path, f"field has no effect: {reason}")


def name_problems(request: Request, existing: PodGroup | Queue | HyperNode | None) -> Iterator[Problem]:
    """Yield a problem if an object of another API has the name: the scheduler sees only one object of a name."""
    is_shared = request.kind == "Queue" and request.name in names.SHARED_QUEUES
    if is_shared or request.operation != "CREATE" or existing is None:
        return
    if binding_of(existing.api_version) is not request.binding:
        group = existing.api_version.partition("/")[0]
        detail = f"{request.kind} of {group} has this name: choose another name"
        yield Problem("metadata.name", f"Invalid value: {shown(request.name)}: {detail}")


MAX_VALUES = 10_000
MAX_ENTRIES = 1024
MAX_DEPTH = 32
_SKIPPED = frozenset({"template", "volumeClaim", "managedFields", "jobSpec", "status"})
"""Fields that are validated by the API server's schema only, and the status, which controllers write."""
_UNLIMITED = frozenset({"annotations", "labels"})


def size_problems(manifest: Json) -> Iterator[Problem]:
    """Yield the first size limit that the object exceeds, without its pod templates."""
    value_budget = MAX_VALUES
    level: list[tuple[str, Any]] = [("", manifest)]
    for _ in range(MAX_DEPTH):
        onward: list[tuple[str, Any]] = []
        for path, value in level:
            key = path.rpartition(".")[2]
            if key in _SKIPPED:
                continue
            if isinstance(value, (dict, list)) and len(value) > MAX_ENTRIES and key not in _UNLIMITED:
                yield too_many(path[:200], len(value), MAX_ENTRIES)
                return
            if isinstance(value, dict) and key not in _UNLIMITED:
                onward += [(f"{path}.{name}" if path else str(name), item) for name, item in value.items()]
            elif isinstance(value, list):
                onward += [(path, item) for item in value]
            value_budget -= len(value) if isinstance(value, (dict, list)) else 0
            if value_budget < 0:
                yield Problem("", f"Too many: must have at most {MAX_VALUES} values outside of pod templates")
                return
        level = [(path, value) for path, value in onward if isinstance(value, (dict, list))]
        if not level:
            return
    yield Problem(level[0][0][:200], f"Invalid value: must have at most {MAX_DEPTH} levels of nesting")
