"""Writes of one user do not wait for all the writes of another, and a slow server gets fewer at once."""

import asyncio

import pytest

from volcanopy.kube.writes.write_slots import LEAST_SLOTS, SLOW, WriteSlots


class Server:
    """Answers writes when the test says so; ``clock`` is its time."""

    def __init__(self, slots: int) -> None:
        self.now = 0.0
        self.slots = WriteSlots(slots, lambda: self.now)
        self.begun: list[str] = []
        self.unanswered: list[asyncio.Event] = []

    async def write(self, name: str) -> None:
        async with self.slots.slot(name.partition("/")[0]):
            answered = asyncio.Event()
            self.begun.append(name)
            self.unanswered.append(answered)
            try:
                await answered.wait()
            finally:
                if answered in self.unanswered:
                    self.unanswered.remove(answered)

    async def answer(self, seconds: float = 0.0) -> None:
        """Answer the first write after so many seconds."""
        self.now += seconds
        self.unanswered.pop(0).set()
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_write_waits_for_one_write_of_each_other_namespace() -> None:
    server = Server(8)
    async with asyncio.TaskGroup() as tasks:
        for number in range(500):
            tasks.create_task(server.write(f"large-{number % 2}/{number}"))
        await settled()
        tasks.create_task(server.write("small/0"))
        await settled()
        while server.unanswered:
            await server.answer()
    assert "small/0" in server.begun[8:11]
    assert server.begun[:8] == [f"large-{number % 2}/{number}" for number in range(8)]
    numbers = [int(name.partition("/")[2]) for name in server.begun if name.startswith("large-0")]
    assert numbers == sorted(numbers)


async def test_a_slow_server_gets_half_the_writes_at_once_and_a_fast_one_more_again() -> None:
    server = Server(16)
    async with asyncio.TaskGroup() as tasks:
        for number in range(400):
            tasks.create_task(server.write(f"large/{number}"))
        await settled()
        assert len(server.unanswered) == 16
        for _ in range(16):  # begun before the first slow answer: it is one reason, not sixteen
            await server.answer(2 * SLOW)
        assert len(server.unanswered) == server.slots.slots == 8
        for _ in range(40):
            await server.answer(2 * SLOW)
        assert server.slots.slots == LEAST_SLOTS
        fast = 0
        while server.slots.slots < 16:
            await server.answer()
            fast += 1
        assert fast < 16 * 16
        while server.unanswered:
            await server.answer()


async def test_a_distant_server_gets_as_many_writes_at_once() -> None:
    """All its answers take longer than :data:`SLOW`, however few writes it has."""
    server = Server(16)
    async with asyncio.TaskGroup() as tasks:
        for number in range(96):
            tasks.create_task(server.write(f"large/{number}"))
        await settled()
        while server.unanswered:
            assert len(server.unanswered) == 16
            server.now += 2 * SLOW
            for _ in range(16):
                await server.answer()


@pytest.mark.parametrize("steps", range(6))
async def test_a_write_that_is_cancelled_leaves_its_slot_to_others(steps: int) -> None:
    """While it waits; so many steps of the event loop after its slot became free, granted or used by then."""
    server = Server(1)
    first = asyncio.create_task(server.write("a/first"))
    await settled()
    waits, granted, last = (asyncio.create_task(server.write(name)) for name in ("a/waits", "a/granted", "a/last"))
    await settled()
    waits.cancel()
    await settled()
    server.unanswered.pop(0).set()
    for _ in range(steps):
        await asyncio.sleep(0)
    granted.cancel()
    await settled()
    await server.answer()
    await asyncio.gather(first, last)
    assert server.begun[-1] == "a/last"
    assert "a/waits" not in server.begun
