"""Tests of consolidate: pods are moved so that a gang starts, and every moved job runs again."""

from datetime import timedelta
from random import Random

import pytest
from msgspec.structs import replace

from tests import nightly
from volcanopy.api import core
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.moved_pods import RESERVATION_TIME
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import NOW, Lines, decided, world


def config(**arguments: object) -> SchedulerConfig:
    """A configuration with consolidate; unless said otherwise running time is no obstacle."""
    arguments = {"maxLostWork": "1000h"} | arguments
    lines = "\n".join(f"    {name}: {value}" for name, value in arguments.items())
    return parse(
        f"""
actions: "enqueue, allocate, backfill, consolidate"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}, {{name: pdb}}]
- plugins: [{{name: predicates}}, {{name: nodeorder}}, {{name: overcommit}}, {{name: proportion}}]
configurations:
- name: consolidate
  arguments:
{lines}
""",
        builtin(),
    )


def plan(text: str, **arguments: object) -> Lines:
    """The moves and placements of one cycle."""
    simulation = Simulation(world(text), config(**arguments))
    seen, made = simulation.snapshot(), simulation.cycle()
    assert violations(seen, made, enforced_invariants(simulation.config)) == []
    return Lines([line for line in decided(made) if line.split()[0] in {"bind", "evict", "nominate"}])


FRAGMENTED = """
    class high value=9
    node n1 cpu=4
    node n2 cpu=4
    job a note.volcanopy.io/{}=true{}: 1 x cpu=2 on=n1
    job b: 1 x cpu=2 on=n2
    job g{}: 1 x cpu=4
"""


@pytest.mark.parametrize("annotation", ["movable", "preemptable"])
def test_a_pod_moves_to_another_node_for_a_gang(annotation: str) -> None:
    assert plan(FRAGMENTED.format(annotation, "", "")) == "evict a-0: consolidate to n2\nnominate g-0 -> n1"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (FRAGMENTED.format("other", "", ""), {}),
        (FRAGMENTED.format("movable", " priority=high", ""), {}),
        (FRAGMENTED.format("movable", "", ""), {"maxLostWork": "1h"}),
        (FRAGMENTED.format("movable", "", ""), {"after": "48h"}),
        (FRAGMENTED.format("movable", "", "").replace("on=n1", "on=n1 note.volcanopy.io/preemptable=false"), {}),
        (FRAGMENTED.format("movable", " namespace=kube-system", ""), {}),
        (FRAGMENTED.format("movable", "", "").replace("node n2 cpu=4", "node n2 cpu=4 taint=t:NoSchedule"), {}),
        (FRAGMENTED.format("movable", "", "").replace("job g:", "queue q capability.cpu=3\njob g queue=q:"), {}),
        (FRAGMENTED.format("movable", "", "").replace("1 x cpu=4", "1 x cpu=5"), {}),
        (FRAGMENTED.format("movable", "", "").replace("1 x cpu=4", "2 x cpu=4"), {}),
    ],
    ids=[
        "not movable",
        "higher priority",
        "too much lost work",
        "gang is young",
        "pod is not preemptable",
        "critical pod",
        "other node does not admit it",
        "queue limit of the gang",
        "no node is large enough",
        "total is too large",
    ],
)
def test_nothing_moves(text: str, arguments: dict[str, object]) -> None:
    assert plan(text, **arguments) == ""


def test_a_gang_without_surplus_moves_whole_and_an_elastic_job_by_single_pods() -> None:
    text = """
        node n1 cpu=4
        node n2 cpu=4
        node n3 cpu=4
        job a note.volcanopy.io/movable=true min={}: 2 x cpu=1 on=n1,n2
        job b: 1 x cpu=3 on=n3
        job c: 1 x cpu=2 on=n2
        job g: 1 x cpu=4
        """
    moved = [line for line in plan(text.format(2)).lines if line.startswith("evict")]
    assert [line.split()[1] for line in moved] == ["a-0:", "a-1:"]
    assert plan(text.format(2), maxPods=1) == ""
    assert plan(text.format(1)) == ""  # the pod above the minimum is on n2, where it is not in the way
    other = text.format(1).replace("on=n1,n2", "on=n2,n1")
    assert [line.split()[1] for line in plan(other).lines if line.startswith("evict")] == ["a-1:"]


def test_the_move_with_the_least_lost_work_is_chosen_and_no_pod_moves_needlessly() -> None:
    text = """
        node n1 cpu=4
        node n2 cpu=4
        node n3 cpu=8
        job b note.volcanopy.io/movable=true min=0: 2 x cpu=1 on=n1
        job a note.volcanopy.io/movable=true: 1 x cpu=2 on=n2
        job c: 1 x cpu=5 on=n3
        job g: 1 x cpu=4
        """
    assert plan(text) == "evict a-0: consolidate to n1\nnominate g-0 -> n2"


def settled(simulation: Simulation, cycles: int = 6) -> None:
    """Run cycles, with an end of terminating pods after the second; every plan is valid."""
    for number in range(cycles):
        seen, made = simulation.snapshot(), simulation.cycle()
        assert violations(seen, made, enforced_invariants(simulation.config)) == []
        assert not number or not made.of(Evict)
        if number == 1:
            simulation.end_terminating()


