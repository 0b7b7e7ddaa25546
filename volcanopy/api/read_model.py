"""Base of the read models, and the parts that objects of all kinds share: metadata, conditions, label selectors.

A read model is a msgspec struct with the fields that volcanopy reads: decoding a pod from the bytes of a list takes about
ten microseconds. Read models are never written back; writes are patches. Those of custom resources are generated from the
full models, each a :class:`volcanopy.api.model.Model` of the same name.
"""

from datetime import datetime
from sys import intern

from msgspec import Struct, field

Labels = dict[str, str]
Quantities = dict[str, str | int | float]
"""A Kubernetes resource list; :func:`volcanopy.api.quantity.amounts` parses it."""


class ReadModel(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all read models: frozen, camelCase on the wire, unknown fields skipped."""


class OwnerReference(ReadModel, frozen=True, kw_only=True, gc=False):
    """Reference to an owner."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(ReadModel, frozen=True, kw_only=True, gc=False):
    """Metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Labels = {}
    annotations: Labels = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``, or the name of a cluster-scoped object: one text, however many tables are sorted by it."""
        return intern(f"{self.namespace}/{self.name}") if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The managing controller of the object, if there is one."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class Requirement(ReadModel, frozen=True, kw_only=True, gc=False):
    """One ``matchExpressions`` entry of a label or node selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(ReadModel, frozen=True, kw_only=True, gc=False):
    """Label selector. All requirements must match."""

    match_labels: Labels = {}
    match_expressions: tuple[Requirement, ...] = ()


class Condition(ReadModel, frozen=True, kw_only=True, gc=False):
    """A condition of any kind; those of a Job of Volcano have no type."""

    type: str = ""
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    transition_id: str = field(name="transitionID", default="")
