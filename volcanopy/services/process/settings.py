"""What the services can be told, with the values that suit most clusters."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

from volcanopy.api import names
from volcanopy.kube.leader.elector import Terms


@dataclass(frozen=True, kw_only=True)
class Election:
    """The Lease for which equal processes compete. Each name is a competition of its own."""

    name: str
    namespace: str = ""
    """Where the Lease is; empty: the pod's own namespace, or kube-system for a process that runs in none."""
    terms: Terms = field(default_factory=Terms)
    """How long it lasts."""


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings:
    """The scheduler's settings. Times are in seconds."""

    scheduler_name: str = names.SCHEDULER
    """Pods that give this name in ``spec.schedulerName`` are ours."""
    default_queue: str = names.DEFAULT_QUEUE
    """The queue of pod groups that name none. It is created if it does not exist."""
    config: Path | None = None
    """The configuration file: actions, tiers of plugins. It is read again when it changes. None: the built-in default."""
    config_period: float = 2.0
    """Between two looks at whether the file has changed."""
    debounce: float = 0.005
    """From the first change to the cycle that looks at it, so that what comes together is decided together."""
    debounce_most: float = 0.1
    """Between two cycles at most, where cycles take long themselves."""
    heartbeat: float = 10.0
    """The longest time without a cycle."""
    in_flight: int = 64
    """Binds and evictions on their way at once."""
    shutdown: float = 20.0
    """For finishing what was decided, once the end is asked for."""
    dump_dir: Path = Path(gettempdir()) / "volcanopy"
    """Where a plan that breaks a promise is written, with the world that it was made for."""
    election: Election | None = None
    """What decides which of several schedulers acts; None: this is the only one."""
    settle_in: float = 0.2
    """From winning an election to the first cycle, for what the former leader did last to be heard of."""
    stuck_after: float = 120.0
    """Without a cycle that came to a good end, the process counts as unhealthy."""
    stale_watch_after: float = 300.0
    """With a watch that has failed for so long, likewise."""
