"""Full model of JobHistory (``batch.volcanopy.io/v1alpha1``): records of jobs that survive their deletion."""

from typing import Literal

from pydantic import Field

from volcanopy.api.batch import Eviction
from volcanopy.api.model import ATOMIC, Duration, Int32, Model, ObjectMeta, Time


class JobRecord(Model):
    """Record of a job that has ended."""

    name: str = Field(max_length=253)
    """Name of the job."""
    queue: str = Field(default="", max_length=253)
    """Queue of the job."""
    user: str = Field(default="", max_length=1024)
    """User who submitted the job. Empty if unknown."""
    phase: str = Field(default="", max_length=63)
    """Last phase of the job, or Deleted if it was deleted before its end."""
    reason: str = Field(default="", max_length=253)
    """Reason of the phase."""
    queued: Time | None = None
    """Time at which the job was created."""
    admitted: Time | None = None
    """Time at which the job was first admitted to its queue."""
    placed: Time | None = None
    """Time at which the minimum of its pods ran first, since the job was created or last resumed."""
    finished: Time | None = None
    """Time at which the job ended."""
    running_duration: Duration | None = None
    """Total running time of the job."""
    restarts: Int32 = 0
    """Number of restarts of the job or a part of it."""
    evictions: list[Eviction] = Field(default_factory=list, max_length=32, json_schema_extra=ATOMIC)
    """Last evictions of its pods."""
    pods: Int32 = 0
    """Number of pods of the job."""
    resource_seconds: dict[str, str] = Field(default_factory=dict)
    """Requested amounts of its pods multiplied by their running time in seconds, by resource."""


class JobHistory(Model):
    """Records of jobs of a namespace that ended on one day, written by the job controller."""

    api_version: Literal["batch.volcanopy.io/v1alpha1"] = "batch.volcanopy.io/v1alpha1"
    kind: Literal["JobHistory"] = "JobHistory"
    metadata: ObjectMeta
    records: dict[str, JobRecord] = Field(default_factory=dict)
    """Records by UID of the job."""
