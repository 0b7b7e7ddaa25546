"""Defaulting and validation of the objects of a kind: the general rules, which kinds with their own rules override.

A strategy may change the body it is given as `body` or `new` (the caller owns it) and never the one given as `old`.
"""

from collections.abc import Callable
from typing import Any

from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.schema.metadata_validation import subdomain_faults
from embedded_apiserver.store.object_store import Body


class Strategy:
    """Storage with metadata rules only."""

    generation = False
    """metadata.generation counts changes of everything but metadata and status."""
    unconditional_update = True
    """A PUT without resourceVersion replaces whatever is there."""
    keeps_status = False
    """A create or an update of the object itself may carry status (Nodes: on create)."""
    create_on_update = False
    """A PUT of a name that does not exist creates it (Leases, Events, Endpoints, ...)."""
    propagation = "Background"
    """Default propagation policy of deletions."""
    name_rule: Callable[[str], tuple[str, ...]] = staticmethod(subdomain_faults)

    def __init__(self, *, status: bool = False, **settings: Any) -> None:
        self.status = status
        for name, value in settings.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no setting {name}")
            setattr(self, name, value)

    def default(self, body: Body) -> None:
        """Fill in what the user left out, as decoding does: before admission, again after webhooks."""

    def prepare_create(self, body: Body) -> None:
        """Clear the fields that clients may not set at creation and set the server's."""
        if self.status and not self.keeps_status:
            body.pop("status", None)
        if self.generation:
            body["metadata"]["generation"] = 1

    def prepare_update(self, new: Body, old: Body) -> None:
        """Keep what an update of the object itself may not change; count the generation."""
        if self.status:
            keep(new, old, "status")
        if self.generation:
            metadata, before = new["metadata"], old["metadata"].get("generation", 1)
            metadata["generation"] = before + 1 if self.content(new) != self.content(old) else before

    def prepare_status(self, new: Body, old: Body) -> Body:
        """The object that an update of its status makes of it."""
        made = {**old, "metadata": {**old["metadata"]}}
        for key in ("managedFields", "resourceVersion"):
            if key in new["metadata"]:
                made["metadata"][key] = new["metadata"][key]
        if "status" in new:
            made["status"] = new["status"]
        else:
            made.pop("status", None)
        return made

    def content(self, body: Body) -> Body:
        """What the generation counts changes of."""
        return {key: value for key, value in body.items() if key != "metadata" and (key != "status" or not self.status)}

    def validate(self, body: Body) -> list[FieldError]:
        """What is wrong with a new object, beyond its metadata."""
        return []

    def validate_update(self, new: Body, old: Body) -> list[FieldError]:
        """What is wrong with a change, beyond metadata; the default judges the new object as if it were created."""
        return self.validate(new)

    def validate_status(self, new: Body, old: Body) -> list[FieldError]:
        """What is wrong with a new status."""
        return []

    def grace(self, body: Body, asked: int | None) -> int | None:
        """Grace period of a deletion in seconds; None for kinds without one."""
        return None


def keep(new: Body, old: Body, key: str) -> None:
    """Give a field of an object the value that it had, or remove one that was not there."""
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)
