"""Gangs without a BatchJob in ``explain``, ``snapshot`` and ``plan``: of Volcano's API, of another gang API, and single pods."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.services.test_gangs import GANGS, LABEL, definition
from volcanopy.api import core, names
from volcanopy.api.bindings import VOLCANO
from volcanopy.cli.explain.text import job_lines, plain
from volcanopy.cli.plan import PlanOptions, plan_with
from volcanopy.cli.snapshot import read_snapshot
from volcanopy.client.durations import current_time
from volcanopy.client.errors import CommandError
from volcanopy.client.explain.cluster_reads import group_facts, job_or_group_of_pod
from volcanopy.client.explain.pod_group import GroupFacts, group_report, title_of
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS, POD_GROUPS, PODS, bound
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy_local.cluster import LocalCluster, Parts

pytestmark = pytest.mark.asyncio(loop_scope="module")
VOLCANO_GROUPS, VOLCANO_JOBS = bound(POD_GROUPS, VOLCANO), bound(JOBS, VOLCANO)
TOO_LARGE = {"requests": {"cpu": "9"}}
"""More than a simulated node has."""


def pod(name: str, scheduler: str, labels: Json | None = None, annotations: Json | None = None) -> Json:
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    containers = [{"name": "main", "image": "main", "resources": TOO_LARGE}]
    spec = {"schedulerName": scheduler, "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def cluster() -> AsyncIterator[LocalCluster]:
    """A cluster of both APIs with a gang of each kind that waits for larger nodes, and a job of Volcano."""
    controller = JobControllerSettings(gang_apis=("coscheduling",))
    async with LocalCluster(1, objects=[definition()], parts=Parts(api="both", controller=controller)) as running:
        client = running.client
        group = {"apiVersion": VOLCANO_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "spark"}}
        await client.create(VOLCANO_GROUPS, "default", group | {"spec": {"minMember": 1}})
        await client.create(PODS, "default", pod("driver", "volcano", None, {"scheduling.k8s.io/group-name": "spark"}))
        gang = {"apiVersion": GANGS.api_version, "kind": "PodGroup", "metadata": {"name": "train"}}
        await client.create(GANGS, "default", gang | {"spec": {"minMember": 2}})
        for number in range(2):
            await client.create(PODS, "default", pod(f"train-{number}", names.SCHEDULER, {LABEL: "train"}))
        await client.create(PODS, "default", pod("single", names.SCHEDULER))
        template = {"spec": {"containers": pod("x", "volcano")["spec"]["containers"]}}
        job = {"minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": template}]}
        body = {"apiVersion": VOLCANO_JOBS.api_version, "kind": "Job", "metadata": {"name": "vc"}, "spec": job}
        await client.create(VOLCANO_JOBS, "default", body)
        for kind, count in ((VOLCANO_GROUPS, 2), (POD_GROUPS, 2)):
            await until_explained(running, kind, count)
        yield running


async def until_explained(cluster: LocalCluster, kind: Any, count: int) -> None:
    async with asyncio.timeout(120):
        while True:
            listing = await cluster.client.list(kind, "default")
            if sum("explanation" in (item.get("status") or {}) for item in listing.items) >= count:
                return
            async with cluster.client.watch(kind, "default", resource_version=listing.resource_version) as stream:
                await stream.readline()


async def text_of(cluster: LocalCluster, name: str) -> str:
    facts = await group_facts(cluster.client, "default", name, "volcanopy-system", seconds=20)
    return plain(job_lines(group_report(facts)))


@pytest.mark.parametrize(
    ("member", "title"),
    [
        ("driver", 'pod group "spark" is pending: '),
        ("train-1", 'pod group "train" of scheduling.x-k8s.io is pending: '),
        ("single", 'pod group of Pod "single" is pending: '),
    ],
)
async def test_the_pod_group_of_a_pod_is_explained_with_what_lets_it_start(
    cluster: LocalCluster, member: str, title: str
) -> None:
    job, group = await job_or_group_of_pod(cluster.client, "default", member)
    assert job == ""
    text = await text_of(cluster, group)
    assert text.startswith(title), text
    assert "✗" in text
    assert "cpu" in text.partition("Starts with")[2]


async def test_a_pod_group_of_another_api_is_explained_by_its_own_name(cluster: LocalCluster) -> None:
    assert (await text_of(cluster, "train")).startswith('pod group "train" of scheduling.x-k8s.io is pending: ')


async def test_a_missing_pod_group_and_a_pod_without_one_are_errors(cluster: LocalCluster) -> None:
    with pytest.raises(CommandError, match='pod group "sparc" not found in namespace "default"'):
        await text_of(cluster, "sparc")
    await cluster.client.create(PODS, "default", pod("other", "another-scheduler"))
    with pytest.raises(CommandError, match='pod "other" belongs to no BatchJob and no pod group'):
        await job_or_group_of_pod(cluster.client, "default", "other")


async def test_a_snapshot_has_the_gangs_of_both_apis_and_plan_repeats_their_waiting(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.json"
    _, pieces = await read_snapshot(cluster.client)
    file.write_text("".join(pieces))
    assert "volcano.sh/v1beta1" not in file.read_text(), "complete without Volcano's API"
    plan_with([str(file)], PlanOptions())
    output = capsys.readouterr()
    waiting = {
        line.split()[1] for line in output.out.splitlines() if line.startswith("job ") and "never starts" in line
    }
    assert {"spark", "vc"} <= waiting
    assert len(waiting) == 4


async def test_a_snapshot_of_one_api_leaves_out_the_other(cluster: LocalCluster) -> None:
    def groups(taken: Any) -> set[str]:
        return {group.metadata.name for group in taken.jobs.groups if group is not None}

    both, own = [(await read_snapshot(cluster.client, api=api))[0] for api in ("both", "volcanopy")]
    assert "spark" in groups(both)
    assert "spark" not in groups(own)
    assert groups(own) < groups(both)


def facts(phase: str, change: Callable[[core.PodGroup], core.PodGroup] = lambda group: group) -> GroupFacts:
    group = core.PodGroup(
        metadata=core.Meta(name="g", namespace="default"),
        spec=core.PodGroupSpec(min_member=3),
        status=core.PodGroupStatus(phase=phase, running=2),
    )
    return GroupFacts(group=change(group), title=title_of(group), now=current_time(), pods=())


@pytest.mark.parametrize(
    ("phase", "summary"),
    [
        ("", 'pod group "g" is pending: 0/3 required pods created'),
        ("Inqueue", 'pod group "g" is pending: 0/3 required pods created'),
        ("Running", 'pod group "g" is running: 2/3 required pods running'),
        ("Completed", 'pod group "g" is completed'),
    ],
)
async def test_the_summary_states_what_is_missing(phase: str, summary: str) -> None:
    assert group_report(facts(phase)).summary == summary
