"""Simulation of scheduling cycles on a world at the time of the notation: see :mod:`volcanopy.whatif.simulation`."""

from collections.abc import Iterable

from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.whatif import simulation
from volcanopy.whatif.cluster import Cluster
from volcanopy_testing.notation import NOW


class Simulation(simulation.Simulation):
    """A world and the plans that are applied to it."""

    def __init__(
        self, objects: Iterable[Object], config: SchedulerConfig, replaced: bool = True, graceful: bool = False
    ) -> None:
        """``replaced``: an evicted pod is created again under its name; ``graceful``: it terminates until ``end_terminating``."""
        super().__init__(Cluster(objects), config, NOW, replaced=lambda _: replaced, graceful=graceful)
