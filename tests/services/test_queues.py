"""Queues at work on an API server: Commands are obeyed and forgotten, through restarts, and beside the scheduler's writes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress

import pytest

from tests.services.service_cluster import Cluster, controller
from volcanopy.api import names
from volcanopy.kube.cache.followed_kinds import POD_GROUPS
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import COMMANDS, EVENTS, QUEUES


class Queues:
    """Queues of one test, seen live. Their names begin with the test's namespace: a server has one set of queues."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._changed = asyncio.Event()
        self.reflector = Reflector(cluster.client, QUEUES)
        self._commands = Reflector(cluster.client, COMMANDS, cluster.namespace)
        self._made: list[str] = []

    async def run(self) -> None:
        """Follow the server."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in (self.reflector, self._commands):
                tasks.create_task(reflector.run(lambda _: self._changed.set()))

    def name(self, short: str) -> str:
        """The name of a queue on the server."""
        return f"{self.cluster.namespace}-{short}"

    async def make(self, short: str, parent: str = "", **spec: object) -> Json:
        """Make a queue."""
        above = {"parent": self.name(parent)} if parent else {}
        manifest = {"metadata": {"name": self.name(short)}, "spec": {**above, **spec}}
        self._made.append(short)
        return await self.cluster.client.create(
            QUEUES, None, {"apiVersion": QUEUES.api_version, "kind": "Queue", **manifest}
        )

    async def ask(self, action: str, short: str) -> None:
        """Leave a Command for a queue."""
        queue = await self.cluster.client.get(QUEUES, None, self.name(short))
        target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": self.name(short)}
        manifest = {
            "apiVersion": COMMANDS.api_version,
            "kind": "Command",
            "metadata": {"generateName": f"{short}-{action.lower()}-"},
            "action": action,
            "target": {**target, "uid": queue["metadata"]["uid"]},
        }
        await self.cluster.client.create(COMMANDS, self.cluster.namespace, manifest)

    async def group(self, name: str, queue: str, phase: str) -> None:
        """A PodGroup comes to a phase; it is made if it does not exist."""
        client, namespace = self.cluster.client, self.cluster.namespace
        with suppress(NotFound):
            await client.patch_status(POD_GROUPS.raw, namespace, name, {"status": {"phase": phase}})
            return
        manifest = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": name}}
        await client.create(POD_GROUPS.raw, namespace, manifest | {"spec": {"minMember": 1, "queue": self.name(queue)}})
        await client.patch_status(POD_GROUPS.raw, namespace, name, {"status": {"phase": phase}})

    def status(self, short: str) -> Json:
        """The status of a queue."""
        return dict(self.reflector.objects.get(self.name(short), {}).get("status") or {})

    def marked(self, short: str) -> bool:
        """Whether a queue is marked as closed with its parent."""
        metadata = self.reflector.objects[self.name(short)]["metadata"]
        return names.CLOSED_BY_PARENT in (metadata.get("annotations") or {})

    def states(self, *shorts: str) -> list[str]:
        """The states of some queues."""
        return [str(self.status(short).get("state", "")) for short in shorts]

    def commands(self) -> Iterable[Json]:
        """The Commands that are not executed yet."""
        return self._commands.objects.values()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something to hold, looking at each change."""
        try:
            async with asyncio.timeout(60):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            stood = {short: self.status(short) for short in self._made}
            raise AssertionError(f"did not come: {stood}, Commands {list(self.commands())}") from None

    async def events(self, short: str, reason: str) -> list[str]:
        """Wait for events about a queue; their messages."""
        reflector = Reflector(self.cluster.client, EVENTS, field_selector=f"involvedObject.name={self.name(short)}")
        changed = asyncio.Event()
        following = asyncio.create_task(reflector.run(lambda _: changed.set()))
        try:
            async with asyncio.timeout(60):
                while True:
                    said = [obj["message"] for obj in reflector.objects.values() if obj["reason"] == reason]
                    if said:
                        return said
                    changed.clear()
                    await changed.wait()
        finally:
            following.cancel()

    async def clear(self) -> None:
        """Take away what the test has made."""
        for short in self._made:
            with suppress(NotFound):
                await self.cluster.client.delete(QUEUES, None, self.name(short))


@pytest.fixture
async def queues(cluster: Cluster) -> AsyncIterator[Queues]:
    """The queues of a test."""
    cluster.plays = False
    made = Queues(cluster)
    following = asyncio.create_task(made.run())
    yield made
    following.cancel()
    await made.clear()


