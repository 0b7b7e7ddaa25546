"""Request of an AdmissionReview: the operation, the object and the user."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from volcanopy.api.model import Json

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