def node_of(simulation: Simulation, pod: str) -> str:
    result = simulation.pod(f"default/{pod}")
    return "" if result is None else result.spec.node_name


def test_the_node_of_a_moved_pod_is_reserved_while_it_terminates() -> None:
    """Jobs that come meanwhile, even important ones, get neither its new node nor that of the gang."""
    simulation = Simulation(world(FRAGMENTED.format("movable", "", "")), config(), graceful=True)
    simulation.cycle()
    simulation.add(world("class higher value=99\njob late priority=higher min=0: 4 x cpu=1"))
    settled(simulation)
    assert (node_of(simulation, "a-0"), node_of(simulation, "g-0")) == ("n2", "n1")
    assert all(not node_of(simulation, f"late-{number}") for number in range(4))
    group = simulation.cluster.group("default/a")
    assert group is not None
    assert group.status.moves == ()
    assert group.status.moved_at == NOW
    assert group.status.phase == "Running"


def test_a_replacement_of_another_name_gets_the_reservation() -> None:
    """A ReplicaSet names its pods anew; between the end of the old pod and the new one there is no pod at all."""
    simulation = Simulation(world(FRAGMENTED.format("movable", "", "")), config(), replaced=False, graceful=True)
    simulation.cycle()
    simulation.end_terminating()
    simulation.add(world("job late min=0: 4 x cpu=1"))
    assert [str(effect) for effect in simulation.cycle().of(Bind)] == ["bind g-0 -> n1"]
    (pod,) = (item for item in world("job a: 1 x cpu=2") if isinstance(item, core.Pod))
    simulation.add([replace(pod, metadata=replace(pod.metadata, name="a-x7", uid="other"))])
    assert [str(effect) for effect in simulation.cycle().of(Bind)] == ["bind a-x7 -> n2"]


def test_a_reservation_ends_after_a_while_and_a_job_rests_after_a_move() -> None:
    simulation = Simulation(world(FRAGMENTED.format("movable", "", "")), config(), replaced=False)
    simulation.cycle()
    simulation.add(world("job late min=0: 2 x cpu=1"))
    assert not [effect for effect in simulation.cycle().of(Bind) if effect.pod.startswith("default/late")]
    simulation.now += RESERVATION_TIME + timedelta(seconds=1)
    assert [effect.node for effect in simulation.cycle().of(Bind)] == ["n2", "n2"]
    group = simulation.cluster.group("default/a")
    assert group is not None
    assert group.status.moves == ()


def fragments(dice: Random) -> str:
    """Nodes with movable and other jobs, and gangs whose pods fit in sum but mostly on no node."""
    lines = ["class high value=5"]
    free = {f"n{number}": dice.choice([4, 6, 8]) for number in range(dice.randint(2, 6))}
    lines += [f"node {name} cpu={cpu}" for name, cpu in free.items()]
    lines += [f"queue q{number} weight={number + 1}" for number in range(2)]
    for number in range(dice.randint(2, 7)):
        size, nodes = dice.randint(1, 3), list[str]()
        for _ in range(dice.choice([1, 1, 2, 3])):
            name = dice.choice(sorted(free))
            if free[name] - size >= 1:
                free[name] -= size
                nodes.append(name)
        if nodes:
            flag = dice.choice(["", " note.volcanopy.io/movable=true", " note.volcanopy.io/movable=true"])
            least = dice.choice([len(nodes), len(nodes), dice.randint(0, len(nodes))])
            head = f"job r{number} min={least} phase=Running queue=q{dice.randint(0, 1)}{flag}"
            lines.append(f"{head}{dice.choice(['', ' priority=high'])}: {len(nodes)} x cpu={size} on={','.join(nodes)}")
    for number in range(dice.randint(1, 2)):
        count, size = dice.randint(1, 3), dice.randint(2, 5)
        head = f"job g{number} queue=q{dice.randint(0, 1)}{dice.choice(['', ' priority=high'])}"
        lines.append(f"{head}: {count} x cpu={size}, {dice.randint(1, 2)} x role=m cpu=1 min=1")
    return "\n".join(lines)


@pytest.mark.parametrize("seeds", nightly.seeds(25, 100, 25, 75))
def test_in_random_worlds_moved_jobs_run_again_and_the_gang_starts(seeds: range) -> None:
    moved = 0
    for seed in seeds:
        simulation = Simulation(world(fragments(Random(seed))), config(), graceful=bool(seed % 2))
        first = simulation.cycle()  # places what fits without moves
        for _ in range(3):
            seen, made = simulation.snapshot(), simulation.cycle()
            assert violations(seen, made, enforced_invariants(simulation.config)) == [], seed
            first = made if made.of(Evict) else first
        evicted = {effect.pod for effect in first.of(Evict)}
        gangs = {effect.preemptor for effect in first.of(Evict)}
        nominated = {effect.pod for effect in first.of(Nominate) if effect.group in gangs}
        for _ in range(3):
            simulation.end_terminating()
            simulation.cycle()
        moved += bool(evicted)
        for pod in evicted | nominated:
            assert node_of(simulation, pod.removeprefix("default/")), (seed, pod)
    assert moved > len(seeds) / 10
