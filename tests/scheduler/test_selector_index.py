"""Which selectors are compared with a pod: all that match it, and few others, however many there are."""

import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.nodes.sessions import Stage, away, node, term
from tests.scheduler.nodes.sessions import pod as pod_of_app
from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.ledger.domain_limits import limited
from volcanopy.scheduler.model.selectors import PodSelector, SelectorIndex, of_term
from volcanopy.scheduler.nodes.pods.interpod_affinity import InterPodAffinity
from volcanopy.scheduler.nodes.pods.pod_counts import MAX_CURRENT, PodCounts

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)
GROUP = {names.GROUP_NAME: "group"}
NAMES, VALUES = st.sampled_from("abc"), st.sampled_from("xy")
LABELS = st.dictionaries(NAMES, VALUES, max_size=3)
REQUIREMENTS = st.builds(
    core.Requirement,
    key=NAMES,
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    values=st.lists(VALUES, min_size=1, max_size=2).map(tuple),
)
LABEL_SELECTORS = st.none() | st.builds(
    core.LabelSelector, match_labels=LABELS, match_expressions=st.lists(REQUIREMENTS, max_size=2).map(tuple)
)
SELECTORS = st.builds(
    PodSelector,
    namespaces=st.lists(NAMES, max_size=3).map(tuple),
    namespace_selector=LABEL_SELECTORS,
    labels=LABEL_SELECTORS,
)


def in_labels(label: str, value: str) -> core.LabelSelector:
    return core.LabelSelector(match_labels={label: value})


def in_expression(label: str, value: str) -> core.LabelSelector:
    expressions = (
        core.Requirement(key="any", operator="NotIn", values=("x",)),
        core.Requirement(key=label, operator="In", values=(value, value, f"not-{value}")),
    )
    return core.LabelSelector(match_expressions=expressions)


def exists(label: str, _: str) -> core.LabelSelector:
    return core.LabelSelector(match_expressions=(core.Requirement(key=label, operator="Exists"),))


def excludes(label: str, value: str) -> core.LabelSelector:
    """A selector that each pod matches, but for those with a label."""
    expressions = (
        core.Requirement(key=label, operator="NotIn", values=(value,)),
        core.Requirement(key=f"{label}-too", operator="DoesNotExist"),
    )
    return core.LabelSelector(match_expressions=expressions)


def of_namespaces(label: str, value: str) -> core.PodAffinityTerm:
    """A term about all pods of the namespaces with a label."""
    return core.PodAffinityTerm(
        topology_key="zone", namespace_selector=in_labels(label, value), label_selector=core.LabelSelector()
    )


Selector = Callable[[str, str], core.LabelSelector]


def pod(namespace: str, labels: dict[str, str], terms: int = 0, selector: Selector = in_labels) -> core.Pod:
    """A pod with so many anti-affinity terms, each about a label of its own."""
    required = tuple(
        core.PodAffinityTerm(topology_key="zone", label_selector=selector(f"term-{number}", namespace))
        for number in range(terms)
    )
    affinity = core.Affinity(pod_anti_affinity=core.PodAffinity(required=required)) if terms else None
    name = f"pod-{len(labels)}-{terms}"
    meta = core.Meta(name=name, namespace=namespace, uid=f"{namespace}/{name}", labels=labels, annotations=GROUP)
    return core.Pod(metadata=meta, spec=core.PodSpec(scheduler_name="volcanopy", affinity=affinity))


@given(st.lists(SELECTORS, max_size=6), NAMES, LABELS, st.dictionaries(NAMES, LABELS))
def test_every_selector_that_matches_is_a_candidate_once(
    selectors: list[PodSelector], namespace: str, labels: dict[str, str], namespaces: dict[str, dict[str, str]]
) -> None:
    known = {name: core.Namespace(metadata=core.Meta(name=name, labels=own)) for name, own in namespaces.items()}
    candidates = list(SelectorIndex(enumerate(selectors)).candidates(pod(namespace, labels), known))
    assert len(candidates) == len(set(candidates))
    matching = {number for number, selector in enumerate(selectors) if selector.matches(pod(namespace, labels), known)}
    assert matching <= set(candidates)


