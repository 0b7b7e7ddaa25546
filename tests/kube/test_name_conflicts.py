"""Of objects of two APIs with one name the scheduler sees one: the older, then volcanopy's."""

from datetime import UTC, datetime, timedelta

from volcanopy.api import core, names
from volcanopy.api.bindings import VOLCANO
from volcanopy.kube.cache.name_conflicts import NameConflicts
from volcanopy.kube.cache.watch import Change, ChangeType

OURS = names.SCHEDULING_V1BETA1
THEIRS = VOLCANO.api_version(OURS)
START = datetime(2026, 1, 1, tzinfo=UTC)


def queue(api: str, age: int = 0, name: str = "q", weight: int = 1) -> core.Queue:
    """A queue of an API; a greater age is older."""
    meta = core.Meta(name=name, uid=f"{api}/{name}", creation_timestamp=START - timedelta(seconds=age))
    return core.Queue(api_version=api, metadata=meta, spec=core.QueueSpec(weight=weight))


class Follower:
    """What the scheduler sees after each change, and which objects were reported."""

    def __init__(self) -> None:
        self.conflicts = NameConflicts()
        self.seen: dict[str, core.Queue] = {}
        self.reported: list[tuple[str, str]] = []
        self.conflicts.reported = lambda item, taken: self.reported.append((item.api_version, taken.api_version))

    def take(self, kind: ChangeType, item: core.Queue) -> None:
        """Take a change; an object must be deleted before another one of its name is added."""
        for change in self.conflicts.resolve([Change(kind, item)]):
            key = change.object.metadata.key
            if change.type is ChangeType.DELETED:
                del self.seen[key]
            else:
                assert key not in self.seen or self.seen[key].api_version == change.object.api_version
                self.seen[key] = change.object

    @property
    def api(self) -> str:
        """The API of the queue that is seen."""
        return self.seen["q"].api_version if self.seen else ""


def test_queues_of_different_names_are_all_seen() -> None:
    follower = Follower()
    follower.take(ChangeType.ADDED, queue(OURS, name="a"))
    follower.take(ChangeType.ADDED, queue(THEIRS, name="b"))
    assert set(follower.seen) == {"a", "b"}
    assert follower.reported == []


def test_the_older_one_is_seen_whichever_comes_first() -> None:
    for first, second in ((OURS, THEIRS), (THEIRS, OURS)):
        follower = Follower()
        ages = {OURS: 0, THEIRS: 60}
        follower.take(ChangeType.ADDED, queue(first, ages[first]))
        follower.take(ChangeType.ADDED, queue(second, ages[second]))
        assert follower.api == THEIRS
        assert follower.reported == [(OURS, THEIRS)]


def test_of_two_as_old_ours_is_seen() -> None:
    follower = Follower()
    follower.take(ChangeType.ADDED, queue(THEIRS))
    follower.take(ChangeType.ADDED, queue(OURS))
    assert follower.api == OURS


def test_the_other_one_is_seen_when_the_first_is_deleted() -> None:
    follower = Follower()
    follower.take(ChangeType.ADDED, queue(OURS, 60))
    follower.take(ChangeType.ADDED, queue(THEIRS))
    follower.take(ChangeType.DELETED, queue(OURS, 60))
    assert follower.api == THEIRS
    follower.take(ChangeType.DELETED, queue(THEIRS))
    assert follower.api == ""


def test_changes_of_the_one_that_is_not_seen_change_nothing() -> None:
    follower = Follower()
    follower.take(ChangeType.ADDED, queue(OURS, 60))
    follower.take(ChangeType.ADDED, queue(THEIRS))
    follower.take(ChangeType.MODIFIED, queue(THEIRS, weight=9))
    assert follower.seen["q"].spec.weight == 1
    follower.take(ChangeType.MODIFIED, queue(OURS, 60, weight=5))
    assert follower.seen["q"].spec.weight == 5
    follower.take(ChangeType.DELETED, queue(THEIRS))
    assert follower.seen["q"].spec.weight == 5
    assert follower.reported == [(THEIRS, OURS)]


def test_of_the_default_queue_ours_is_seen_whichever_is_older_and_none_is_reported() -> None:
    for name in names.SHARED_QUEUES:
        follower = Follower()
        follower.take(ChangeType.ADDED, queue(THEIRS, 60, name=name))
        follower.take(ChangeType.ADDED, queue(OURS, name=name))
        assert follower.seen[name].api_version == OURS
        assert follower.reported == []
