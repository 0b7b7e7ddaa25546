"""Effects of a reconciliation, in the order of execution.

The status update is the first effect and has the resource version of the object that was read; if it is rejected, the
remaining effects are not executed. After a crash at any point the next controller continues from the recorded decision.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, Generic, Literal, Self, TypeVar

from volcanopy.api.model import Json, Model

EffectT = TypeVar("EffectT")


@dataclass(frozen=True)
class Plan(Generic[EffectT]):
    """Effects in the order of execution, and the time of the next reconciliation if nothing changes before."""

    effects: tuple[EffectT, ...] = ()
    again: datetime | None = None

    def cut(self, writes: int) -> tuple[Self, Self]:
        """Return a plan of the first effects, at most so many of them writes, and a plan of the others."""
        count = 0
        for number, effect in enumerate(self.effects):
            count += not isinstance(effect, RecordEvent)
            if count > writes:
                return replace(self, effects=self.effects[:number]), replace(self, effects=self.effects[number:])
        return self, replace(self, effects=())

    def __str__(self) -> str:
        return "\n".join(map(str, self.effects))


@dataclass(frozen=True)
class Create:
    """Create an object; if one of its name exists, it must be controlled by the same owner."""

    noun: ClassVar[str]
    manifest: Json

    def __str__(self) -> str:
        return f"create {self.noun} {self.manifest['metadata']['name']}"


@dataclass(frozen=True)
class Delete:
    """Delete an object and its dependents, if it is still the one with this uid."""

    noun: ClassVar[str]
    name: str
    uid: str

    def __str__(self) -> str:
        return f"delete {self.noun} {self.name}"


@dataclass(frozen=True)
class UpdateStatus:
    """Replace the status of the object; rejected if the object has changed since it was read.

    A ``minor`` one has only other counts and messages, or is the first of a job that waits: nothing is decided by it, so it
    may be written later, with the changes that follow.
    """

    status: Json
    minor: bool = False

    def __str__(self) -> str:
        state = self.status.get("state", {})
        return f"status {state.get('phase')}: {state.get('message', '')}"


class CreatePodGroup(Create):
    """Create a PodGroup."""

    noun = "podgroup"


@dataclass(frozen=True)
class UpdatePodGroup:
    """Change a PodGroup by a merge patch."""

    name: str
    patch: Json

    def __str__(self) -> str:
        changed = [*self.patch.get("spec", {}), *self.patch.get("metadata", {})]
        return f"update podgroup {self.name}: {', '.join(sorted(changed))}"


class DeletePodGroup(Delete):
    """Delete a PodGroup."""

    noun = "podgroup"


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create a pod; its manifest is made when it is needed, because a plan may have very many pods."""

    name: str
    make: Callable[[], Json]
    admitted: bool = True
    """Whether its PodGroup is admitted. Otherwise a rejection by the API server is no error: the pod is created again then."""

    @property
    def manifest(self) -> Json:
        """The manifest, made anew."""
        return self.make()

    def __str__(self) -> str:
        return f"create pod {self.name}"


class DeletePod(Delete):
    """Delete a pod."""

    noun = "pod"


@dataclass(frozen=True)
class ApplyObject:
    """Create an object or change it to this form.

    ``digest`` becomes ``Observed.applied[key]`` once it is applied. With ``ssh_keys``, a new key pair is added to the data
    of a Secret that is created (``id_rsa``, ``id_rsa.pub``, ``authorized_keys``), and an existing Secret keeps its own: keys
    need randomness, which deciding code has no access to.
    """

    manifest: Json
    digest: str
    ssh_keys: bool = False

    @property
    def key(self) -> str:
        """``Kind/name``."""
        return f"{self.manifest['kind']}/{self.manifest['metadata']['name']}"

    def __str__(self) -> str:
        return f"apply {self.key}"


@dataclass(frozen=True)
class DeleteObject:
    """Delete an object that was applied for the job, if the job controls it."""

    api_version: str
    kind: str
    name: str

    @property
    def key(self) -> str:
        """``Kind/name``."""
        return f"{self.kind}/{self.name}"

    def __str__(self) -> str:
        return f"delete {self.key}"


class DeleteCommand(Delete):
    """Delete a Command that was executed or rejected."""

    noun = "command"


class CreateJob(Create):
    """Create a job."""

    noun = "job"


class DeleteJob(Delete):
    """Delete a job."""

    noun = "job"


@dataclass(frozen=True)
class RecordEvent:
    """Record an Event of the object."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str

    def __str__(self) -> str:
        return f"event {self.type} {self.reason}: {self.message}"


Effect = (
    UpdateStatus
    | CreatePodGroup
    | UpdatePodGroup
    | DeletePodGroup
    | CreatePod
    | DeletePod
    | ApplyObject
    | DeleteObject
    | DeleteCommand
    | DeleteJob
    | RecordEvent
)
JobPlan = Plan[Effect]


_SELDOM_COUNTED = frozenset({"terminating", "unknown", "version", "quickRestarts"})
"""Counts that no column shows."""


def status_json(status: Model) -> Json:
    """Return a status as JSON without empty values other than counts; of those that no column shows, without zeros.

    A field of a status costs the API server 8 KiB of memory at each write.
    """
    return {
        key: value
        for key, value in status.write().items()
        if value not in ("", [], {}) and value is not False and not (value == 0 and key in _SELDOM_COUNTED)
    }
