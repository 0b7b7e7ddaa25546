"""The caches of admission: the largest nodes, unfinished jobs, the configuration file."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.admission.feasibility import maximal
from volcanopy.api import names
from volcanopy.api.config_file import ConfigError
from volcanopy.api.core import Node, PodGroup
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.services.admission.cluster_cache import NodeSizes, UnfinishedPodGroups
from volcanopy.services.admission.policy_file import PolicyFile


def node(name: str, **allocatable: str) -> Node:
    return msgspec.convert({"metadata": {"name": name}, "status": {"allocatable": allocatable}}, Node)


def group(name: str, phase: str, queue: str = "") -> PodGroup:
    body = {"metadata": {"name": name}, "spec": {"queue": queue} if queue else {}, "status": {"phase": phase}}
    return msgspec.convert(body, PodGroup)


def test_only_the_largest_nodes_are_kept() -> None:
    sizes = NodeSizes()
    many = [node(f"n{n}", cpu=str(n % 8 + 1), memory="8Gi") for n in range(100)]
    wide = node("wide", cpu="2", memory="64Gi")
    sizes.take([Change(ChangeType.ADDED, item) for item in [*many, wide]])
    assert sorted(room["cpu"] for room in sizes.largest()) == [2000, 8000]
    sizes.take([Change(ChangeType.DELETED, wide)])
    assert [room["cpu"] for room in sizes.largest()] == [8000]
    sizes.take([Change(ChangeType.MODIFIED, node("n0", cpu="96", memory="9Gi"))])
    assert [room["cpu"] for room in sizes.largest()] == [96000]


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)), max_size=12),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 4)),
)
def test_a_pod_fits_a_node_if_and_only_if_it_fits_one_of_the_largest(
    rooms: list[dict[str, int]], pod: dict[str, int]
) -> None:
    def fits(value: object) -> bool:
        assert isinstance(value, (list, tuple))
        return any(all(room.get(key, 0) >= units for key, units in pod.items()) for room in value)

    assert fits(rooms) == fits(maximal(rooms))


def test_unfinished_jobs_are_counted_by_queue() -> None:
    counts = UnfinishedPodGroups()
    counts.take([Change(ChangeType.ADDED, group("a", "Pending", "q")), Change(ChangeType.ADDED, group("b", "Running"))])
    assert +counts.counts == {"q": 1, "default": 1}
    counts.take([Change(ChangeType.MODIFIED, group("a", "Completed", "q"))])
    counts.take([Change(ChangeType.MODIFIED, group("b", "Running", "q"))])
    assert +counts.counts == {"q": 1}
    counts.take([Change(ChangeType.DELETED, group("b", "Running", "q"))])
    assert not +counts.counts


def test_the_file_is_reloaded_and_an_invalid_one_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "admission.yaml"
    path.write_text("maxQueueDepth: 3\nplacement: [{queue: science, groups: [physicists]}]\n")
    policy = PolicyFile(path)
    assert (policy.current.max_queue_depth, policy.reload()) == (3, False)
    path.write_text("maxQueueDepth: 4 # more\n")
    assert policy.reload()
    path.write_text("maxQueueDepht: 5\n")
    assert not policy.reload()
    assert policy.current.max_queue_depth == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("maxQueueDepht: 5", "maxQueueDepht: Unknown field"),
        ("maxQueueDepth: 0", "maxQueueDepth: Invalid value: 0: must be greater than or equal to 1"),
        ("gangAboveCapability: never", 'gangAboveCapability: Unsupported value: "never"'),
        ("- a", "must be a mapping such as maxQueueDepth: 5, is a list"),
        ("a: [", "line 1: invalid YAML"),
    ],
)
def test_a_wrong_file_names_the_key(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "admission.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"admission.yaml: {says}"):
        PolicyFile(path)


def test_the_submitter_of_an_owner_is_the_submitter_of_its_objects() -> None:
    template = {names.SUBMITTED_BY: "boss", "note": "x"}
    assert names.with_submitter_of(template, {names.SUBMITTED_BY: "alice", "other": "y"}) == {
        "note": "x",
        names.SUBMITTED_BY: "alice",
    }
    assert names.with_submitter_of(template, None) == {"note": "x"}
