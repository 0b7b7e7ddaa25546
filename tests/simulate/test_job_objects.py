"""The objects of simulated jobs are those that admission and the controller make of each job alone."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from volcanopy.admission.request import User
from volcanopy.api import core, names
from volcanopy.whatif.admission import SUPERUSER, admit
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.controllers import JobControllers
from volcanopy.whatif.kinds import created
from volcanopy_lab.simulate.cluster_description import equal_nodes, queues
from volcanopy_lab.simulate.engine import START
from volcanopy_lab.simulate.job_objects import TASK, JobObjectCache, JobObjects, Rejected, manifest, priority_class
from volcanopy_lab.simulate.workload import Job, JobAlternative

LATER = START + timedelta(hours=1)
JOBS = (
    Job("a", 0, 10),
    Job("b", 0, 10, pods=3, minimum=2, requests={"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}),
    Job("c", 0, 10, queue="research", user="ana", priority=100, preemptable=True, node_selector={"zone": "a"}),
    Job("c-2", 0, 10, queue="research", user="ben", priority=100, preemptable=True, node_selector={"zone": "a"}),
    Job("d", 0, 10, annotations={"volcanopy.io/sla-waiting-time": "1h"}, namespace="lab"),
    Job(
        "e",
        0,
        10,
        pods=2,
        alternatives=(
            JobAlternative("gpu", {"cpu": "1", "nvidia.com/gpu": "1"}, 10),
            JobAlternative("cpu", {"cpu": "4"}, 40, node_selector={"zone": "a"}),
        ),
    ),
)


def cluster() -> Cluster:
    """Return a cluster with what the jobs name."""
    meta = core.Meta(name=priority_class(100))
    return Cluster(
        [
            *equal_nodes(1, {"cpu": "8"}),
            *queues({"default": 1, "research": 1}),
            core.PriorityClass(metadata=meta, value=100),
        ]
    )


def of_the_controller(job: Job, alternative: str = "") -> tuple[core.PodGroup, list[core.Pod]]:
    """Return the objects that a BatchJob of this name gets when it is submitted alone, admitted with an alternative."""
    alone = cluster()
    body = admit(alone, manifest(job, job.name), User(job.user) if job.user else SUPERUSER).body
    alone.put_workload(created(body, LATER))
    controllers = JobControllers(alone, LATER)
    controllers.step()
    (group,) = alone.of_kind("PodGroup").values()
    selected = core.SelectedAlternative(name=alternative) if alternative else None
    alone.put(replace(group, status=core.PodGroupStatus(phase="Inqueue", alternative=selected)))
    controllers.step()
    return group, list(alone.of_kind("Pod").values())


def renamed(meta: core.Meta, job: Job, group: str) -> core.Meta:
    """Return metadata under the names of the simulator: a PodGroup has the name of its job, and nothing has an owner."""
    texts = {key: job.name if text in {group, f"{job.name}-{TASK}"} else text for key, text in meta.annotations.items()}
    name = job.name if meta.name == group else meta.name
    return replace(meta, name=name, uid=name, annotations=texts, owner_references=())


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_the_objects_of_a_job_are_those_of_the_controller(job: Job) -> None:
    cache = JobObjectCache(cluster())
    for earlier in JOBS:
        cache.of(earlier, START)
    objects = cache.of(job, START)
    assert isinstance(objects, JobObjects)
    for alternative in [each.name for each in job.alternatives] or [""]:
        group, pods = of_the_controller(job, alternative)
        made = objects.podgroup(job, LATER, {})
        assert made.spec == group.spec
        assert made.metadata == renamed(group.metadata, job, group.metadata.name)
        simulated = objects.pods_of(job, LATER, alternative)
        assert [pod.spec for pod in simulated] == [pod.spec for pod in pods]
        assert [pod.metadata for pod in simulated] == [renamed(pod.metadata, job, group.metadata.name) for pod in pods]


def test_a_queue_with_submitters_rejects_the_jobs_of_others() -> None:
    closed = queues({"closed": 1})[0]
    closed = replace(closed, spec=replace(closed.spec, submitters=core.Subjects(users=("ana",))))
    there = cluster()
    there.put(closed)
    cache = JobObjectCache(there)
    assert isinstance(cache.of(Job("a", 0, 1, queue="closed", user="ana"), START), JobObjects)
    rejected = cache.of(Job("b", 0, 1, queue="closed", user="ben"), START)
    assert isinstance(rejected, Rejected)
    assert "ben" in rejected.message


def test_the_submitter_of_each_job_is_on_its_pod_group() -> None:
    cache = JobObjectCache(cluster())
    for job in JOBS[2:4]:
        objects = cache.of(job, START)
        assert isinstance(objects, JobObjects)
        assert objects.podgroup(job, START, {}).metadata.annotations[names.SUBMITTED_BY] == job.user
