"""A user may change the default queue in either API: the other object follows, and no change is lost or undone."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from volcanopy.api import names
from volcanopy.api.bindings import VOLCANO
from volcanopy.api.shared_queues import content_of, copy_in, recorded, synchronized

Json = dict[str, Any]
OWN = names.SCHEDULING_V1BETA1
VOLCANOS = VOLCANO.api_version(OWN)
EVERY_FIELD = frozenset({"weight", "capability", "deserved", "limits"})
OLD_FIELDS = frozenset({"weight", "capability"})
"""The fields of an older definition of Volcano."""

VALUES = {
    "weight": st.integers(1, 3),
    "capability": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 3), min_size=1),
    "deserved": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 3), min_size=1),
    "limits": st.lists(
        st.fixed_dictionaries({"users": st.just(["*"]), "maxRunningJobs": st.integers(1, 3)}), max_size=1
    ),
    names.HIERARCHY: st.sampled_from(["root/a", "root/b"]),
}


def queue(api_version: str = OWN, annotations: Json | None = None, **spec: Any) -> Json:
    metadata = {"name": "default", "annotations": annotations or {}}
    return {"apiVersion": api_version, "kind": "Queue", "metadata": metadata, "spec": spec}


class Objects:
    """Both objects of the default queue on a server whose definition of Volcano's has some fields."""

    def __init__(self, own: Json, copy: Json, fields: Iterable[str] = EVERY_FIELD) -> None:
        self.own, self.copy, self.fields = own, copy, frozenset(fields)

    def edit(self, in_copy: bool, key: str, value: Any) -> None:
        """Set a field or annotation, or remove it with None, as a user does."""
        written = self.copy if in_copy else self.own
        part = written["metadata"]["annotations"] if key == names.HIERARCHY else written["spec"]
        part.pop(key, None)
        if value is not None:
            part[key] = value
        self._prune()

    def synchronize(self, writes: int = 2) -> None:
        """Write the changes; with fewer writes the controller ends in between."""
        own, copy = synchronized(self.own, self.copy)
        self.copy = copy
        self._prune()
        if writes > 1:
            self.own = recorded(own, self.copy)

    def _prune(self) -> None:
        spec = {key: value for key, value in self.copy["spec"].items() if key in self.fields}
        self.copy = {**self.copy, "spec": spec}

    @property
    def contents(self) -> tuple[Json, Json]:
        """What both contain, without the fields that the definition lacks."""
        keys = self.fields | {names.HIERARCHY}
        own, copy = ({key: item[key] for key in keys & item.keys()} for item in map(content_of, (self.own, self.copy)))
        return own, copy


def objects(fields: Iterable[str] = EVERY_FIELD, **spec: Any) -> Objects:
    """The objects after the scheduler has created one, and the controller the other."""
    own = recorded(queue(**spec), None)
    result = Objects(own, copy_in(own, VOLCANOS), fields)
    result.synchronize()
    return result


@st.composite
def edits(draw: st.DrawFn) -> tuple[bool, str, Any]:
    key = draw(st.sampled_from(sorted(VALUES)))
    return draw(st.booleans()), key, draw(st.one_of(st.none(), VALUES[key]))


@given(st.lists(edits(), max_size=8), st.sampled_from([EVERY_FIELD, OLD_FIELDS]), st.booleans())
def test_every_edit_of_either_object_is_in_both_and_changes_nothing_else(
    changes: list[tuple[bool, str, Any]], fields: frozenset[str], crashes: bool
) -> None:
    world = objects(fields, weight=1)
    expected = dict(content_of(world.own))
    for in_copy, key, value in changes:
        world.edit(in_copy, key, value)
        if not in_copy or key in fields or key == names.HIERARCHY:
            expected = {name: item for name, item in {**expected, key: value}.items() if item is not None}
        if crashes:
            world.synchronize(writes=1)
        world.synchronize()
        assert content_of(world.own) == expected
        assert world.contents[0] == world.contents[1]
        before = world.own, world.copy
        world.synchronize()
        assert (world.own, world.copy) == before


@given(edits(), edits())
def test_of_two_edits_of_one_field_volcanopys_counts_and_of_different_fields_both(
    first: tuple[bool, str, Any], second: tuple[bool, str, Any]
) -> None:
    (_, key, value), (_, other_key, other_value) = first, second
    world = objects(weight=1)
    before = dict(content_of(world.own))
    world.edit(False, key, value)
    world.edit(True, other_key, other_value)
    is_changed = content_of(world.own) != before
    world.synchronize()
    if key != other_key or not is_changed:
        assert content_of(world.own).get(other_key) == other_value
    if key != other_key or is_changed:
        assert content_of(world.own).get(key) == value
    assert world.contents[0] == world.contents[1]


def test_a_manifest_of_volcanos_api_that_was_applied_before_the_copy_existed_takes_effect() -> None:
    world = Objects(
        recorded(queue(weight=1, reclaimable=True), None), queue(VOLCANOS, weight=4, capability={"cpu": "8"})
    )
    world.synchronize()
    assert content_of(world.own) == {"weight": 4, "capability": {"cpu": "8"}, "reclaimable": True}


def test_without_a_record_the_object_of_volcanopys_api_counts() -> None:
    for annotations in ({}, {names.SYNCHRONIZED_CONTENT: "no JSON"}, {names.SYNCHRONIZED_CONTENT: "[1]"}):
        world = Objects(queue(annotations=annotations, weight=3), queue(VOLCANOS, weight=4, capability={"cpu": "8"}))
        world.synchronize()
        assert content_of(world.own) == content_of(world.copy) == {"weight": 3}


def test_a_copy_has_the_content_of_the_queue_and_nothing_else_of_it() -> None:
    own = queue(annotations={names.HIERARCHY: "root/a", "team": "x"}, weight=2)
    copy = copy_in(own, VOLCANOS)
    assert copy["metadata"] == {"name": "default", "annotations": {names.HIERARCHY: "root/a"}}
    assert copy["spec"] == {"weight": 2}


def test_fields_that_only_volcano_has_stay_in_its_object() -> None:
    world = objects(frozenset({*EVERY_FIELD, "extendClusters"}), weight=1)
    world.edit(True, "extendClusters", [{"name": "a"}])
    world.edit(False, "weight", 2)
    world.synchronize()
    assert world.copy["spec"] == {"weight": 2, "extendClusters": [{"name": "a"}]}
    assert "extendClusters" not in world.own["spec"]
