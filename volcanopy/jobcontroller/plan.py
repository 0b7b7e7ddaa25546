"""Effects of the reconciliation of a job, in the order of execution.

The status update is the first effect and has the resource version of the job that was read; if it is rejected, the remaining
effects are not executed. After a crash at any point the next controller continues from the recorded decision.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from volcanopy.api.model import Json


@dataclass(frozen=True)
class UpdateStatus:
    """Replace the job's status; rejected if the job has changed since it was read."""

    status: Json

    def __str__(self) -> str:
        state = self.status.get("state", {})
        return f"status {state.get('phase')}: {state.get('message', '')}"


@dataclass(frozen=True)
class CreatePodGroup:
    """Make the job's PodGroup."""

    manifest: Json

    def __str__(self) -> str:
        return f"create podgroup {self.manifest['metadata']['name']}"


@dataclass(frozen=True)
class UpdatePodGroup:
    """Change the job's PodGroup by a merge patch."""

    name: str
    patch: Json

    def __str__(self) -> str:
        return f"update podgroup {self.name}: {', '.join(sorted(self.patch.get('spec', {})))}"


@dataclass(frozen=True)
class DeletePodGroup:
    """Delete the job's PodGroup, if it is still the one with this uid."""

    name: str
    uid: str

    def __str__(self) -> str:
        return f"delete podgroup {self.name}"


@dataclass(frozen=True)
class CreatePod:
    """Make a pod; that it exists already is fine, if it is the job's."""

    manifest: Json

    def __str__(self) -> str:
        return f"create pod {self.manifest['metadata']['name']}"


@dataclass(frozen=True)
class DeletePod:
    """Delete a pod, if it is still the one with this uid."""

    name: str
    uid: str

    def __str__(self) -> str:
        return f"delete pod {self.name}"


@dataclass(frozen=True)
class ApplyObject:
    """Make an object or bring it to this form.

    ``digest`` goes into ``Observed.applied`` under ``key`` once it is done. With ``ssh_keys``, the one who carries it
    out adds a new key pair to the Secret's data when it does not exist (``id_rsa``, ``id_rsa.pub``,
    ``authorized_keys``) and leaves the keys of one that does: keys need randomness, which deciding code has no access to.
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
    """Delete an object that was made for the job, if the job controls it."""

    api_version: str
    kind: str
    name: str

    @property
    def key(self) -> str:
        """``Kind/name``."""
        return f"{self.kind}/{self.name}"

    def __str__(self) -> str:
        return f"delete {self.key}"


@dataclass(frozen=True)
class DeleteCommand:
    """Delete a Command that was executed or rejected."""

    name: str
    uid: str

    def __str__(self) -> str:
        return f"delete command {self.name}"


@dataclass(frozen=True)
class DeleteJob:
    """Delete the job after its time to live."""

    uid: str

    def __str__(self) -> str:
        return "delete job"


@dataclass(frozen=True)
class RecordEvent:
    """Record an Event of the job."""

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


@dataclass(frozen=True)
class JobPlan:
    """Effects in the order of execution, and the time of the next reconciliation if nothing changes before."""

    effects: tuple[Effect, ...] = ()
    again: datetime | None = field(default=None)

    def __str__(self) -> str:
        return "\n".join(map(str, self.effects))
