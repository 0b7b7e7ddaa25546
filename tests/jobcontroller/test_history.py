"""Records of jobs, and the bounded objects that contain them."""

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.jobcontroller.test_accounting import end, running
from tests.jobcontroller.world import START, World, job, task
from volcanopy.api import names
from volcanopy.jobcontroller.history import (
    IN_ALL,
    OF_NAMESPACE,
    RECORDS,
    HistoryObject,
    has_ended,
    is_dropped,
    place_for,
    place_of,
    record,
    record_json,
    superfluous,
)

PLACES = st.builds(
    HistoryObject,
    st.integers(0, 400).map(lambda day: (START + timedelta(days=day)).date().isoformat()),
    st.integers(0, 3),
    st.sampled_from(["a", "b", "c"]),
)


def test_a_record_has_the_course_of_a_job() -> None:
    world = running(task("a", 2))
    assert world.job is not None
    world.job["metadata"]["annotations"][names.SUBMITTED_BY] = "ana"
    world.wait(seconds=90)
    end(world, "job-a-0")
    end(world, "job-a-1")
    world.settle()
    finished = world.read()
    assert has_ended(finished)
    assert record_json(record(finished)) == {
        "name": "job",
        "queue": "default",
        "user": "ana",
        "phase": "Completed",
        "reason": "Succeeded",
        "queued": "2026-01-01T00:00:00Z",
        "admitted": "2026-01-01T00:01:00Z",
        "placed": "2026-01-01T00:02:00Z",
        "finished": "2026-01-01T00:03:30Z",
        "runningDuration": "1m30s",
        "pods": 2,
        "resourceSeconds": {"cpu": "180"},
    }


def test_a_deleted_job_has_a_record_of_its_deletion() -> None:
    seen = World(job()).settle().read()
    deleted = START + timedelta(hours=1)
    assert (record(seen, deleted).phase, record(seen, deleted).finished) == ("Deleted", deleted)
    assert not has_ended(seen)


def test_an_object_takes_a_bounded_number_of_records() -> None:
    day = datetime.fromisoformat("2026-01-31T12:00:00+00:00")
    first, second = HistoryObject("2026-01-31", 0, "ns"), HistoryObject("2026-01-31", 1, "ns")
    assert place_for("ns", day, {}) == first
    assert place_for("ns", day, {first: RECORDS - 1}) == first
    assert place_for("ns", day, {first: RECORDS}) == second
    assert place_for("ns", day, {first: RECORDS, second: 3}) == second
    assert place_for("other", day, {first: RECORDS}) == HistoryObject("2026-01-31", 0, "other")


def test_names_of_objects_are_read_back() -> None:
    place = HistoryObject("2026-01-31", 12, "ns")
    assert place_of("ns", place.name) == place
    assert place_of("ns", "mine") is None
    assert place_of("ns", "2026-01-31-x") is None


@settings(deadline=None)
@given(st.lists(PLACES, max_size=300))
def test_the_newest_objects_are_kept(places: list[HistoryObject]) -> None:
    dropped = superfluous(places)
    kept = set(places) - set(dropped)
    for namespace in "abc":
        mine = sorted(place for place in set(places) if place.namespace == namespace)
        assert [place for place in mine if place in kept] == mine[-OF_NAMESPACE:]
    assert superfluous(kept) == []


def test_all_namespaces_together_are_bounded() -> None:
    places = [HistoryObject(f"2026-01-{day:02}", 0, f"ns-{number}") for day in range(1, 31) for number in range(25)]
    dropped = superfluous(places)
    assert len(places) - len(dropped) == IN_ALL
    assert max(place.day for place in dropped) <= min(place.day for place in set(places) - set(dropped))


def test_records_of_dropped_days_are_not_written_again() -> None:
    full = {HistoryObject((START + timedelta(days=day)).date().isoformat(), 0, "ns"): 1 for day in range(OF_NAMESPACE)}
    assert is_dropped(HistoryObject("2025-12-31", 0, "ns"), full)
    assert not is_dropped(HistoryObject("2026-12-31", 0, "ns"), full)
    assert not is_dropped(HistoryObject("2025-12-31", 0, "other"), full)
