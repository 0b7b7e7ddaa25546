"""What an administrator decides about admission: the configuration file, read into one value.

Who may use a queue stands in the queue. Here stands what is true of the whole cluster.
"""

from typing import Literal

import yaml
from pydantic import Field

from volcanopy.api import names
from volcanopy.api.model import Bool, InvalidObjectError, Model, Subdomain
from volcanopy.api.scheduling import Subjects

Severity = Literal["refuse", "warn", "allow"]


class PolicyError(ValueError):
    """A configuration that cannot be used; says every key that is wrong."""


class Landing(Subjects):
    """Whose jobs go to which queue when they name none."""

    queue: Subdomain
    """The queue."""


class AdmissionPolicy(Model):
    """What holds in the whole cluster."""

    max_queue_depth: int = Field(default=5, ge=1, le=64)
    """How many queues there may be from the root (which is not counted) down to the lowest."""
    protect_root: Bool = True
    """Whether capability, deserved and guarantee of the root queue are fixed."""
    gang_above_capability: Severity = "refuse"
    """A job whose smallest gang is more than its queue, or one above it, may ever hold, or lets its submitter hold."""
    pod_above_nodes: Severity = "warn"
    """A pod that is larger than every node there is."""
    pod_refused: Severity = "refuse"
    """A job with a pod that the API server would not take; with ``allow`` it is not asked."""
    pod_untried: Severity = "warn"
    """A job about whose pods the API server could not be asked."""
    placement: list[Landing] = Field(default_factory=list, max_length=1024)
    """Queues of jobs that name none and whose namespace names none; the first that fits counts."""
    default_queue: Subdomain = names.DEFAULT_QUEUE
    """The queue of all other jobs that name none."""
    scheduler_names: list[str] = Field(default_factory=lambda: [names.SCHEDULER], min_length=1, max_length=16)
    """Pods that name one of these schedulers are ours."""
    controllers: list[str] = Field(default_factory=list, max_length=64)
    """User names of our own controllers: what they make is made for somebody else."""
    superusers: Subjects = Subjects(groups=["system:masters"])
    """Who may use and change every queue, whatever it says."""


def parse(text: str) -> AdmissionPolicy:
    """The policy that a configuration file's text describes. Raises PolicyError, naming the keys."""
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise PolicyError(f"is no YAML: {' '.join(str(error).split())}") from None
    if found is None:
        return AdmissionPolicy()
    if not isinstance(found, dict):
        raise PolicyError(f"holds {type(found).__name__}, not keys with values: write maxQueueDepth: 5 or the like")
    try:
        return AdmissionPolicy.read(found, unknown="forbid")
    except InvalidObjectError as error:
        raise PolicyError("; ".join(map(str, error.problems))) from None
