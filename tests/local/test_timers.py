"""Workers that process the keys that are due."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

import pytest

from volcanopy.kube.client.errors import NoAnswer
from volcanopy_local.simulated.timers import TimedWorkers


@contextlib.asynccontextmanager
async def working(crew: TimedWorkers) -> AsyncIterator[None]:
    task = asyncio.create_task(crew.run())
    async with asyncio.timeout(60):
        yield
    task.cancel()


class Record:
    """What was done so far; ``act`` waits at a gate between the beginning and the end of a key."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.gate = asyncio.Event()
        self._news = asyncio.Event()

    def add(self, line: str) -> None:
        self.done.append(line)
        self._news.set()

    async def until(self, count: int) -> list[str]:
        """Wait until so much was done."""
        while len(self.done) < count:
            self._news.clear()
            await self._news.wait()
        return self.done

    async def act(self, key: str) -> float:
        self.add(f"begin {key}")
        await self.gate.wait()
        self.add(f"end {key}")
        return math.inf


async def idle() -> None:
    """Let everything that can go on do so."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_key_is_processed_by_one_worker_and_updates_are_not_lost() -> None:
    record = Record()
    crew = TimedWorkers("thing", record.act, 4)
    async with working(crew):
        crew.put("a")
        await record.until(1)
        crew.put("a")
        crew.put("a")
        await idle()
        assert record.done == ["begin a"]
        record.gate.set()
        await record.until(4)
        await idle()
    assert record.done == ["begin a", "end a"] * 2


async def test_concurrency_is_limited_by_the_workers() -> None:
    record = Record()
    crew = TimedWorkers("thing", record.act, 2)
    async with working(crew):
        for key in "abcde":
            crew.put(key)
        await record.until(2)
        await idle()
        assert sorted(record.done) == ["begin a", "begin b"]
        record.gate.set()
        await record.until(10)


async def test_keys_of_one_namespace_do_not_wait_for_all_of_another() -> None:
    record = Record()
    crew = TimedWorkers("thing", record.act, 1)
    async with working(crew):
        for number in range(100):
            crew.put(f"large/{number}")
        await record.until(1)
        crew.put("small/0")
        await idle()
        record.gate.set()
        await record.until(202)
    assert [line for line in record.done if line.startswith("begin")].index("begin small/0") <= 2


@pytest.mark.parametrize(
    "failure",
    [
        NoAnswer("http://x", "connection refused", maybe_applied=False),
        TypeError("an object of another type than expected"),
    ],
)
async def test_failures_are_retried_without_delaying_other_keys(failure: Exception) -> None:
    record = Record()

    async def act(key: str) -> float:
        record.add(key)
        if record.done == ["bad"]:
            raise failure
        return math.inf

    crew = TimedWorkers("thing", act, 1)
    async with working(crew):
        crew.put("bad")
        crew.put("good")
        assert await record.until(3) == ["bad", "good", "bad"]
