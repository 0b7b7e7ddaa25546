"""Durations on the page of decisions."""

import aiohttp
import pytest

from volcanopy.api.model import Json
from volcanopy.cli.ui.timings import Source, Timings, of_this_process
from volcanopy.kube.metrics import registry


def metrics(cycles: int, milliseconds: float) -> str:
    name = "volcanopy_action_scheduling_latency_seconds"
    labels = '{action="allocate"}'
    return f'# TYPE {name} histogram\n{name}_bucket{{action="allocate",le="+Inf"}} {cycles}\n{name}_sum{labels} {milliseconds / 1000}\n{name}_count{labels} {cycles}\n'


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Scheduler:
    def __init__(self) -> None:
        self.text = metrics(10, 50)

    async def __call__(self) -> str:
        return self.text


async def test_the_first_document_is_since_the_start_and_later_ones_cover_the_last_minutes() -> None:
    clock, scheduler = Clock(), Scheduler()
    timings = Timings(scheduler, clock)
    first = await timings.document()
    assert (first["seconds"], first["actions"]) == (0, [{"name": "allocate", "runs": 10, "mean": 5.0, "sum": 50.0}])
    clock.now, scheduler.text = 1100.0, metrics(12, 58)
    second = await timings.document()
    assert (second["seconds"], second["actions"]) == (100, [{"name": "allocate", "runs": 2, "mean": 4.0, "sum": 8.0}])
    clock.now, scheduler.text = 1350.0, metrics(13, 60)
    third = await timings.document()
    assert (third["seconds"], third["actions"][0]["runs"]) == (250, 1)


async def test_a_restarted_scheduler_counts_from_its_start() -> None:
    clock, scheduler = Clock(), Scheduler()
    timings = Timings(scheduler, clock)
    await timings.document()
    clock.now, scheduler.text = 1010.0, metrics(3, 9)
    assert (await timings.document())["actions"] == [{"name": "allocate", "runs": 3, "mean": 3.0, "sum": 9.0}]


async def unreachable() -> str:
    raise aiohttp.ClientError("connection refused")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "start with --scheduler-metrics URL to see them"),
        (unreachable, "the metrics of the scheduler cannot be read: connection refused"),
    ],
)
async def test_missing_metrics_are_stated(source: Source | None, message: str) -> None:
    assert await Timings(source, Clock()).document() == {"message": message}


async def test_a_scheduler_of_this_process_is_read() -> None:
    registry.ACTION_LATENCY.labels("enqueue").observe(2.0)
    actions: list[Json] = (await Timings(of_this_process, Clock()).document())["actions"]
    assert "enqueue" in {action["name"] for action in actions}