@pytest.mark.parametrize(
    ("selector", "user"),
    [
        *((selector, user) for selector in (in_labels, in_expression, exists) for user in ("eve", "bob")),
        (excludes, "bob"),
    ],
)
def test_a_thousand_terms_of_one_user_cost_others_nothing(
    user: str, selector: Selector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do those with other labels cost their own user anything, but for those that only exclude labels."""
    state = State()
    state.upsert(core.Queue(metadata=core.Meta(name="default", uid="default")))
    for namespace in ("eve", "bob"):
        state.upsert(core.PodGroup(metadata=core.Meta(name="group", namespace=namespace, uid=namespace)))
    state.upsert(pod("eve", {}, terms=1_000, selector=selector))
    state.snapshot(MOMENT)
    compared: list[PodSelector] = []
    matches = PodSelector.matches

    def counted(selector: PodSelector, *arguments: object) -> bool:
        compared.append(selector)
        return matches(selector, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(PodSelector, "matches", counted)
    for number in range(20):
        state.upsert(pod(user, {f"job-{number}": "x" for number in range(number)}))
    state.snapshot(MOMENT)
    assert not compared
    state.upsert(pod("eve", {"term-7": "eve"}, terms=1, selector=selector))
    state.snapshot(MOMENT)
    assert len(compared) == (1_000 if selector is excludes else 1)


def test_a_thousand_selectors_of_namespaces_cost_others_nothing() -> None:
    known = {name: core.Namespace(metadata=core.Meta(name=name, labels={f"team-{name}": "x"})) for name in ("eve", "7")}
    selectors = [of_term(of_namespaces(f"team-{number}", "x"), pod("eve", {})) for number in range(1_000)]
    index = SelectorIndex(enumerate(selectors))
    assert list(index.candidates(pod("eve", {"a": "b"}), known)) == []
    assert list(index.candidates(pod("bob", {"a": "b"}), known)) == []
    assert list(index.candidates(pod("7", {"a": "b"}), known)) == [7]


def test_the_new_terms_of_many_pods_are_compared_with_each_pod_once_for_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = State()
    state.upsert(core.Queue(metadata=core.Meta(name="default", uid="default")))
    state.upsert(core.PodGroup(metadata=core.Meta(name="group", namespace="eve", uid="group")))
    for number in range(100):
        state.upsert(pod("eve", {f"job-{number}": "x" for number in range(number)}))
    state.snapshot(MOMENT)
    searched: list[core.Pod] = []
    candidates = SelectorIndex.candidates

    def counted(index: SelectorIndex, of: core.Pod, *arguments: object) -> Iterator[int]:
        searched.append(of)
        return candidates(index, of, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SelectorIndex, "candidates", counted)
    for number in range(50):
        state.upsert(pod("eve", {}, terms=number + 1))
    before = len(searched)
    state.snapshot(MOMENT)
    assert before == 50
    assert len(searched) == before + len(state.tasks.rows)
    assert len(state.shapes.selectors) == 50


def test_the_selectors_of_one_user_take_less_than_a_byte_for_each_pod_of_others() -> None:
    others, own = 20_000, 200
    state = State()
    for name in ("eve", "bob"):
        state.upsert(core.PodGroup(metadata=core.Meta(name="group", namespace=name, uid=name)))
    template = pod("bob", {"a": "b"})
    metas = (
        msgspec.structs.replace(template.metadata, name=f"p-{number}", uid=str(number)) for number in range(others)
    )
    state.load([msgspec.structs.replace(template, metadata=meta) for meta in metas])
    state.snapshot(MOMENT)
    tracemalloc.start()
    try:
        for number in range(own):
            state.upsert(pod("eve", {f"job-{item}": "x" for item in range(number)}, number + 1))
        before, _ = tracemalloc.get_traced_memory()
        state.snapshot(MOMENT)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(state.shapes.selectors) == own
    assert after - before < own * others


def test_only_some_numbers_of_pods_are_current_in_a_session() -> None:
    size = MAX_CURRENT + 50
    pods = [pod_of_app(f"p-{number}", app=str(number), affinity=away(term(str(number)))) for number in range(size)]
    stage = Stage([node("n1"), *pods])
    counts = PodCounts(stage.cluster)
    interpod = InterPodAffinity(stage.cluster, counts)
    rows = np.array([0])
    limits = [limit for each in pods for limit in interpod.anti_affinity_limits(stage.task(each.metadata.name))]
    assert not any(limited([limit], rows)[0] for limit in limits)
    current = [len(vars(tally)["_counts"]) > 0 for tally in vars(counts)["_tallies"].values()]
    assert (len(current), sum(current)) == (size, MAX_CURRENT)
