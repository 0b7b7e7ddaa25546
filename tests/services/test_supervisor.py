"""Parts of a process are restarted when they end, or the process ends."""

import asyncio
import threading
import time

import pytest

from volcanopy.kube.leader.elector import LostLeadership
from volcanopy.services.process.supervisor import MOST_RESTARTS, PartFailedError, Pulse, Supervisor, Watchdog


class Part:
    """Work that fails or returns as often as told, then runs."""

    def __init__(self, *ends: BaseException | None) -> None:
        self.ends, self.starts = list(ends), 0
        self.running = asyncio.Event()

    async def __call__(self) -> None:
        self.starts += 1
        if self.ends:
            if (end := self.ends.pop(0)) is not None:
                raise end
            return
        self.running.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("end", [None, RuntimeError("broken"), OSError("gone"), asyncio.CancelledError()])
async def test_a_part_that_ends_is_started_again(end: BaseException | None) -> None:
    supervisor, part = Supervisor(period=0.01), Part(end)
    supervisor.add("part", part)
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(60):
        await part.running.wait()
    assert part.starts == 2
    assert supervisor.problem() == ""
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_part_that_is_down_makes_the_process_unhealthy() -> None:
    supervisor, part = Supervisor(), Part(RuntimeError("broken"))
    supervisor.add("part", part)
    await asyncio.sleep(0)
    assert supervisor.problem() == "not running: part"


async def test_a_part_that_ends_again_and_again_ends_the_process() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 6.0
        return now

    supervisor, part = Supervisor(period=0.0, clock=clock), Part(*[RuntimeError("broken")] * 100)
    supervisor.add("part", part)
    async with asyncio.timeout(60):
        with pytest.raises(PartFailedError, match=f"part ended {MOST_RESTARTS + 1} times in 60 s"):
            await supervisor.run()


async def test_a_part_that_ends_rarely_is_always_started_again() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 30.0
        return now

    supervisor, part = Supervisor(period=0.0, clock=clock), Part(*[RuntimeError("broken")] * 8)
    supervisor.add("part", part)
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(60):
        await part.running.wait()
    assert part.starts == 9
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_loss_of_leadership_ends_the_process_at_once() -> None:
    supervisor = Supervisor()
    supervisor.add("part", Part(LostLeadership("lost")))
    with pytest.raises(LostLeadership):
        await supervisor.run()


async def test_a_stalled_check_ends_the_process_and_its_parts() -> None:
    supervisor, part = Supervisor(period=0.01), Part()
    problems = iter(["", "", "no cycle for 120 s"])
    supervisor.add("part", part)
    supervisor.check("cycles", lambda: next(problems))
    async with asyncio.timeout(60):
        with pytest.raises(PartFailedError, match="cycles: no cycle for 120 s"):
            await supervisor.run()
    assert supervisor.problem() == "not running: part"


async def test_a_loop_that_stands_still_ends_the_process_after_a_farewell() -> None:
    said: list[object] = []
    ended = threading.Event()

    def end(code: int) -> None:
        said.append(code)
        ended.set()

    pulse = Pulse(period=0.01)
    beating = asyncio.create_task(pulse.run())
    with Watchdog(lambda: pulse.beats, 0.2, lambda: said.append("farewell"), end=end, period=0.02):
        await asyncio.sleep(0.5)
        assert said == []
        limit = time.monotonic() + 60
        while not ended.is_set() and time.monotonic() < limit:
            time.sleep(0.01)  # noqa: ASYNC251 - the loop stands still
    assert said == ["farewell", 70]
    beating.cancel()
