"""A key is worked on by one at a time, and once more for all that came meanwhile."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest
import uvloop

from volcanopy.kube.client.backoff import AFTER_OUTAGE
from volcanopy.services.controllers.workqueue import LONGEST_PAUSE, WorkQueue


async def test_a_key_added_repeatedly_is_returned_once() -> None:
    queue = WorkQueue()
    for _ in range(500):
        queue.add("a")
    assert await queue.get() == "a"
    assert len(queue) == 1
    queue.done("a")
    assert len(queue) == 0


async def test_a_key_added_during_processing_is_returned_once_more() -> None:
    queue = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    queue.done("b")
    assert len(queue) == 0


async def test_the_earliest_of_several_delays_counts() -> None:
    queue = WorkQueue()
    queue.add("a", 3600)
    queue.add("a", 0.01)
    queue.add("a", 7200)
    async with asyncio.timeout(60):
        assert await queue.get() == "a"


async def test_an_immediate_add_cancels_a_delayed_one() -> None:
    queue = WorkQueue()
    queue.add("a", 0.01)
    queue.add("a")
    queue.done(await queue.get())
    await asyncio.sleep(0.03)
    assert len(queue) == 0


async def test_backoff_grows_with_failures_up_to_a_limit_and_resets_on_success() -> None:
    queue = WorkQueue()
    pauses = [queue.failed("a", lambda: 1.0) for _ in range(15)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE
    assert queue.failed("a", lambda: 1.0, AFTER_OUTAGE) == 5.0  # a server that returns is asked soon
    queue.succeeded("a")
    assert queue.failed("a", lambda: 1.0) == pauses[0]
    queue.forget("a")
    assert len(queue) == 0


async def test_a_drained_queue_returns_nothing_and_waits_for_running_keys() -> None:
    queue = WorkQueue()
    queue.add("a")
    queue.add("b")
    await queue.get()
    draining, next_one = asyncio.create_task(queue.drain()), asyncio.create_task(queue.get())
    queue.add("c")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not draining.done()
    queue.done("a")
    await draining
    assert not next_one.done()
    next_one.cancel()


async def test_deleted_keys_are_dropped_from_an_inactive_queue() -> None:
    queue = WorkQueue()
    queue.add("a")
    queue.add("b")
    queue.prune(lambda key: key == "b")
    assert (len(queue), await queue.get()) == (1, "b")


async def test_the_key_taken_first_has_been_processed_for_longest() -> None:
    queue = WorkQueue()
    assert queue.longest() == ("", 0.0)
    for key in "ab":
        queue.add(key)
        await queue.get()
    assert queue.longest()[0] == "a"
    queue.done("a")
    assert queue.longest()[0] == "b"


async def test_keys_are_handed_out_round_robin_by_namespace() -> None:
    queue = WorkQueue()
    for number in range(100):
        queue.add(f"many/{number}")
    queue.add("few/a")
    queue.add("few/b")
    queue.add("queue-without-namespace")
    order = [await queue.get() for _ in range(5)]
    assert order == ["many/0", "few/a", "queue-without-namespace", "many/1", "few/b"]


async def test_a_key_whose_work_goes_on_comes_after_the_other_ready_keys_and_keeps_its_timer() -> None:
    queue = WorkQueue()
    queue.add("a/large")
    await queue.get()
    queue.add("a/small")
    queue.add("a/large", 0.01)
    queue.again("a/large")
    queue.done("a/large")
    assert [await queue.get(), await queue.get()] == ["a/small", "a/large"]
    queue.done("a/large")
    async with asyncio.timeout(60):
        assert await queue.get() == "a/large"


async def test_progress_counts_and_not_the_total_time_of_a_key() -> None:
    queue = WorkQueue()
    for key in "ab":
        queue.add(key)
        await queue.get()
    queue.progress("a")
    queue.progress("unknown")
    assert queue.longest()[0] == "b"


async def test_one_heavy_key_is_in_progress_and_they_take_turns_with_the_others() -> None:
    queue = WorkQueue(is_heavy=lambda key: "heavy" in key)
    for number in range(4):
        queue.add(f"a/heavy-{number}")
        queue.add(f"a/{number}")
    keys = [await queue.get() for _ in range(5)]
    assert keys == ["a/heavy-0", "a/0", "a/1", "a/2", "a/3"]
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.add("a/4")
    assert await waiting == "a/4"
    queue.done("a/heavy-0")
    assert await queue.get() == "a/heavy-1"
    queue.add("a/5")
    assert await queue.get() == "a/5"
    assert len(queue) == 9


@pytest.mark.parametrize(("others", "took", "pause"), [(["a"], 1.0, 3.0), (["a"], 30.0, 5.0), ([], 1.0, 0.0)])
async def test_while_there_is_other_work_heavy_keys_take_a_quarter_of_the_time(
    others: list[str], took: float, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, now = asyncio.get_running_loop(), 10.0
    monkeypatch.setattr(loop, "time", lambda: now)
    queue = WorkQueue(is_heavy=lambda key: key.startswith("heavy"))
    for key in ("heavy-0", "heavy-1", *others):
        queue.add(key)
    assert [await queue.get() for _ in ["heavy-0", *others]] == ["heavy-0", *others]
    now += took
    timers: list[tuple[float, Callable[[], None]]] = []
    monkeypatch.setattr(loop, "call_later", lambda *timer: timers.append(timer))
    queue.done("heavy-0")
    queue.add("b")
    assert await queue.get() == "b"
    [(seconds, end)] = timers
    assert seconds == pause
    end()
    assert await queue.get() == "heavy-1"


async def test_a_key_that_becomes_heavy_while_it_waits_is_handed_out_once() -> None:
    heavy: set[str] = set()
    queue = WorkQueue(is_heavy=heavy.__contains__)
    queue.add("a")
    heavy.add("a")
    queue.add("a")
    assert await queue.get() == "a"
    assert len(queue) == 1
    queue.done("a")
    assert len(queue) == 0


async def test_each_of_many_delayed_keys_is_returned_once_in_the_order_of_their_times() -> None:
    queue, random = WorkQueue(), Random(7)
    numbers = list(range(300))
    for _ in range(10):
        random.shuffle(numbers)
        for number in numbers:
            queue.add(f"{number:03}", 30.0 + random.random())
    for number in range(300):
        queue.add(f"{number:03}", 0.001 + number / 10_000)
    for number in range(100):
        queue.forget(f"{number:03}")
    returned: list[str] = []
    async with asyncio.timeout(60):
        while len(returned) < 200:
            returned.append(await queue.get())
            queue.done(returned[-1])
    assert returned == [f"{number:03}" for number in range(100, 300)]
    assert len(queue) == 0


def test_keys_are_added_later_by_the_loop_of_the_services() -> None:
    """Its handle of a timer that is due at once has no time."""

    async def keys() -> list[str]:
        queue = WorkQueue()
        queue.add("a/1", 1e-6)
        queue.add("a/2", 1e-7)
        return [await queue.get(), await queue.get()]

    assert sorted(uvloop.run(keys())) == ["a/1", "a/2"]
