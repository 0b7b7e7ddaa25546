"""Configuration of admission."""

from typing import Literal

import yaml
from pydantic import Field

from volcanopy.api import names
from volcanopy.api.model import Bool, InvalidObjectError, Model, Subdomain
from volcanopy.api.scheduling import Subjects

Severity = Literal["reject", "warn", "allow"]


class PolicyError(ValueError):
    """An invalid configuration; the message contains every problem."""


class Placement(Subjects):
    """Queue of jobs of these subjects that name no queue."""

    queue: Subdomain
    """Name of the queue."""


class AdmissionPolicy(Model):
    """Configuration of admission for the whole cluster. Permissions of a queue are part of the queue."""

    max_queue_depth: int = Field(default=5, ge=1, le=64)
    """Maximum depth of the queue tree, without the root queue."""
    protect_root: Bool = True
    """Whether capability, deserved and guarantee of the root queue are immutable."""
    gang_above_capability: Severity = "reject"
    """Severity if the smallest gang of a job exceeds the capability of its queue or an ancestor, or its submitter's limits."""
    pod_above_nodes: Severity = "warn"
    """Severity if a pod is larger than every node."""
    pod_rejected: Severity = "reject"
    """Severity if the API server rejects a pod of a job in a dry run. With ``allow`` there are no dry runs."""
    pod_unchecked: Severity = "warn"
    """Severity if the dry run of a pod fails for another reason."""
    placement: list[Placement] = Field(default_factory=list, max_length=1024)
    """Queues of jobs that name none, in a namespace that names none. The first matching entry applies."""
    default_queue: Subdomain = names.DEFAULT_QUEUE
    """Queue of all other jobs that name none."""
    scheduler_names: list[str] = Field(default_factory=lambda: [names.SCHEDULER], min_length=1, max_length=16)
    """Scheduler names of pods that volcanopy schedules."""
    controllers: list[str] = Field(default_factory=list, max_length=64)
    """User names of volcanopy's controllers, which create objects on behalf of other users."""
    superusers: Subjects = Subjects(groups=["system:masters"])
    """Subjects that may use and change every queue."""


def parse(text: str) -> AdmissionPolicy:
    """Parse a configuration file. Raises PolicyError."""
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise PolicyError(f"invalid YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return AdmissionPolicy()
    if not isinstance(content, dict):
        raise PolicyError(f"must be a map such as maxQueueDepth: 5, is {type(content).__name__}")
    try:
        return AdmissionPolicy.read(content, unknown="forbid")
    except InvalidObjectError as error:
        raise PolicyError("; ".join(map(str, error.problems))) from None
