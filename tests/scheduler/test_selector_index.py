"""Which selectors are compared with a pod: all that match it, and few others, however many there are."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.model.selectors import PodSelector, SelectorIndex

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


def pod(namespace: str, labels: dict[str, str], terms: int = 0) -> core.Pod:
    """A pod with so many anti-affinity terms, each about a label of its own."""
    required = tuple(
        core.PodAffinityTerm(
            topology_key="zone", label_selector=core.LabelSelector(match_labels={f"term-{number}": namespace})
        )
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
    candidates = list(SelectorIndex(enumerate(selectors)).candidates(pod(namespace, labels)))
    assert len(candidates) == len(set(candidates))
    matching = {number for number, selector in enumerate(selectors) if selector.matches(pod(namespace, labels), known)}
    assert matching <= set(candidates)


@pytest.mark.parametrize("user", ["eve", "bob"])
def test_a_thousand_terms_of_one_user_cost_others_nothing(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do those with other labels cost their own user anything."""
    state = State()
    state.upsert(core.Queue(metadata=core.Meta(name="default", uid="default")))
    for namespace in ("eve", "bob"):
        state.upsert(core.PodGroup(metadata=core.Meta(name="group", namespace=namespace, uid=namespace)))
    state.upsert(pod("eve", {}, terms=1_000))
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
    state.upsert(pod("eve", {"term-7": "eve"}, terms=1))
    state.snapshot(MOMENT)
    assert len(compared) == 1
