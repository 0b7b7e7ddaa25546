"""The counts of what queues contain end with their contents, whether the queue exists or not."""

from collections import Counter

from volcanopy.api import core
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.services.controllers.queues import QueueContents


def group(queue: str, phase: str) -> core.PodGroup:
    """Return a PodGroup in a queue."""
    meta = core.Meta(name=f"in-{queue}", namespace="default", uid=queue)
    return core.PodGroup(metadata=meta, spec=core.PodGroupSpec(queue=queue), status=core.PodGroupStatus(phase=phase))


def test_counts_of_queues_without_contents_are_dropped() -> None:
    changed: Counter[str] = Counter()
    contents = QueueContents(lambda name: changed.update([name]))
    for number in range(3):
        name = f"gone-{number}"
        job = {"metadata": {"uid": name}, "spec": {"queue": name}}
        contents.job_event("ADDED", job)
        for phase in ("Pending", "Running"):
            contents.pod_group_changes([Change(ChangeType.MODIFIED, group(name, phase))])
        assert (sum(contents.groups(name).values()), contents.jobs(name)) == (1, 1)
        contents.job_event("DELETED", job)
        contents.pod_group_changes([Change(ChangeType.DELETED, group(name, "Running"))])
        assert changed[name] == 5
        assert (contents.groups(name), contents.jobs(name)) == ({}, 0)
