import asyncio
from collections.abc import Callable

import pytest
import uvloop

from volcanopy.kube.writes.write_queue import DelayedWrites, KeyLocks, Write, spread


async def test_writes_of_one_object_run_in_the_order_of_their_requests() -> None:
    locks, order, first = KeyLocks(), list[int](), asyncio.Event()

    async def work(number: int) -> None:
        async with locks.lock("x"):
            if number == 0:
                await first.wait()
            order.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(5)]
    await asyncio.sleep(0)
    first.set()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]
    assert len(locks) == 0


async def test_other_objects_do_not_wait() -> None:
    locks = KeyLocks()
    async with locks.lock("x"), asyncio.timeout(60), locks.lock("y"):
        assert len(locks) == 2


async def test_a_cancelled_waiter_does_not_block_those_after_it() -> None:
    locks, done = KeyLocks(), asyncio.Event()

    async def hold() -> None:
        async with locks.lock("x"):
            await done.wait()

    holder = asyncio.create_task(hold())
    impatient = asyncio.create_task(hold())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.wait([impatient])
    done.set()
    async with asyncio.timeout(60):
        await holder
        async with locks.lock("x"):
            pass


class Log:
    """Writes that record when they were sent."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.some = asyncio.Event()

    def write(self, text: str) -> Write:
        async def writing() -> None:
            self.written.append(text)
            self.some.set()

        return writing


async def test_a_newer_write_replaces_the_waiting_one() -> None:
    delayed, log = DelayedWrites(asyncio.create_task), Log()
    for number in range(10):
        delayed.put("x", 0.02, log.write(f"x{number}"))
    delayed.put("y", 0.02, log.write("y"))
    assert len(delayed) == 2
    await delayed.flush()
    assert sorted(log.written) == ["x9", "y"]


async def test_a_repeatedly_delayed_write_is_still_sent() -> None:
    """Each replacement has a delay of an hour; the first one has 10 ms."""
    delayed, log = DelayedWrites(asyncio.create_task), Log()
    delayed.put("x", 0.01, log.write("first"))
    delayed.put("x", 3600, log.write("second"))
    async with asyncio.timeout(60):
        await log.some.wait()
    assert log.written == ["second"]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_write_that_is_due_can_be_replaced(run: Callable[..., None]) -> None:
    """The timer of a time that has passed does not know that time with every event loop."""

    async def replacing() -> None:
        delayed, log = DelayedWrites(asyncio.create_task), Log()
        for text in ("first", "second"):
            delayed.put("x", -0.001, log.write(text))
        async with asyncio.timeout(60):
            await log.some.wait()
        assert log.written == ["second"]

    run(replacing())


async def test_an_immediate_write_includes_the_delayed_one() -> None:
    delayed, log = DelayedWrites(asyncio.create_task), Log()
    delayed.put("x", 3600, log.write("waiting"))
    await delayed.now("x", log.write("now"))
    assert log.written == ["now"]
    assert len(delayed) == 0


async def test_closing_sends_delayed_writes_immediately() -> None:
    delayed, log = DelayedWrites(asyncio.create_task), Log()

    async def again() -> None:
        log.written.append("once")
        delayed.put("x", 0.0, again)

    delayed.put("x", 3600, again)
    async with asyncio.timeout(60):
        await delayed.flush()
    assert log.written == ["once"]


async def test_waiting_writes_are_dropped_on_abort() -> None:
    delayed, log = DelayedWrites(asyncio.create_task), Log()
    delayed.put("x", 0.01, log.write("x"))
    delayed.close()
    delayed.put("y", 0.01, log.write("y"))
    assert len(delayed) == 0
    await asyncio.sleep(0.03)
    assert log.written == []


@pytest.mark.parametrize(
    ("waiting", "delay"),
    [(0, 1.0), (25, 1.0), (50, 2.0), (10000, 5.0)],
)
def test_less_urgent_writes_are_at_most_twenty_five_a_second_until_the_longest_delay(
    waiting: int, delay: float
) -> None:
    assert spread(1.0, 5.0, waiting) == delay
    assert spread(3600.0, 5.0, waiting) == 3600.0, "never earlier than without others"
