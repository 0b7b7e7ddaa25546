"""Tests of moved pods in the status of a pod group: written with the plan, kept, and cleared."""

from datetime import timedelta

from volcanopy.api import core
from volcanopy.api.scheduling import PodGroupStatus
from volcanopy.scheduler.model.plan import Evict, SetPodGroup
from volcanopy.services.scheduler.state import statuses
from volcanopy_testing.notation import NOW, world

MOVES = (core.PodMove(pod="a-0", node="n2", requests={"cpu": "2"}),)


def test_moved_pods_are_written_kept_and_cleared() -> None:
    before = core.PodGroupStatus(phase="Running", running=1)
    moved = statuses.group_status(before, SetPodGroup("default/a", "Running", moves=MOVES), "s", NOW)
    patch = statuses.status_patch(before, moved)
    assert list(patch["moves"]) == [{"pod": "a-0", "node": "n2", "requests": {"cpu": "2"}}]
    written = PodGroupStatus.model_validate({"moves": list(patch["moves"]), "movedAt": patch["movedAt"]})
    assert (written.moves[0].node, written.moved_at) == ("n2", NOW)
    later = NOW + timedelta(minutes=1)
    kept = statuses.group_status(moved, SetPodGroup("default/a", "Inqueue"), "s", later)
    assert (kept.moves, kept.moved_at) == (MOVES, NOW)
    cleared = statuses.group_status(kept, SetPodGroup("default/a", "Running", moves=()), "s", later)
    assert (cleared.moves, cleared.moved_at) == ((), NOW)
    assert statuses.status_patch(kept, cleared)["moves"] is None


def test_the_event_of_a_moved_pod_names_its_node() -> None:
    (group,) = (item for item in world("job g queue=q: 1 x cpu=1") if isinstance(item, core.PodGroup))
    eviction = Evict("default/a-0", "consolidate", "default/a", "", "default/g", "n2")
    assert statuses.eviction_message(eviction, group) == 'moved to node "n2" for job "g" in queue "q"'
