"""Learnt run times in a ConfigMap: they outlive the controller, and a failed write is repeated."""

from datetime import timedelta
from typing import cast

import pytest

from tests.jobcontroller.world import World, job
from volcanopy.api.batch import BatchJob
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NoAnswer, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.services.controllers.run_times import RunTimes


class ConfigMaps:
    """A server of ConfigMaps that may be out of reach."""

    patch_or_create = Client.patch_or_create

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.writes = 0
        self.is_down = False

    async def get(self, _: Kind[Json], __: str, name: str) -> Json:
        """Return an object."""
        if name not in self.objects:
            raise NotFound(404)
        return self.objects[name]

    async def patch(self, kind: Kind[Json], namespace: str, name: str, body: Json) -> Json:
        """Replace the data of an object."""
        if self.is_down:
            raise NoAnswer("https://server", "connection refused", maybe_applied=False)
        known = await self.get(kind, namespace, name)
        self.writes += 1
        known["data"] = body["data"]
        return known

    async def create(self, _: Kind[Json], __: str, body: Json) -> Json:
        """Make an object."""
        self.writes += 1
        self.objects[body["metadata"]["name"]] = body
        return body


async def controller(server: ConfigMaps) -> RunTimes:
    """The table of a controller, after its start."""
    started = RunTimes(cast("Client", server), "volcanopy-system")
    await started.load()
    return started


def finished(minutes: int) -> BatchJob:
    """A job that came to its end after so many minutes."""
    return World(job()).started().wait(minutes=minutes).succeed().settle().read()


async def saved(run_times: RunTimes, *waiting: Json) -> list[str]:
    """Write what was learnt; return the jobs that were woken."""
    woken: list[str] = []
    await run_times.save(waiting, woken.append)
    return woken


async def test_what_was_learnt_outlives_the_controller() -> None:
    server = ConfigMaps()
    before = await controller(server)
    for minutes in (5, 7, 6):
        before.learn(finished(minutes))
    await saved(before)
    after = await controller(server)
    assert after.table.dump() == before.table.dump() != "[]"
    name = finished(5).metadata.name
    waiting = {"metadata": {"name": name, "namespace": "default"}, "spec": {}}
    assert after.estimate(waiting) == before.estimate(waiting)
    assert (after.estimate(waiting) or timedelta()) >= timedelta(minutes=5)
    after.learn(finished(8))
    await saved(after)
    assert (await controller(server)).table.dump() == after.table.dump() != before.table.dump()


async def test_the_waiting_jobs_of_the_same_name_are_woken_once() -> None:
    run_times = await controller(ConfigMaps())
    done = finished(5)
    run_times.learn(done)
    waiting = {"metadata": {"name": done.metadata.name, "namespace": "default"}, "spec": {"queue": done.spec.queue}}
    other = {"metadata": {"name": "other", "namespace": "default"}, "spec": {"queue": done.spec.queue}}
    over = waiting | {"status": {"state": {"phase": "Completed"}}}
    assert await saved(run_times, waiting, other, over) == [f"default/{done.metadata.name}"]
    assert await saved(run_times, waiting, other, over) == []


async def test_a_failed_write_is_repeated_and_nothing_is_written_without_a_change() -> None:
    server = ConfigMaps()
    run_times = await controller(server)
    await saved(run_times)
    assert server.writes == 0
    run_times.learn(finished(5))
    server.is_down = True
    await saved(run_times)
    server.is_down = False
    await saved(run_times)
    assert server.writes == 1
    assert (await controller(server)).table.dump() == run_times.table.dump()


@pytest.mark.parametrize("text", ["", "nonsense"])
async def test_a_malformed_table_is_replaced(text: str) -> None:
    server = ConfigMaps()
    server.objects["volcanopy-run-times"] = {
        "metadata": {"name": "volcanopy-run-times"},
        "data": {"run-times.json": text},
    }
    run_times = await controller(server)
    assert run_times.table.dump() == "[]"
    run_times.learn(finished(5))
    await saved(run_times)
    assert (await controller(server)).table.dump() == run_times.table.dump()
