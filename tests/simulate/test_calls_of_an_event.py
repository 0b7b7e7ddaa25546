"""How many calls the simulator makes for an event while jobs wait."""

from tests.call_counts import calls
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import default
from volcanopy_lab.simulate.cluster_description import equal_nodes, with_default_queue
from volcanopy_lab.simulate.engine import Simulator
from volcanopy_lab.simulate.generators import lublin


def test_an_event_takes_few_calls_while_jobs_wait() -> None:
    """C functions are counted, too. Four jobs wait on average: what follows from all of them is computed once in a cycle."""
    nodes = equal_nodes(8, {"cpu": "16", "memory": "256Gi"})
    simulator = Simulator(with_default_queue(nodes), lublin(80, 128, 2.0, 1), default(builtin()))
    waiting = 0

    def run() -> None:
        nonlocal waiting
        for _ in simulator.steps():
            waiting += len(simulator.records.waiting)

    count = calls(run)
    assert waiting / simulator.cycles > 3
    assert count / simulator.events < 18_000
