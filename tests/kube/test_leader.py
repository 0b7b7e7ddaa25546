"""Leader election: in virtual time with everything that may go wrong, and with Leases on both API servers."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.elections import Machine, NetworkFaults, Server, run_virtual, virtual_loop
from tests.nightly import examples
from volcanopy.kube.leader.elector import LeaseDurations
from volcanopy.kube.leader.lease import Record

TERMS = LeaseDurations()


async def during(seconds: float, *lives: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
    """Let processes live for a while; gives their tasks, still running."""
    tasks = [asyncio.create_task(life) for life in lives]
    await asyncio.sleep(seconds)
    for task in tasks:
        assert not task.done(), task
    return tasks


# Fields of a Lease


def test_the_first_candidate_leads_immediately_and_renews() -> None:
    async def world() -> None:
        server = Server()
        a = Machine(server, "a")
        await during(5, a.run())
        assert a.elector.may_act()
        assert a.led_at == [pytest.approx(0.0, abs=0.01)]
        moments = [moment for moment, _ in server.writes]
        assert moments == [pytest.approx(0.003, abs=0.01), pytest.approx(2.0, abs=0.02), pytest.approx(4.0, abs=0.03)]
        first, last = server.writes[0][1], server.writes[-1][1]
        assert (last.holder, last.duration, last.transitions) == ("a-1", 10, 0)
        assert last.acquired == first.acquired == first.renewed
        assert last.renewed is not None
        assert first.renewed is not None
        assert last.renewed > first.renewed

    run_virtual(world())


@pytest.mark.parametrize("watches", [True, False], ids=["with a watch", "without a watch"])
def test_after_a_crash_the_next_leader_starts_within_fifteen_seconds(watches: bool) -> None:
    async def world() -> None:
        for number in range(20):
            server = Server()
            a, b = Machine(server, "a"), Machine(server, "b", watches=watches)
            started = virtual_loop().time()
            leading, _ = await during(6 + number / 7, a.run(), b.run())
            leading.cancel()
            died = virtual_loop().time()
            await asyncio.sleep(15)
            (took,) = b.led_at
            assert took - died <= TERMS.duration + TERMS.retry + 0.1
            renewed = max(moment for moment, record in server.writes if record.holder == "a-1")
            assert took - renewed >= TERMS.duration
            assert server.writes[-1][1].transitions == 1
            assert started < died

    run_virtual(world())


def test_a_released_lease_is_acquired_immediately() -> None:
    async def world() -> None:
        server = Server()
        a, b = Machine(server, "a"), Machine(server, "b")
        leading, _ = await during(5, a.run(), b.run())
        leading.cancel()
        now = virtual_loop().time()
        assert a.elector.may_act()
        await a.elector.release()
        assert not a.elector.may_act()
        await asyncio.sleep(0.1)
        assert b.led_at == [pytest.approx(now, abs=0.05)]
        assert server.writes[-1][1] == server.held.record if server.held else False
        free = server.writes[-2][1]
        assert (free.holder, free.duration) == ("", 1)
        assert server.writes[-1][1].transitions == 1

    run_virtual(world())


def test_a_leader_without_a_server_stops_before_the_next_starts_with_a_reason() -> None:
    async def world() -> None:
        server = Server()
        a, b = Machine(server, "a"), Machine(server, "b")
        await during(5, a.run(), b.run())
        renewed = server.writes[-1][0]
        server.away = True
        await asyncio.sleep(renewed + TERMS.renew - 0.1 - virtual_loop().time())
        assert a.elector.may_act()
        await asyncio.sleep(0.2)
        assert not a.elector.may_act()
        (loss,) = a.losses
        assert loss == (
            "lease lost: not renewed within 6 s: no answer from server: refused; "
            "the process exits and restarts as a follower"
        )
        server.away = False
        await asyncio.sleep(TERMS.duration - TERMS.renew - 0.2)
        assert b.led_at == []
        await asyncio.sleep(3)
        assert len(b.led_at) + len(a.led_at) == 2

    run_virtual(world())


def test_the_lease_time_counts_from_when_a_renewal_was_sent() -> None:
    async def world() -> None:
        server = Server()
        a = Machine(server, "a")
        await during(5, a.run())
        server.answer_takes = 2.5
        sent = server.writes[-1][0] + TERMS.retry
        await asyncio.sleep(sent + 2.4 - virtual_loop().time())
        assert server.writes[-1][0] == pytest.approx(sent, abs=0.01)
        server.away = True
        await asyncio.sleep(sent + TERMS.renew + 0.05 - virtual_loop().time())
        assert not a.elector.may_act()

    run_virtual(world())


def test_a_short_server_outage_does_not_change_the_leader() -> None:
    async def world() -> None:
        server = Server()
        a, b = Machine(server, "a"), Machine(server, "b")
        await during(5, a.run(), b.run())
        server.away = True
        await asyncio.sleep(3.5)
        server.away = False
        await asyncio.sleep(20)
        assert (a.losses, b.led_at, a.elector.may_act()) == ([], [], True)

    run_virtual(world())


def test_slow_answers_do_not_change_the_leader() -> None:
    async def world() -> None:
        server = Server()
        a, b = Machine(server, "a"), Machine(server, "b")
        leading, _ = await during(5, a.run(), b.run())
        server.answer_takes = 2.7
        await asyncio.sleep(60)
        server.answer_takes = 0.0
        await asyncio.sleep(2.5)
        server.answer_takes = 3.7  # one answer takes nearly as long as the Lease
        await asyncio.sleep(2.0)
        server.answer_takes = 0.0
        await asyncio.sleep(10)
        assert (a.losses, b.led_at) == ([], [])
        leading.cancel()

    run_virtual(world())


def test_lost_responses_do_not_change_the_leader() -> None:
    """The renewal has been done; the next one meets its effect."""

    async def world() -> None:
        server = Server()
        a, b = Machine(server, "a"), Machine(server, "b")
        await during(5, a.run(), b.run())
        for _ in range(5):
            server.lose_answers = 1
            await asyncio.sleep(4)
        assert (a.losses, b.led_at, a.elector.may_act()) == ([], [], True)

    run_virtual(world())


def test_a_resumed_process_checks_its_lease_before_it_acts() -> None:
    async def world() -> None:
        server = Server()
        a, b = Machine(server, "a", pauses=((5.0, 40.0),)), Machine(server, "b")
        await during(40.0, a.run(), b.run())
        assert b.elector.may_act()
        assert not a.elector.may_act()
        await asyncio.sleep(3)
        assert len(a.losses) == 1
        assert not a.elector.may_act()

    run_virtual(world())


def test_the_lease_duration_written_by_the_holder_applies() -> None:
    async def world() -> None:
        server = Server()
        server.write(Record("somebody", 25), None)
        a = Machine(server, "a")
        await during(24, a.run())
        assert a.led_at == []
        await asyncio.sleep(3)
        assert a.led_at == [pytest.approx(25, abs=0.1)]

    run_virtual(world())


def test_a_deleted_lease_is_created_again_by_its_holder() -> None:
    """A candidate that saw the holder renew waits for the whole duration."""

    async def world() -> None:
        server = Server()
        a, b = Machine(server, "a"), Machine(server, "b")
        await during(5, a.run(), b.run())
        server.delete()
        await asyncio.sleep(20)
        assert (a.losses, b.led_at, a.elector.may_act()) == ([], [], True)

    run_virtual(world())


def test_a_candidate_that_sees_another_leader_does_not_lead() -> None:
    async def world() -> None:
        server = Server()
        a = Machine(server, "a")
        await during(5, a.run())
        server.write(Record("usurper", 10), server.held)
        await asyncio.sleep(2.5)
        assert not a.elector.may_act()
        assert "held by usurper" in a.losses[0]

    run_virtual(world())


def test_inconsistent_lease_durations_are_rejected() -> None:
    with pytest.raises(ValueError, match="the first must be longer than the second"):
        LeaseDurations(duration=5, renew=5)


# Whatever happens


@st.composite
def machines(draw: st.DrawFn, server: Server) -> list[Machine]:
    """Three processes. The fastest clock runs at most 1.56 times as fast as the slowest: less than 10 / 6."""
    result = []
    for name in "abc":
        starts = draw(st.lists(st.floats(0, 80), max_size=3))
        pauses = tuple((start, start + draw(st.floats(0.1, 30))) for start in starts)
        rate, offset = draw(st.sampled_from((0.8, 1.0, 1.25))), draw(st.floats(-1e4, 1e4))
        result.append(Machine(server, name, rate, offset, pauses, watches=draw(st.booleans())))
    return result


@examples(40)
@given(data=st.data(), seed=st.integers(0, 2**32), loss=st.floats(0, 0.6), slowest=st.floats(0.001, 60))
def test_at_most_one_leader_and_eventually_one(data: st.DataObject, seed: int, loss: float, slowest: float) -> None:
    """Calls are lost, there or back, or arrive a minute late; clocks differ; processes stop and go on, or die."""
    calm = 110.0

    async def world() -> None:
        dice = Random(seed)
        server = Server(NetworkFaults(dice, loss, slowest, calm))
        processes = data.draw(machines(server))
        ghosts: list[Machine] = []

        def look() -> None:
            leaders = [item.elector.identity for item in (*processes, *ghosts) if item.elector.may_act()]
            assert len(leaders) <= 1, f"{leaders} at {virtual_loop().time()}"

        virtual_loop().before_time_passes = look
        tasks = [asyncio.create_task(process.run()) for process in processes]
        for _ in range(dice.randint(0, 4)):
            await asyncio.sleep(dice.uniform(1, 25))
            victim = dice.randrange(3)
            tasks[victim].cancel()
            # The dead one's clock goes on: it must have stopped by itself when another begins.
            ghosts.append(processes[victim])
            if dice.random() < 0.5:
                await processes[victim].elector.release()
            fresh = Machine(server, f"{processes[victim].name}{len(ghosts)}", processes[victim].rate)
            processes[victim] = fresh
            tasks[victim] = asyncio.create_task(fresh.run())
        # From the calm on, what was under way for a minute arrives; then there is one lease to be waited for.
        await asyncio.sleep(calm + 60 + 2 * slowest + (TERMS.duration + TERMS.retry) / 0.8 + 4 - virtual_loop().time())
        assert sum(process.elector.may_act() for process in processes) == 1, server.held
        for task in tasks:
            assert not task.done(), task
            task.cancel()

    run_virtual(world())
