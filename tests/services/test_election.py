"""Leader election of a service."""

from volcanopy.kube.client.connection import Connection
from volcanopy.services.process.election import candidacy


async def test_a_process_without_election_always_leads() -> None:
    async with candidacy(Connection("http://127.0.0.1:1"), None, "scheduler") as candidate:
        assert candidate.may_act()
        await candidate.lead()
        assert candidate.may_act()
        assert candidate.description() == "this process, without leader election"
        await candidate.lost()
