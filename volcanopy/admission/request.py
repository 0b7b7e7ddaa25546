"""What an AdmissionReview asks, as far as it can be read: who wants to do what with which object."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from volcanopy.api.model import Json

_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """Who asks; without a name it is not known."""

    name: str = ""
    groups: tuple[str, ...] = ()

    @property
    def account(self) -> tuple[str, str] | None:
        """Namespace and name of the service account that this is, if it is one."""
        if not self.name.startswith(_ACCOUNT):
            return None
        namespace, _, name = self.name.removeprefix(_ACCOUNT).partition(":")
        return (namespace, name) if namespace and name else None


def account_user(namespace: str, name: str) -> User:
    """The user that a service account is."""
    groups = ("system:serviceaccounts", f"{_ACCOUNT[:-1]}s:{namespace}", "system:authenticated")
    return User(f"{_ACCOUNT}{namespace}:{name}", groups)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to make, change or delete one object. ``object`` is None when it is deleted, ``old`` when it is made."""

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
    def about(self) -> tuple[str, str, str]:
        """What the rules are looked up by."""
        return self.group, self.kind, self.operation

    def holding(self, changed: Json) -> "Request":
        """The same request with another object."""
        return replace(self, object=changed)

    @classmethod
    def of(cls, admission_review: Json) -> "Request | None":
        """The request of a review; None if it holds none."""
        request = admission_review.get("request")
        if not isinstance(request, Mapping):
            return None
        kind, user = _mapping(request.get("kind")), _mapping(request.get("userInfo"))
        groups = user.get("groups")
        found, old = request.get("object"), request.get("oldObject")
        named = _mapping(_mapping(found if isinstance(found, dict) else old).get("metadata"))
        return cls(
            uid=_text(request.get("uid")),
            group=_text(kind.get("group")),
            kind=_text(kind.get("kind")),
            operation=_text(request.get("operation")),
            name=_text(request.get("name")) or _text(named.get("name")),
            namespace=_text(request.get("namespace")) or _text(named.get("namespace")),
            user=User(
                _text(user.get("username")),
                tuple(one for one in groups if isinstance(one, str)) if isinstance(groups, list) else (),
            ),
            object=found if isinstance(found, dict) else None,
            old=old if isinstance(old, dict) else None,
            dry_run=request.get("dryRun") is True,
        )


def at(found: Any, *steps: str) -> Any:
    """What stands at a path of nested objects; None where something on the way is missing or no object."""
    for step in steps:
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found


def annotations(manifest: Json | None) -> dict[str, str]:
    """The annotations of an object, those that are texts."""
    found = at(manifest, "metadata", "annotations")
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
