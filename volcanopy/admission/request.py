"""Request of an AdmissionReview: the operation, the object with its size limits, and the user."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from volcanopy.api.model import Json, Model, Problem, too_many

M = TypeVar("M", bound=Model)
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request; the name is empty if it is unknown."""

    name: str = ""
    groups: tuple[str, ...] = ()

    @property
    def account(self) -> tuple[str, str] | None:
        """Namespace and name of the service account, if the user is one."""
        if not self.name.startswith(_ACCOUNT):
            return None
        namespace, _, name = self.name.removeprefix(_ACCOUNT).partition(":")
        return (namespace, name) if namespace and name else None


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

    @property
    def key(self) -> tuple[str, str, str]:
        """Group, kind and operation."""
        return self.group, self.kind, self.operation

    def read(self, model: type[M]) -> M:
        """Return the object as its full model. Raises InvalidObjectError, whose problems the review reports."""
        return model.read(self.object or {}, unknown="forbid")

    def with_object(self, manifest: Json) -> "Request":
        """Return the request with another object."""
        return replace(self, object=manifest)

    @classmethod
    def of(cls, admission_review: Json) -> "Request | None":
        """Return the request of a review, if there is one."""
        request = admission_review.get("request")
        if not isinstance(request, Mapping):
            return None
        kind, user = _mapping(request.get("kind")), _mapping(request.get("userInfo"))
        groups = user.get("groups")
        manifest, old = request.get("object"), request.get("oldObject")
        metadata = _mapping(_mapping(manifest if isinstance(manifest, dict) else old).get("metadata"))
        return cls(
            uid=_text(request.get("uid")),
            group=_text(kind.get("group")),
            kind=_text(kind.get("kind")),
            operation=_text(request.get("operation")),
            name=_text(request.get("name")) or _text(metadata.get("name")),
            namespace=_text(request.get("namespace")) or _text(metadata.get("namespace")),
            user=User(
                _text(user.get("username")),
                tuple(group for group in groups if isinstance(group, str)) if isinstance(groups, list) else (),
            ),
            object=manifest if isinstance(manifest, dict) else None,
            old=old if isinstance(old, dict) else None,
            dry_run=request.get("dryRun") is True,
        )


def at(value: Any, *steps: str) -> Any:
    """Return the value at a path of nested objects; None if a step is missing or not an object."""
    for step in steps:
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def annotations(manifest: Json | None) -> dict[str, str]:
    """Return the annotations of an object whose values are strings."""
    values = at(manifest, "metadata", "annotations")
    if not isinstance(values, dict):
        return {}
    return {key: value for key, value in values.items() if isinstance(value, str)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


MAX_VALUES = 10_000
MAX_ENTRIES = 1024
MAX_DEPTH = 32
_SKIPPED = frozenset({"template", "volumeClaim", "managedFields", "jobSpec", "status"})
"""Fields that are validated by the API server's schema only, and the status, which controllers write."""
_UNLIMITED = frozenset({"annotations", "labels"})


def size_problems(manifest: Json) -> Iterator[Problem]:
    """Yield the first size limit that the object exceeds, without its pod templates."""
    left = MAX_VALUES
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
            left -= len(value) if isinstance(value, (dict, list)) else 0
            if left < 0:
                yield Problem("", f"Too many: must have at most {MAX_VALUES} values outside of pod templates")
                return
        level = [(path, value) for path, value in onward if isinstance(value, (dict, list))]
        if not level:
            return
    yield Problem(level[0][0][:200], f"Invalid value: must have at most {MAX_DEPTH} levels of nesting")
