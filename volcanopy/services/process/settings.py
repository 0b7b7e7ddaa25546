"""Settings of the service processes, with defaults."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

from volcanopy.api import names
from volcanopy.api.bindings import APIS, VOLCANOPY, Binding
from volcanopy.kube.leader.elector import LeaseDurations


@dataclass(frozen=True, kw_only=True)
class Election:
    """The Lease of a leader election, identified by its name."""

    name: str
    namespace: str = ""
    """Where the Lease is; empty: the pod's own namespace, or kube-system for a process that runs in none."""
    terms: LeaseDurations = field(default_factory=LeaseDurations)
    """Its durations."""


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings:
    """The scheduler's settings. Times are in seconds."""

    api: str = names.API
    """The API groups whose objects are scheduled: one of :data:`volcanopy.api.bindings.APIS`."""
    scheduler_name: str = names.SCHEDULER
    """Pods with this ``spec.schedulerName`` are scheduled, and those with the names of other served APIs."""
    default_queue: str = names.DEFAULT_QUEUE
    """The queue of pod groups without a queue. It is created if it does not exist."""
    config: Path | None = None
    """The configuration file: actions, tiers of plugins. It is read again when it changes. None: the built-in default."""
    config_period: float = 2.0
    """Between two checks of the file."""
    debounce: float = 0.005
    """From the first change to the cycle that handles it, so that concurrent changes are handled together."""
    debounce_most: float = 0.1
    """The longest pause between two cycles that take long."""
    minor_debounce: float = 0.2
    """From a minor change, such as a pod of an incomplete gang, to the cycle that handles it."""
    heartbeat: float = 10.0
    """The longest time without a cycle."""
    in_flight: int = 64
    """Concurrent binds and evictions."""
    shutdown: float = 20.0
    """For finishing the writes of plans at shutdown."""
    dump_dir: Path = Path(gettempdir()) / "volcanopy"
    """Directory of the dumps of plans that violate an invariant, with their snapshots."""
    pod_events: bool = False
    """Whether pods get the events ``Scheduled`` and ``FailedScheduling``, as kube-scheduler writes them."""
    election: Election | None = None
    """The leader election; None: this is the only scheduler."""
    settle_in: float = 0.2
    """From leadership to the first cycle, so that the last writes of the former leader are seen."""
    stuck_after: float = 120.0
    """The process is unhealthy after this time without a successful cycle."""

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The served APIs."""
        return APIS[self.api]

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """The scheduler names of the scheduled pods, the given one first."""
        return scheduler_names(self.scheduler_name, self.bindings)


def scheduler_names(given: str, bindings: tuple[Binding, ...]) -> tuple[str, ...]:
    """Return the given scheduler name, unless it is that of an API that is not served, and those of the other APIs."""
    own = (given,) if given != VOLCANOPY.scheduler_name or VOLCANOPY in bindings else ()
    return (*own, *(binding.scheduler_name for binding in bindings if binding is not VOLCANOPY))
