"""Remedies of a waiting job in a cluster: the what-if engine on everything that the user may read."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from volcanopy.api.config_file import ConfigError
from volcanopy.api.model import Json
from volcanopy.api.quantity import QuantityError
from volcanopy.client import whatif_engine
from volcanopy.client.errors import cluster_error
from volcanopy.client.scheduler_config import configured
from volcanopy.client.volcano_objects import ApiObjects, own_job, served, unfinished_jobs
from volcanopy.installed.entry_points import ThirdPartyError
from volcanopy.installed.scheduler_plugins import registry
from volcanopy.kube.cache import cluster_reader
from volcanopy.kube.cache.followed_kinds import OLDER
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.errors import Forbidden, KubeError, NotFound
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import DEVICE_CLAIM_TEMPLATES, RUNTIME_CLASSES
from volcanopy.kube.threads import in_thread
from volcanopy.scheduler.policy.config import SchedulerConfig, default, parse
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.whatif.answer import JobAnswer, answer
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.kinds import ManifestError
from volcanopy.whatif.load import Loaded

_INPUTS = (DEVICE_CLAIM_TEMPLATES, RUNTIME_CLASSES)
"""Kinds from which the API server and controllers complete the pods of new jobs."""


@dataclass(frozen=True)
class Confirmed:
    """The answer about a job; None with the reason in ``note``."""

    answer: JobAnswer | None = None
    note: str = ""


async def confirmed(client: Client, group: str, seconds: float) -> Confirmed:
    """Return when the job of a pod group starts, and its remedies, searched for at most so long."""
    try:
        state = await cluster_state(client)
    except UnreadableError as fault:
        return Confirmed(note=f"remedies are not confirmed: {fault}")
    note = "" if state.configured else "scheduler configuration not found: remedies are confirmed with the default one"
    return Confirmed((await answers(state, {group}, seconds)).get(group), note)


async def answers(state: "ClusterState", groups: Collection[str], seconds: float) -> dict[str, JobAnswer]:
    """Return by pod group when these jobs start, with their remedies, searched for at most so long; those that wait only."""
    engine = whatif_engine.engine(Loaded(state.cluster), state.config, datetime.now(UTC), state.registry)
    result = await in_thread(answer, engine, whatif_engine.limits(engine, seconds, jobs=frozenset(groups)))
    return {job.target.group: job for job in result.jobs if job.target.group in groups}


class UnreadableError(Exception):
    """The cluster state or the configuration cannot be read; the message has the reason."""


@dataclass(frozen=True)
class ClusterState:
    """A copy of the cluster, with the scheduler's configuration; ``configured``: it was found, else it is the default."""

    cluster: Cluster
    config: SchedulerConfig
    registry: Registry
    configured: bool


async def cluster_state(client: Client) -> ClusterState:
    """Read everything that a what-if question needs, of every API that volcanopy handles. Raises UnreadableError."""
    objects, apis = ApiObjects(), api_views(client)
    try:
        await cluster_reader.read_all(apis, objects.take)
        jobs = {view.api: await unfinished_jobs(view) for view in apis}
        inputs = [body for kind in _INPUTS for body in await _readable(client, kind)]
        text = await configured(client)
    except Forbidden as fault:
        raise UnreadableError(str(cluster_error(fault))) from None
    except KubeError:
        raise UnreadableError("the objects of the cluster cannot be read") from None
    try:
        plugins = registry()
        config = parse(text, plugins) if text else default(plugins)
        apis = served(apis, [body for bodies in jobs.values() for body in bodies], objects.items)
        cluster = Cluster(objects.of(apis), apis.scheduler_names)
        for view in reversed(list(apis)):
            for body in jobs[view.api]:
                cluster.put_workload(own_job(body))
        for body in inputs:
            cluster.put_workload(body)
    except (ConfigError, ThirdPartyError, ManifestError, QuantityError) as fault:
        raise UnreadableError(str(fault)) from None
    cluster.commit()
    return ClusterState(cluster, config, plugins, bool(text))


async def _readable(client: Client, kind: Kind[Json]) -> list[Json]:
    """Return the objects of a kind; none if the cluster lacks it or the user may not read it."""
    for version in (kind.version, *OLDER.get(kind.group, ())):
        try:
            items = (await client.list(kind.in_version(version))).items
            return [body | {"apiVersion": kind.api_version, "kind": kind.kind} for body in items]
        except NotFound:
            continue
        except Forbidden:
            break
    return []
