"""Counts of objects by group."""

from hypothesis import given
from hypothesis import strategies as st

from volcanopy.kube.cache.object_counts import ObjectCounts


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([None, "q", "r"]))))
def test_the_counts_are_those_of_the_objects_and_none_is_zero(changes: list[tuple[str, str | None]]) -> None:
    counted, groups = ObjectCounts[str](), dict[str, str | None]()
    for key, group in changes:
        before, groups[key] = groups.get(key), group
        assert counted.put(key, group) == ({before, group} - {None} if before != group else set())
        present = [group for group in groups.values() if group is not None]
        assert counted.counts == {name: present.count(name) for name in set(present)}
        assert all(counted.counts.values())
