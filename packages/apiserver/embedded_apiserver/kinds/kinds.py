"""The served kinds: their names, where objects are stored, and the strategy that validates them.

A `Kind` is one served version of one resource. Versions of one resource share a bucket of the store; `incoming` and `outgoing`
translate between the served and the stored form where the two differ (versions of a custom resource, the two kinds of Event).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from embedded_apiserver.kinds.strategy import Strategy
from embedded_apiserver.schema.structural import Structural
from embedded_apiserver.store.object_store import Body

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
FIELDS = ("metadata.name", "metadata.namespace")


@dataclass(eq=False, slots=True)
class Kind:
    """One served version of one resource."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    strategy: Strategy
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    bucket: str = ""
    fields: tuple[str, ...] = FIELDS
    verbs: tuple[str, ...] = ALL_VERBS
    stored_version: str = ""
    incoming: Callable[[Body], Body] | None = None
    outgoing: Callable[[Body], Body] | None = None
    custom: bool = False
    schema: dict[str, Any] | None = None
    columns: Any = None
    structural: Structural | None = None
    scale: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    head: bytes = b""
    """How the JSON of an object of this kind and version begins in the store."""

    def __post_init__(self) -> None:
        self.singular = self.singular or self.kind.lower()
        self.bucket = self.bucket or self.qualified
        self.stored_version = self.stored_version or self.api_version
        self.head = b'{"kind":"%b","apiVersion":"%b",' % (self.kind.encode(), self.api_version.encode())

    @property
    def api_version(self) -> str:
        """The apiVersion of objects of this kind: `v1` or `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def gvk(self) -> dict[str, str]:
        """The kind as extensions of OpenAPI documents name it."""
        return {"group": self.group, "version": self.version, "kind": self.kind}

    @property
    def qualified(self) -> str:
        """`pods` or `jobs.batch`: the resource as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural
