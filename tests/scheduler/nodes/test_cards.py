"""Cards: the choice among those of many nodes at once is the one that looking at each by itself makes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.reference import cards as reference_cards
from tests.scheduler.reference.cards import Load
from volcanopy.api import core
from volcanopy.scheduler.filters.gpus import gpu_annotations
from volcanopy.scheduler.filters.gpus.card_selection import (
    CORES,
    FIRST_RULE,
    MEMORY,
    PODS,
    Card,
    CardOrder,
    CardRequest,
    card_table,
    choose,
)

LOADS = st.builds(
    Load,
    memory=st.integers(0, 12),
    slots=st.integers(1, 3),
    pods=st.integers(0, 2),
    used=st.integers(0, 12),
    cores=st.sampled_from([0, 30, 100]),
    allowed=st.booleans(),
)
REQUESTS = st.one_of(
    st.none(),
    st.builds(
        CardRequest,
        number=st.integers(1, 3),
        memory=st.integers(0, 6),
        percent=st.sampled_from([0, 25, 100]),
        cores=st.sampled_from([0, 40, 100]),
        whole=st.booleans(),
    ),
)


@given(
    st.lists(st.lists(LOADS, max_size=4), min_size=1, max_size=4),
    st.lists(REQUESTS, max_size=3),
    st.sampled_from(CardOrder),
)
def test_cards_of_many_nodes_are_chosen_as_of_each_by_itself(
    nodes: list[list[Load]], requests: list[CardRequest | None], order: CardOrder
) -> None:
    cards = card_table([[Card(str(place), one.memory, one.slots) for place, one in enumerate(node)] for node in nodes])
    flat = [one for node in nodes for one in node]
    taken = np.zeros((FIRST_RULE, len(flat)), dtype=np.int64)
    taken[PODS], taken[MEMORY], taken[CORES] = (
        [getattr(one, name) for one in flat] for name in ("pods", "used", "cores")
    )
    allowed = np.array([one.allowed for one in flat], dtype=np.bool_)
    rows = np.arange(len(nodes))[::-1]
    chosen = choose(cards, (taken,), rows, requests, allowed, order, np.empty(0, dtype=np.intp))
    for place, row in enumerate(rows.tolist()):
        expected = reference_cards.place(nodes[row], requests, order)
        assert bool(chosen.fits[place]) == (expected is not None)
        if expected is not None:
            start = int(cards.start[row])
            got = [[int(card) - start for card in own if cards.node[card] == row] for own in chosen.cards]
            assert got == expected


def test_a_node_tells_of_its_vgpus_in_one_line() -> None:
    found = gpu_annotations.parse_register(
        "GPU-a,10,8192,NVIDIA-T4,true,hami-core:GPU-b,5,16384,NVIDIA-A100,false,hami-core:"
    )
    assert found.cards == (Card("GPU-a", 8192, 10, "NVIDIA-T4"), Card("GPU-b", 16384, 5, "NVIDIA-A100", healthy=False))
    assert (found.mode, found.readable) == ("hami-core", True)


def test_a_line_that_cannot_be_read_offers_nothing() -> None:
    assert gpu_annotations.parse_register("GPU-a,ten,8192,NVIDIA-T4,true") == gpu_annotations.VgpuRegister(
        readable=False
    )
    assert gpu_annotations.parse_register("GPU-a,10") == gpu_annotations.VgpuRegister(readable=False)
    assert gpu_annotations.parse_register("") == gpu_annotations.VgpuRegister()


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.from_regex(r"GPU-[a-z]{1,3}", fullmatch=True), st.just("T4"), st.integers(0, 99), st.integers(0, 100)
            ),
            max_size=3,
        ),
        max_size=3,
    )
)
def test_what_is_written_to_a_pod_is_what_it_holds(containers: list[list[tuple[str, str, int, int]]]) -> None:
    held = gpu_annotations.vgpu_shares(gpu_annotations.format_vgpus(containers))
    assert list(held) == [
        gpu_annotations.CardShare(uuid, memory, cores) for one in containers for uuid, _, memory, cores in one
    ]


def container(**limits: str) -> core.Container:
    named = {f"volcanopy.io/{name.replace('_', '-')}": amount for name, amount in limits.items()}
    return core.Container(resources=core.ResourceRequirements(limits=dict(named)))


def test_a_container_that_says_no_number_wants_one_card_and_one_that_says_no_memory_all_of_it() -> None:
    spec = core.PodSpec(
        containers=(container(vgpu_memory="100"), container(), container(vgpu_number="2", vgpu_cores="50"))
    )
    assert gpu_annotations.vgpu_requests(spec) == (
        CardRequest(memory=100),
        None,
        CardRequest(number=2, percent=100, cores=50),
    )


def test_a_pod_wants_the_memory_of_its_containers_or_of_its_greediest_init_container() -> None:
    both = (container(gpu_memory="3"), container(gpu_memory="4"))
    assert gpu_annotations.shared_memory_requests(core.PodSpec(containers=both)) == (CardRequest(memory=7),)
    spec = core.PodSpec(containers=both, init_containers=(container(gpu_memory="9"),))
    assert gpu_annotations.shared_memory_requests(spec) == (CardRequest(memory=9),)
    assert gpu_annotations.shared_memory_requests(core.PodSpec(containers=(container(),))) == ()
