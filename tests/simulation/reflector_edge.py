"""The watches of the kinds that users write without kopf, whose threads and clock cannot run in virtual time."""

import asyncio
from collections.abc import Sequence

from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.services.controllers.user_kinds import Edge, Receive

EVENTS = {ChangeType.ADDED: "ADDED", ChangeType.MODIFIED: "MODIFIED", ChangeType.DELETED: "DELETED"}


def reflector_edge(connection: Connection) -> Edge:
    """An edge that watches with reflectors."""

    async def follow(kinds: Sequence[Kind[Json]], receive: Receive) -> None:
        async def watch(client: Client, kind: Kind[Json]) -> None:
            def deliver(changes: Sequence[Change[Json]]) -> None:
                for change in changes:
                    receive(kind, EVENTS[change.type], change.object)

            await Reflector(client, kind).run(deliver)

        async with Client(connection) as client, asyncio.TaskGroup() as tasks:
            for kind in kinds:
                tasks.create_task(watch(client, kind))

    return follow
