"""The controllers of one API, and the watches that they share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from volcanopy.api import names
from volcanopy.api.core import Container, Pod, PodGroup, PodSpec
from volcanopy.jobcontroller.observed import DISRUPTION_TARGET
from volcanopy.jobcontroller.plugins.registry import Registry
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.cache.shared_parts import SharedParts
from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.raw_kinds import JOBS
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers.cron_jobs import CronController
from volcanopy.services.controllers.flows import FlowController
from volcanopy.services.controllers.gangs import GangController
from volcanopy.services.controllers.jobs import JobController, JobControllerSettings
from volcanopy.services.controllers.pod_groups import GroupController
from volcanopy.services.controllers.queues import QueueContents
from volcanopy.services.controllers.run_times import RunTimes
from volcanopy.services.controllers.worker import Followed, Worker

_NO_SPEC = PodSpec()


@dataclass(frozen=True)
class ApiControllers:
    """The controllers of the objects of one API, and the watches that they share."""

    jobs: JobController
    others: tuple[Worker, ...]
    loose: GroupController
    pods: Reflector[Any]
    groups: Reflector[Any]

    def followed(self, contents: QueueContents) -> list[Followed]:
        """Return the watches; ``contents`` counts the PodGroups of queues."""
        cache, group = self.jobs.cache, self.jobs.kind.group
        sinks = (cache.pod_group_changes, contents.pod_group_changes, self.loose.group_changes)

        def group_changes(changes: Sequence[Change[PodGroup]]) -> None:
            for sink in sinks:
                sink(changes)

        shared = (Followed("pods", self.pods, cache.pod_changes), Followed("podgroups", self.groups, group_changes))
        of = "" if group == JOBS.group else f" of {group}"
        return [entry._replace(name=f"{entry.name}{of}") for entry in (*shared, *self.loose.followed())]


def slimming_of_jobs() -> Callable[[Pod], Pod]:
    """Return the function that removes from pods of jobs what no plan for a job depends on; equal parts become one object.

    That is the specification but for the node and the names of sidecars, and conditions, of which there are several in each
    running pod: only that of an eviction matters.
    """
    shared = SharedParts()

    def slim(pod: Pod) -> Pod:
        conditions = tuple([condition for condition in pod.status.conditions if condition.type == DISRUPTION_TARGET])
        sidecars = tuple(Container(name=name, restart_policy="Always") for name in sorted(pod.spec.sidecars))
        node = pod.spec.node_name
        spec = PodSpec(node_name=node, init_containers=sidecars) if node or sidecars else _NO_SPEC
        return shared.pod(replace(pod, spec=spec, status=replace(pod.status, conditions=conditions)))

    return slim


def api_controllers(
    client: Client,
    recorder: EventRecorder,
    settings: JobControllerSettings,
    scheduler_name: str,
    plugins: Registry,
    run_times: RunTimes,
    gangs: GangController,
) -> ApiControllers:
    """Return the controllers of the API that the client is a view of; ``gangs`` is that of gangs of other APIs."""
    jobs = JobController(client, recorder, settings, plugins=plugins, run_times=run_times)
    pods = Reflector(client, PODS, label_selector=names.JOB_NAME, transform=slimming_of_jobs())
    groups = Reflector(client, POD_GROUPS)
    pods.on_listed = lambda: jobs.cache.listed("pods", int(pods.resource_version))
    groups.on_listed = lambda: jobs.cache.listed("podgroups", int(groups.resource_version))
    return ApiControllers(
        jobs,
        (FlowController(client, recorder, jobs.cache.pods_of), CronController(client, recorder)),
        GroupController(
            client,
            recorder,
            scheduler_name,
            at_once=settings.pods_at_once,
            queue_labels=settings.queue_labels,
            gangs=gangs,
        ),
        pods,
        groups,
    )
