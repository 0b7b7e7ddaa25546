"""What-if questions: the engine with the plugins of installed packages, and the limits of a search."""

from datetime import datetime

from volcanopy.installed.job_plugins import job_registry
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.whatif import load
from volcanopy.whatif.answer import Limits
from volcanopy.whatif.engine import Budget, Engine, cycles_of

SECONDS = 10.0
"""Default work of the search for remedies: about so many seconds."""
RUN_CYCLES = 64


def engine(
    result: load.Loaded, config: SchedulerConfig, now: datetime, registry: Registry, previous: datetime | None = None
) -> Engine:
    """Return the engine of a question, in which the controllers have handled the manifests."""
    result_engine = Engine(result.cluster, config, now, registry, job_registry(), previous)
    result_engine.settle()
    return result_engine


def limits(
    engine: Engine,
    seconds: float = SECONDS,
    *,
    jobs: frozenset[str] | None = None,
    remedies: bool = True,
    estimates: bool = False,
) -> Limits:
    """Return the limits of a question: the search for remedies is work of about so many seconds, the estimates half as much.

    The clock does not count, so the answers are the same on a busy machine.
    """
    search, estimation = (Budget(cycles_of(engine.cluster, most)) for most in (seconds, seconds / 2))
    return Limits(Budget(RUN_CYCLES * 16), search, jobs, remedies, estimation if estimates else None)
