"""``volcanopy queue create``, ``update``, ``hold``, ``drain`` and ``resume``: creation of queues and changes of their spec."""

from typing import Any

from volcanopy.api import names
from volcanopy.api.core import Queue
from volcanopy.cli.framework.changes import ChangeWriter
from volcanopy.cli.framework.options import ClusterOptions, Selection, WriteOptions
from volcanopy.cli.framework.selection import for_each, select_objects
from volcanopy.cli.queues.spec_options import SpecOptions
from volcanopy.client.errors import CommandError
from volcanopy.client.explain.hierarchy import stop_policy
from volcanopy.client.kinds import key_of, read, spec_of
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.merge_patch import merge_patch
from volcanopy.kube.client.raw_kinds import QUEUES

STOP_POLICIES = {"hold": ("Hold", "held"), "drain": ("HoldAndDrain", "drained"), "resume": ("None", "resumed")}
"""Stop policy and result by command."""


async def create(cluster: ClusterOptions, write: WriteOptions, queue_names: list[str], options: SpecOptions) -> None:
    """Create queues of these names with the same spec."""
    changes, spec = ChangeWriter(write), _without_none(options.spec())
    bodies: list[Json] = [
        {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}
        for name in queue_names
    ]
    if changes.client_only:
        for body in bodies:
            changes.report(QUEUES, body, "created")
        return
    async with cluster.client() as client:
        await for_each(bodies, lambda body: changes.create(client, QUEUES, None, body))


def _without_none(spec: Json) -> Json:
    return {key: value for key, value in spec.items() if value is not None}


async def update(cluster: ClusterOptions, write: WriteOptions, selection: Selection, options: SpecOptions) -> None:
    """Change the given fields; a resource list is replaced as a whole."""
    fields = options.spec()
    if not fields:
        raise CommandError("no field to update: give an option such as --weight or --capability", 2)
    changes = ChangeWriter(write)
    async with cluster.client() as client:

        async def change(queue: Json) -> None:
            before = spec_of(queue)
            after = _without_none({**before, **fields})
            patch = merge_patch(before, after)
            if not patch:
                changes.report(QUEUES, queue, "unchanged")
                return
            await changes.patch(client, QUEUES, queue, _patch(queue, patch), {**queue, "spec": after}, "updated")

        await for_each(await select_objects(client, QUEUES, None, selection), change)


async def set_stop_policy(cluster: ClusterOptions, write: WriteOptions, selection: Selection, verb: str) -> None:
    """Hold, drain or resume queues."""
    policy, result = STOP_POLICIES[verb]
    changes = ChangeWriter(write)
    async with cluster.client() as client:
        queues = await select_objects(client, QUEUES, None, selection)
        if not selection.by_name:
            queues = [queue for queue in queues if key_of(queue).name != names.ROOT_QUEUE]

        async def change(body: Json) -> None:
            queue = read(Queue, body)
            if queue.metadata.name == names.ROOT_QUEUE:
                raise CommandError(f'queue "root" cannot be {result}: name the queues below it, or use --all')
            if stop_policy(queue) == policy:
                current = "not held or drained" if verb == "resume" else f"already {result}"
                changes.report(QUEUES, body, f"unchanged: {current}")
                return
            after = {**body, "spec": {**spec_of(body), "stopPolicy": policy}}
            await changes.patch(client, QUEUES, body, _patch(body, {"stopPolicy": policy}), after, result)

        await for_each(queues, change)


def _patch(queue: Json, spec: dict[str, Any]) -> Json:
    """Return a patch for this queue, identified by its uid."""
    return {"metadata": {"uid": queue["metadata"]["uid"]}, "spec": spec}
