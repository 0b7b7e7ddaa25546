"""Remedies of a waiting job in a cluster: the what-if engine on everything that the user may read."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from volcanopy.api import core, names
from volcanopy.api.model import Json
from volcanopy.api.quantity import QuantityError
from volcanopy.cli import snapshot, whatif
from volcanopy.jobcontroller.phases import FINISHED
from volcanopy.kube.cache import cluster_reader
from volcanopy.kube.cache.watch import Change
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, KubeError
from volcanopy.kube.client.raw_kinds import JOBS
from volcanopy.scheduler.framework.config import ConfigError, default, parse
from volcanopy.services.process.entry_points import ThirdPartyError, registry
from volcanopy.whatif.answer import JobAnswer, answer
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.kinds import ManifestError
from volcanopy.whatif.load import Loaded


@dataclass
class _Objects:
    """The objects of a cluster, as they are read."""

    items: list[Any] = field(default_factory=list)

    def take(self, changes: Iterable[Change[Any]]) -> None:
        """Add objects."""
        self.items += [change.object for change in changes]


@dataclass(frozen=True)
class Confirmed:
    """The answer about a job; None with the reason in ``note``."""

    answer: JobAnswer | None = None
    note: str = ""


async def confirmed(client: Client, group: str, seconds: float) -> Confirmed:
    """Return when the job of a pod group starts, and its remedies, searched for at most so long."""
    objects = _Objects()
    try:
        await cluster_reader.take(client, objects)
        jobs = [body for body in (await client.list(JOBS)).items if not _is_finished(body)]
    except Forbidden as fault:
        return Confirmed(note=f"remedies are not confirmed: {fault}")
    except KubeError:
        return Confirmed(note="remedies are not confirmed: the objects of the cluster cannot be read")
    try:
        known = registry()
        text = await snapshot.configured(client)
        config = parse(text, known) if text else default(known)
        cluster = Cluster(objects.items, (names.SCHEDULER,))
        for body in jobs:
            cluster.put_workload(body)
        cluster.commit()
        loaded = Loaded(cluster)
        engine = whatif.engine(loaded, config, datetime.now(UTC), known)
        result = answer(engine, whatif.limits(seconds, jobs=frozenset({group})))
    except (ConfigError, ThirdPartyError, ManifestError, QuantityError) as fault:
        return Confirmed(note=f"remedies are not confirmed: {fault}")
    note = "" if text else "scheduler configuration not found: remedies are confirmed with the default one"
    return Confirmed(next((job for job in result.jobs if job.target.group == group), None), note)


def _is_finished(body: Json) -> bool:
    return ((body.get("status") or {}).get("state") or {}).get("phase") in FINISHED


def waits(group: core.PodGroup | None) -> bool:
    """Return whether remedies are searched for: the pod group exists, and not all of its gang has been placed."""
    return group is not None and group.status.phase in {"", "Pending", "Inqueue", "Unknown"}
