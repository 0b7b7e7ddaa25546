"""Queues made and changed: ``create``, ``update``, and ``hold``, ``drain`` and ``resume``, which stop a queue for a while."""

from typing import Any

from volcanopy.api import names
from volcanopy.cli.errors import CommandError
from volcanopy.cli.explaining.queue import policy
from volcanopy.cli.framework.changes import Changes
from volcanopy.cli.framework.kinds import QUEUES, key_of, spec_of
from volcanopy.cli.framework.objects import for_each, select_objects
from volcanopy.cli.framework.options import Chosen, Cluster, Written
from volcanopy.cli.queues.spec_options import Fields
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.merge_patch import merge_patch

POLICIES = {"hold": ("Hold", "held"), "drain": ("HoldAndDrain", "drained"), "resume": ("None", "resumed")}
"""By the commands' names: the stop policy, and what is said of a queue that has got it."""


async def create(cluster: Cluster, written: Written, given: list[str], asked: Fields) -> None:
    """Make queues of these names, all alike."""
    changes, spec = Changes(written), _without_nothing(asked.spec())
    bodies: list[Json] = [
        {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}
        for name in given
    ]
    if changes.pretended:
        for body in bodies:
            changes.tell(QUEUES, body, "created")
        return
    async with cluster.client() as client:
        await for_each(bodies, lambda body: changes.create(client, QUEUES, None, body))


def _without_nothing(spec: Json) -> Json:
    return {key: value for key, value in spec.items() if value is not None}


async def update(cluster: Cluster, written: Written, which: Chosen, asked: Fields) -> None:
    """Change the fields that are given; amounts take the place of those that were there."""
    wanted = asked.spec()
    if not wanted:
        raise CommandError("nothing to change: give --weight, --capability, or what else is to be different", 2)
    changes = Changes(written)
    async with cluster.client() as client:
        queues = await select_objects(
            client, QUEUES, None, which.names or (), which.selector, everything=which.everything
        )

        async def change(queue: Json) -> None:
            before = spec_of(queue)
            after = _without_nothing({**before, **wanted})
            patch = merge_patch(before, after)
            if not patch:
                changes.tell(QUEUES, queue, "unchanged")
                return
            await changes.patch(client, QUEUES, queue, _sure(queue, patch), {**queue, "spec": after}, "updated")

        await for_each(queues, change)


async def stop(cluster: Cluster, written: Written, which: Chosen, verb: str) -> None:
    """Hold, drain or resume queues."""
    wanted, done = POLICIES[verb]
    changes = Changes(written)
    async with cluster.client() as client:
        queues = await select_objects(
            client, QUEUES, None, which.names or (), which.selector, everything=which.everything
        )
        if which.everything or which.selector:
            queues = [queue for queue in queues if key_of(queue).name != names.ROOT_QUEUE]

        async def change(queue: Json) -> None:
            name = key_of(queue).name
            if name == names.ROOT_QUEUE:
                raise CommandError(
                    f"queue {name} cannot be {done}: it stops nobody; name the queues below it, or give --all"
                )
            if policy(queue) == wanted:
                changes.tell(
                    QUEUES, queue, f"unchanged, it is {done}" if verb != "resume" else "unchanged, it is not stopped"
                )
                return
            after = {**queue, "spec": {**spec_of(queue), "stopPolicy": wanted}}
            await changes.patch(client, QUEUES, queue, _sure(queue, {"stopPolicy": wanted}), after, done)

        await for_each(queues, change)


def _sure(queue: Json, spec: dict[str, Any]) -> Json:
    """A patch for this very queue, not for a successor of its name."""
    return {"metadata": {"uid": queue["metadata"]["uid"]}, "spec": spec}
