"""A key is worked on by one at a time, and once more for all that came meanwhile."""

import asyncio

from volcanopy.services.controllers.workqueue import LONGEST_PAUSE, WorkQueue


async def test_a_key_that_is_added_often_comes_once() -> None:
    queue = WorkQueue()
    for _ in range(500):
        queue.add("a")
    assert await queue.get() == "a"
    assert len(queue) == 1
    queue.done("a")
    assert len(queue) == 0


async def test_a_key_that_is_added_while_it_is_worked_on_comes_once_more_afterwards() -> None:
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


async def test_the_soonest_of_several_wishes_counts() -> None:
    queue = WorkQueue()
    queue.add("a", 3600)
    queue.add("a", 0.01)
    queue.add("a", 7200)
    async with asyncio.timeout(5):
        assert await queue.get() == "a"


async def test_a_key_that_is_added_now_does_not_come_again_later() -> None:
    queue = WorkQueue()
    queue.add("a", 0.01)
    queue.add("a")
    queue.done(await queue.get())
    await asyncio.sleep(0.03)
    assert len(queue) == 0


async def test_pauses_grow_with_each_failure_up_to_a_limit_and_shrink_with_success() -> None:
    queue = WorkQueue()
    pauses = [queue.failed("a", lambda: 1.0) for _ in range(15)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE
    queue.succeeded("a")
    assert queue.failed("a", lambda: 1.0) == pauses[0]
    queue.forget("a")
    assert len(queue) == 0


async def test_a_queue_that_is_drained_gives_out_nothing_more_and_waits_for_what_is_worked_on() -> None:
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


async def test_what_is_no_more_is_dropped_from_a_queue_that_nobody_works_on() -> None:
    queue = WorkQueue()
    queue.add("a")
    queue.add("b")
    queue.prune(lambda key: key == "b")
    assert (len(queue), await queue.get()) == (1, "b")


async def test_the_key_that_was_taken_first_has_been_worked_on_for_longest() -> None:
    queue = WorkQueue()
    assert queue.longest() == ("", 0.0)
    for key in "ab":
        queue.add(key)
        await queue.get()
    assert queue.longest()[0] == "a"
    queue.done("a")
    assert queue.longest()[0] == "b"
