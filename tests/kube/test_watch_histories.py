"""Random histories, cut and replayed at random: the folded changes equal the server's state."""

import asyncio
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from tests.kube.faulty_server import FakeTime, Fault, FaultyServer, WatchPlan, connect, faulty_server
from tests.kube.reflector_runs import following, names_and_values, stored
from tests.nightly import examples
from volcanopy.kube.client.api_client import Client

Step = tuple[str, str]

plans = st.builds(
    WatchPlan,
    code=st.sampled_from([0] * 8 + [410, 500]),
    replay=st.integers(0, 8),
    events=st.sampled_from([None, 0, 1, 2, 3, 4, 5, 6, 8]),
    ending=st.sampled_from(["close", "cut", "mid-line", "error", "garbage", "gone", "gone", "gone"]),
    bookmarks=st.booleans(),
    repeat=st.booleans(),
    spaced=st.booleans(),
)
faults = st.builds(
    Fault,
    method=st.just("GET"),
    part=st.sampled_from(["limit=", "continue=", "watch="]),
    code=st.sampled_from([429, 503, 410]),
    reason=st.just(""),
    cut=st.sampled_from(["", "", "before", "after"]),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "remove", "replace"]), st.sampled_from("abc")),
        st.sampled_from([("compact", ""), ("pause", ""), ("pause", ""), ("other", "")]),
    ),
    max_size=40,
)


def take(server: FaultyServer, step: Step) -> None:
    what, name = step
    there = ("pods", "ns", name) in server.objects
    if what == "compact":
        server.compact()
    elif what == "other":
        server.put("nodes", "", "n")
    elif what == "put":
        server.put("pods", "ns", name, spec={"size": server.revision})
    else:
        if there:
            server.remove("pods", "ns", name)
        if what == "replace":
            server.put("pods", "ns", name)


async def apply_history(before: list[Step], after: list[Step], scripted: list[WatchPlan], failing: list[Fault]) -> None:
    time = FakeTime()
    async with faulty_server() as server:
        server.watches.extend(scripted)
        server.faults.extend(failing)
        for step in before:
            if step[0] != "pause":
                take(server, step)
        async with (
            Client(connect(server), rng=Random(1), sleep=time.sleep, clock=time.clock) as client,
            following(client, time, page=2) as (reflector, follower),
        ):
            for step in after:
                if step[0] == "pause":
                    await asyncio.sleep(0.001)
                else:
                    take(server, step)
            server.put("pods", "ns", "last")
            await follower.until("ns/last")
            assert names_and_values(follower.state) == names_and_values(reflector.objects) == stored(server)
            assert int(reflector.resource_version) >= int(reflector.objects["ns/last"].metadata.resource_version)


@examples(150)
@given(
    before=steps, after=steps, scripted=st.lists(plans, min_size=1, max_size=6), failing=st.lists(faults, max_size=3)
)
@example(
    before=[("put", "a")],
    after=[("replace", "a"), ("remove", "a"), ("put", "a")],
    scripted=[WatchPlan(events=2, ending="mid-line"), WatchPlan(replay=8, repeat=True)],
    failing=[],
)
def test_each_change_is_delivered_once_and_in_order(
    before: list[Step], after: list[Step], scripted: list[WatchPlan], failing: list[Fault]
) -> None:
    asyncio.run(apply_history(before, after, scripted, failing))
