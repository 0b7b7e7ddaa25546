"""The usage of queues and users beside their shares, as Slurm's ``sshare`` lists them, from the statuses of queues.

1. The share of a queue is its part of ``deserved`` among its siblings where one of them sets it for the resource, else of their
   weights. Users of a queue have equal shares.
2. The used part is the usage now as a part of that of all siblings, or of all users of the queue.
3. The factor is the share by the used part (``LevelFS`` of Slurm): above 1 for those that used less than their share.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from volcanopy.api import core, names, quantity
from volcanopy.scheduler.engine.shares.usage import usage_at


@dataclass(frozen=True)
class UsageShare:
    """The usage of a queue, or of a user of it, beside the share."""

    queue: str
    user: str | None  # None for the queue itself.
    share: float
    usage: Mapping[str, float]  # By resource, in its unit by seconds.
    used: float  # Of the resource that is compared.
    factor: float | None  # None where nothing was used.

    def document(self) -> dict[str, Any]:
        """Return the fields as JSON; a queue has no user, and no factor where nothing was used."""
        usage = {resource: round(amount, 6) for resource, amount in sorted(self.usage.items())}
        numbers = {"share": self.share, "used": self.used, "factor": self.factor}
        rounded = {name: round(number, 6) for name, number in numbers.items() if number is not None}
        return {"queue": self.queue, **({} if self.user is None else {"user": self.user}), **rounded, "usage": usage}


def usage_shares(queues: Sequence[core.Queue], resource: str, now: datetime) -> list[UsageShare]:
    """Return the usage of queues by name, each followed by its users by name; a resource is compared."""
    levels: dict[str, list[core.Queue]] = {}
    for queue in sorted(queues, key=lambda queue: queue.metadata.name):
        parent = "" if queue.metadata.name == names.ROOT_QUEUE else queue.spec.parent or names.ROOT_QUEUE
        levels.setdefault(parent, []).append(queue)
    rows: list[UsageShare] = []
    for siblings in levels.values():
        weights = _weights(siblings, resource)
        usages = [usage_at(each.status.usage, each.status.allocated, each.status.credit_time, now) for each in siblings]
        parts = zip(siblings, _parts(weights), usages, _used(usages, resource), strict=True)
        for queue, share, usage, used in parts:
            rows.append(_row(queue.metadata.name, None, share, usage, used))
            rows += _of_users(queue, resource, now)
    return sorted(rows, key=lambda row: (row.queue, row.user is not None, row.user))


def _of_users(queue: core.Queue, resource: str, now: datetime) -> Iterable[UsageShare]:
    users, since = queue.status.users, queue.status.credit_time
    usages = [usage_at(user.usage, user.allocated, since, now) for user in users]
    for user, usage, used in zip(users, usages, _used(usages, resource), strict=True):
        yield _row(queue.metadata.name, user.name, 1 / len(users), usage, used)


def _row(queue: str, user: str | None, share: float, usage: Mapping[str, float], used: float) -> UsageShare:
    return UsageShare(queue, user, share, usage, used, share / used if used else None)


def _weights(siblings: Iterable[core.Queue], resource: str) -> list[float]:
    deserved = [float(quantity.amounts(queue.spec.deserved).get(resource, 0)) for queue in siblings]
    return deserved if any(deserved) else [float(max(queue.spec.weight, 1)) for queue in siblings]


def _used(usages: Iterable[Mapping[str, float]], resource: str) -> list[float]:
    return _parts([usage.get(resource, 0.0) for usage in usages])


def _parts(amounts: Sequence[float]) -> list[float]:
    total = sum(amounts)
    return [amount / total if total else 0.0 for amount in amounts]
