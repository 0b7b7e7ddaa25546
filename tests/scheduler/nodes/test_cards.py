"""Selection of GPU cards, and the annotations with cards."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.reference import cards as reference_cards
from tests.scheduler.reference.cards import Load
from volcanopy.api import core
from volcanopy.api.builtin import gpu_annotations
from volcanopy.api.builtin.gpu_annotations import Card, CardShare
from volcanopy_policies.devices.cards.card_selection import (
    CORES,
    FIRST_RULE,
    MEMORY,
    PODS,
    CardCriteria,
    CardOrder,
    CardRequest,
    card_table,
    choose,
)
from volcanopy_policies.devices.gpus import gpu_requests

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
def test_card_selection_on_many_nodes_equals_the_reference(
    nodes: list[list[Load]], requests: list[CardRequest | None], order: CardOrder
) -> None:
    cards = card_table(
        [[Card(str(index), load.memory, load.slots) for index, load in enumerate(node)] for node in nodes]
    )
    flat = [load for node in nodes for load in node]
    taken = np.zeros((FIRST_RULE, len(flat)), dtype=np.int64)
    taken[PODS], taken[MEMORY], taken[CORES] = (
        [getattr(load, name) for load in flat] for name in ("pods", "used", "cores")
    )
    allowed = np.array([load.allowed for load in flat], dtype=np.bool_)
    rows = np.arange(len(nodes))[::-1]
    chosen = choose(cards, (taken,), rows, CardCriteria(tuple(requests), allowed, np.empty(0, dtype=np.intp)), order)
    for index, row in enumerate(rows.tolist()):
        expected = reference_cards.place(nodes[row], requests, order)
        assert bool(chosen.fits[index]) == (expected is not None)
        if expected is not None:
            start = int(cards.start[row])
            actual = [[int(card) - start for card in own if cards.node[card] == row] for own in chosen.cards]
            assert actual == expected


def test_register_annotation_lists_the_cards_of_a_node() -> None:
    register = gpu_annotations.parse_register(
        "GPU-a,10,8192,NVIDIA-T4,true,hami-core:GPU-b,5,16384,NVIDIA-A100,false,hami-core:"
    )
    assert register.cards == (
        Card("GPU-a", 8192, 10, "NVIDIA-T4"),
        Card("GPU-b", 16384, 5, "NVIDIA-A100", healthy=False),
    )
    assert (register.mode, register.readable) == ("hami-core", True)


def test_invalid_register_annotation_has_no_cards() -> None:
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
def test_vgpu_annotation_round_trip(containers: list[list[tuple[str, str, int, int]]]) -> None:
    shares = gpu_annotations.vgpu_shares(gpu_annotations.format_vgpus(containers))
    assert list(shares) == [
        CardShare(uuid, memory, cores) for container_cards in containers for uuid, _, memory, cores in container_cards
    ]


def container(**limits: str) -> core.Container:
    named = {f"volcano.sh/{name.replace('_', '-')}": amount for name, amount in limits.items()}
    return core.Container(resources=core.ResourceRequirements(limits=dict(named)))


def test_vgpu_requests_default_to_one_card_and_all_of_its_memory() -> None:
    spec = core.PodSpec(
        containers=(container(vgpu_memory="100"), container(), container(vgpu_number="2", vgpu_cores="50"))
    )
    assert gpu_requests.vgpu_requests(spec) == (
        CardRequest(memory=100),
        None,
        CardRequest(number=2, percent=100, cores=50),
    )


def test_shared_memory_request_is_the_sum_of_containers_or_the_largest_init_container() -> None:
    both = (container(gpu_memory="3"), container(gpu_memory="4"))
    assert gpu_requests.shared_memory_requests(core.PodSpec(containers=both)) == (CardRequest(memory=7),)
    spec = core.PodSpec(containers=both, init_containers=(container(gpu_memory="9"),))
    assert gpu_requests.shared_memory_requests(spec) == (CardRequest(memory=9),)
    assert gpu_requests.shared_memory_requests(core.PodSpec(containers=(container(),))) == ()