async def test_closing_applies_to_children_waits_for_running_jobs_and_is_reversible(queues: Queues) -> None:
    for short, parent in (("a", ""), ("a1", "a"), ("a2", "a"), ("b", "")):
        await queues.make(short, parent)
    await queues.group("busy", "a1", "Running")
    async with controller(queues.cluster):
        await queues.until(lambda: queues.states("a", "a1", "a2", "b") == ["Open"] * 4)
        await queues.until(lambda: queues.status("a1").get("running") == 1)
        await queues.ask("CloseQueue", "a2")
        await queues.until(lambda: queues.states("a2") == ["Closed"])
        await queues.ask("CloseQueue", "a")
        await queues.until(lambda: queues.states("a", "a1", "a2", "b") == ["Closed", "Closing", "Closed", "Open"])
        await queues.group("busy", "a1", "Completed")
        await queues.until(lambda: queues.states("a1") == ["Closed"])
        await queues.ask("OpenQueue", "a")
        await queues.until(lambda: queues.states("a", "a1", "a2", "b") == ["Open", "Open", "Closed", "Open"])
        await queues.until(lambda: not list(queues.commands()))
        closed = await queues.events("a1", "CloseQueue")
        assert closed == [f'queue closed to new jobs: parent queue "{queues.name("a")}" is closed; 1 PodGroup Running']
        assert await queues.events("a1", "QueueClosed")
        assert await queues.events("a1", "OpenQueue")


async def test_commands_sent_while_the_controller_is_down_are_executed_later(queues: Queues) -> None:
    await queues.make("a")
    await queues.make("a1", "a")
    async with controller(queues.cluster):
        await queues.until(lambda: queues.states("a", "a1") == ["Open", "Open"])
    await queues.ask("CloseQueue", "a")
    async with controller(queues.cluster):
        await queues.until(lambda: queues.states("a", "a1") == ["Closed", "Closed"])
    # As a controller leaves it that has died between two writes: marked, and not closed yet.
    await queues.make("a2", "a")
    marks = {"metadata": {"annotations": {names.CLOSED_BY_PARENT: "true"}}}
    await queues.cluster.client.patch(QUEUES, None, queues.name("a2"), marks)
    await queues.ask("OpenQueue", "a")
    async with controller(queues.cluster):
        await queues.until(lambda: queues.states("a", "a1", "a2") == ["Open"] * 3 and not list(queues.commands()))
        await queues.until(lambda: not queues.marked("a1") and not queues.marked("a2"))


async def test_counts_do_not_overwrite_the_fields_of_the_scheduler(queues: Queues) -> None:
    made = await queues.make("q")
    assert made["spec"].get("parent", "") == ""
    for number, phase in enumerate(["Pending", "Inqueue", "Running", "Running", "Unknown", "Completed"]):
        await queues.group(f"g{number}", "q", phase)
    held = {"status": {"allocated": {"cpu": "2"}}}
    async with controller(queues.cluster):
        await queues.cluster.client.patch_status(QUEUES, None, queues.name("q"), held)
        wanted = {"pending": 1, "inqueue": 1, "running": 2, "unknown": 1, "completed": 1, "state": "Open"}
        await queues.until(lambda: queues.status("q").items() >= (wanted | held["status"]).items())
        await queues.cluster.submit("j", queue=queues.name("q"))
        await queues.until(lambda: queues.status("q").get("jobs") == 1)
        for number in range(6):
            await queues.cluster.client.delete(POD_GROUPS, queues.cluster.namespace, f"g{number}")
        await queues.until(lambda: queues.status("q").get("running") == 0)
    assert queues.status("q")["allocated"] == {"cpu": "2"}
    assert queues.reflector.objects[queues.name("q")]["spec"]["parent"] == "root"


async def test_opening_a_child_of_a_closed_queue_is_rejected_with_a_reason(queues: Queues) -> None:
    await queues.make("a")
    await queues.make("a1", "a")
    async with controller(queues.cluster):
        await queues.ask("CloseQueue", "a")
        await queues.until(lambda: queues.states("a", "a1") == ["Closed", "Closed"])
        await queues.ask("OpenQueue", "a1")
        (event,) = await queues.events("a1", "CommandRejected")
        assert f'parent queue "{queues.name("a")}" is Closed: open it first' in event
        await queues.until(lambda: not list(queues.commands()))
        assert queues.states("a1") == ["Closed"]
