import asyncio

from volcanopy.kube.apply.write_queue import Lanes, Later, Write


async def test_turns_are_taken_in_the_order_in_which_they_were_asked_for() -> None:
    lanes, order, first = Lanes(), list[int](), asyncio.Event()

    async def work(number: int) -> None:
        async with lanes.turn("x"):
            if number == 0:
                await first.wait()
            order.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(5)]
    await asyncio.sleep(0)
    first.set()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]
    assert len(lanes) == 0


async def test_other_objects_do_not_wait() -> None:
    lanes = Lanes()
    async with lanes.turn("x"), asyncio.timeout(1), lanes.turn("y"):
        assert len(lanes) == 2


async def test_who_gives_up_waiting_does_not_stop_those_behind() -> None:
    lanes, done = Lanes(), asyncio.Event()

    async def hold() -> None:
        async with lanes.turn("x"):
            await done.wait()

    holder = asyncio.create_task(hold())
    impatient = asyncio.create_task(hold())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.wait([impatient])
    done.set()
    async with asyncio.timeout(1):
        await holder
        async with lanes.turn("x"):
            pass


class Log:
    """Writes that tell when they happened."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.some = asyncio.Event()

    def write(self, text: str) -> Write:
        async def writing() -> None:
            self.written.append(text)
            self.some.set()

        return writing


async def test_the_newest_write_takes_the_place_of_the_one_that_waits() -> None:
    later, log = Later(asyncio.create_task), Log()
    for number in range(10):
        later.put("x", 0.02, log.write(f"x{number}"))
    later.put("y", 0.02, log.write("y"))
    assert len(later) == 2
    await later.flush()
    assert sorted(log.written) == ["x9", "y"]


async def test_a_write_that_is_put_off_again_and_again_still_happens() -> None:
    """Each replacement would like to wait an hour; the first one promised 10 ms."""
    later, log = Later(asyncio.create_task), Log()
    later.put("x", 0.01, log.write("first"))
    later.put("x", 3600, log.write("second"))
    async with asyncio.timeout(5):
        await log.some.wait()
    assert log.written == ["second"]


async def test_what_must_happen_now_takes_along_what_waits() -> None:
    later, log = Later(asyncio.create_task), Log()
    later.put("x", 3600, log.write("waiting"))
    await later.now("x", log.write("now"))
    assert log.written == ["now"]
    assert len(later) == 0


async def test_at_the_end_nothing_is_put_off() -> None:
    later, log = Later(asyncio.create_task), Log()

    async def again() -> None:
        log.written.append("once")
        later.put("x", 0.0, again)

    later.put("x", 3600, again)
    async with asyncio.timeout(5):
        await later.flush()
    assert log.written == ["once"]


async def test_what_waits_at_a_sudden_end_is_dropped() -> None:
    later, log = Later(asyncio.create_task), Log()
    later.put("x", 0.01, log.write("x"))
    later.close()
    later.put("y", 0.01, log.write("y"))
    assert len(later) == 0
    await asyncio.sleep(0.03)
    assert log.written == []
