"""``volcanopy usage --decayed``: the usage of queues and users with a half-life, beside their shares."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from volcanopy.api.core import Queue
from volcanopy.cli import manifests
from volcanopy.cli.framework.documents import print_report
from volcanopy.cli.framework.options import ClusterOptions
from volcanopy.cli.framework.tables import plain_table
from volcanopy.cli.jobs.options import ReportFormat
from volcanopy.cli.queues.tree import branches, select_resource
from volcanopy.client.durations import current_time
from volcanopy.client.errors import CommandError
from volcanopy.client.kinds import readable
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import QUEUES
from volcanopy.scheduler.engine.defaults import HALF_LIFE
from volcanopy.scheduler.engine.shares.usage_shares import UsageShare, usage_shares

_GIB = 2**30
_HOUR = 3600


async def print_usage(cluster: ClusterOptions, files: Sequence[str], resource: str, output: ReportFormat) -> None:
    """Print the usage of the queues of a cluster, or of manifests at the time of their newest status."""
    if files:
        queues = readable(Queue, (manifest.body for manifest in manifests.read(files) if manifest.kind == "Queue"))
        if not queues:
            raise CommandError(f"{files[0]}: no object of kind Queue")
        times = [queue.status.credit_time for queue in queues if queue.status.credit_time is not None]
        now = max(times, default=current_time())
    else:
        async with cluster.client() as client:
            queues = readable(Queue, (await client.list(QUEUES)).items)
        now = current_time()
    resource = select_resource(queues, resource)
    shares = usage_shares(queues, resource, now)
    if output is not ReportFormat.table:
        print_report(document(shares, resource, now), output)
        return
    print(table(queues, shares, resource))


def document(shares: Sequence[UsageShare], resource: str, now: datetime) -> Json:
    """Return the usage as an object; usage is in units of the resource by seconds."""
    return {
        "apiVersion": "volcanopy.io/v1alpha1",
        "kind": "DecayedUsage",
        "time": now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "halfLifeSeconds": timedelta(seconds=HALF_LIFE).total_seconds(),
        "resource": resource,
        "items": [row.document() for row in shares],
    }


def table(queues: Sequence[Queue], shares: Sequence[UsageShare], resource: str) -> str:
    """Return a line for each queue in the order of the tree, followed by lines of its users."""
    rows: dict[str, list[UsageShare]] = {}
    for share in shares:
        rows.setdefault(share.queue, []).append(share)
    lines = []
    for branch in branches(queues):
        for row in rows[branch.name]:
            stem = branch.stem if row.user is None else branch.stem.replace("├─ ", "│  ").replace("└─ ", "   ")
            lines.append(
                (
                    stem + branch.name,
                    "-" if row.user is None else row.user or "<unknown>",
                    f"{100 * row.share:.1f} %",
                    _amount(resource, row.usage.get(resource, 0.0)),
                    f"{100 * row.used:.1f} %",
                    "-" if row.factor is None else f"{row.factor:.2f}",
                )
            )
    return plain_table(("QUEUE", "USER", "SHARE", f"{resource.upper()}-HOURS", "USED", "FACTOR"), lines)


def _amount(resource: str, usage: float) -> str:
    if resource in {"memory", "ephemeral-storage"}:
        return f"{usage / _GIB / _HOUR:.1f}Gi"
    return f"{usage / _HOUR:.2f}"
