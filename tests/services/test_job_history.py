"""The job history on an API server: every job has one record, through deletions, crashes and rejected writes."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from tests.services.service_cluster import Cluster, controller, task
from volcanopy.api.batch import BatchJob
from volcanopy.jobcontroller.history import OF_NAMESPACE, RECORDS
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NoAnswer, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import JOB_HISTORIES, JOBS
from volcanopy.services.controllers.job_history import JobHistoryWriter


async def records(cluster: Cluster) -> dict[str, Json]:
    """All records of the namespace by the name of their job; fails if a job has two."""
    listing = await cluster.client.list(JOB_HISTORIES, cluster.namespace)
    entries = [entry for item in listing.items for entry in item["records"].values()]
    assert len({entry["name"] for entry in entries}) == len(entries)
    return {entry["name"]: entry for entry in entries}


def finished(name: str, uid: str) -> BatchJob:
    """A job that has ended."""
    time = datetime.now(UTC).replace(microsecond=0).isoformat()
    metadata = {"name": name, "namespace": "default", "uid": uid, "creationTimestamp": time}
    status = {"state": {"phase": "Completed", "lastTransitionTime": time}}
    return BatchJob.read({"metadata": metadata, "spec": {"tasks": [task()]}, "status": status})


async def test_a_record_survives_the_deletion_of_its_job(cluster: Cluster) -> None:
    async with controller(cluster):
        await cluster.submit("brief", task("a", 2), ttlSecondsAfterFinished=0, queue="default")
        await cluster.all_of(JOB_HISTORIES, bool)
        await cluster.until(lambda: "brief" not in cluster.jobs)
    entry = (await records(cluster))["brief"]
    assert (entry["phase"], entry["queue"], entry["pods"]) == ("Completed", "default", 2)
    assert entry["queued"] <= entry["admitted"] <= entry["placed"] <= entry["finished"]


async def test_a_record_is_there_when_the_job_has_ended(cluster: Cluster) -> None:
    async with controller(cluster):
        for number in range(5):
            await cluster.submit(f"job-{number}")
        for number in range(5):
            await cluster.until(lambda number=number: cluster.phase(f"job-{number}") == "Completed")  # type: ignore[misc]
            assert f"job-{number}" in await records(cluster)
        assert len(await records(cluster)) == 5


async def test_a_job_that_is_deleted_while_it_runs_has_a_record(cluster: Cluster) -> None:
    cluster.ends = ""
    async with controller(cluster):
        await cluster.submit("gone")
        await cluster.until(lambda: cluster.phase("gone") == "Running")
        await cluster.client.delete(JOBS, cluster.namespace, "gone", propagation="Background")
        await cluster.all_of(JOB_HISTORIES, lambda items: any(item["records"] for item in items))
        assert (await records(cluster))["gone"]["phase"] == "Deleted"


async def test_a_job_that_ended_without_a_record_gets_one_from_the_next_controller(cluster: Cluster) -> None:
    async with controller(cluster):
        await cluster.submit("old")
        await cluster.until(lambda: cluster.phase("old") == "Completed")
    for item in (await cluster.client.list(JOB_HISTORIES, cluster.namespace)).items:
        await cluster.client.delete(JOB_HISTORIES, cluster.namespace, item["metadata"]["name"])
    async with controller(cluster):
        await cluster.all_of(JOB_HISTORIES, bool)
        assert (await records(cluster))["old"]["phase"] == "Completed"


class Histories:
    """A server of JobHistories that may lose the answers to writes."""

    patch_or_create = Client.patch_or_create

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.writes = 0
        self.loses_answers = False

    async def list(self, _: Kind[Json]) -> SimpleNamespace:
        """All objects."""
        return SimpleNamespace(items=list(self.objects.values()))

    async def patch(self, _: Kind[Json], __: str, name: str, body: Json) -> Json:
        """Merge records."""
        self.writes += 1
        await asyncio.sleep(0)
        if name not in self.objects:
            raise NotFound(404)
        self.objects[name]["records"] |= body["records"]
        return self._answer(name)

    async def create(self, _: Kind[Json], __: str, body: Json) -> Json:
        """Make an object."""
        self.writes += 1
        name = body["metadata"]["name"]
        self.objects[name] = body
        return self._answer(name)

    async def delete(self, _: Kind[Json], __: str, name: str) -> None:
        """Delete an object."""
        del self.objects[name]

    def _answer(self, name: str) -> Json:
        if self.loses_answers:
            raise NoAnswer("https://server", "connection lost", maybe_applied=True)
        return self.objects[name]


async def writer(histories: Histories) -> JobHistoryWriter:
    """A controller's writer, after its start."""
    started = JobHistoryWriter(cast("Client", histories), lambda: datetime.now(UTC))
    await started.load()
    return started


async def test_jobs_that_end_together_share_writes() -> None:
    histories = Histories()
    one_writer = await writer(histories)
    await asyncio.gather(*(one_writer.ended(finished(f"job-{number}", f"uid-{number}")) for number in range(100)))
    (item,) = histories.objects.values()
    assert len(item["records"]) == 100
    assert histories.writes <= 4


async def test_a_lost_answer_and_a_crash_repeat_no_record() -> None:
    histories = Histories()
    before = await writer(histories)
    histories.loses_answers = True
    with pytest.raises(NoAnswer):
        await before.ended(finished("a", "uid-a"))
    histories.loses_answers = False
    await before.ended(finished("a", "uid-a"))
    after_crash = await writer(histories)
    await after_crash.ended(finished("a", "uid-a"))
    assert [list(item["records"]) for item in histories.objects.values()] == [["uid-a"]]


async def test_full_objects_are_followed_by_others_and_the_oldest_is_deleted() -> None:
    histories = Histories()
    one_writer = await writer(histories)
    for start in range(0, RECORDS * (OF_NAMESPACE + 1), RECORDS):
        jobs = [finished(f"job-{start + number}", f"uid-{start + number}") for number in range(RECORDS)]
        await asyncio.gather(*(one_writer.ended(job) for job in jobs))
    assert len(histories.objects) == OF_NAMESPACE
    assert {len(item["records"]) for item in histories.objects.values()} == {RECORDS}
    assert not any("uid-0" in item["records"] for item in histories.objects.values())


async def test_a_dropped_job_is_forgotten_when_it_is_deleted() -> None:
    one_writer = await writer(Histories())
    unreadable = {"metadata": {"uid": "uid-a"}, "status": {"state": {"phase": "Completed"}}}
    for jobs, dropped in (([unreadable], {"uid-a"}), ([unreadable], {"uid-a"}), ([], set())):
        rounds = asyncio.create_task(one_writer.run(jobs.copy))
        await asyncio.sleep(0)
        rounds.cancel()
        assert one_writer._dropped == dropped
