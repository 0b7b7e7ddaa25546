"""The controllers of one API, and the watches that they share."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec.structs import replace

from volcanopy.api import names
from volcanopy.api.core import Container, Pod, PodGroup, PodSpec
from volcanopy.jobcontroller.observed import DISRUPTION_TARGET
from volcanopy.jobcontroller.plugins.registry import Registry
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.cache.shared_parts import SharedParts
from volcanopy.kube.cache.watch import Change, Reflector, each_alone
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import is_of
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers.controller import Controller
from volcanopy.services.controllers.cron_jobs import CronController
from volcanopy.services.controllers.flows import FlowController
from volcanopy.services.controllers.gangs import GangController
from volcanopy.services.controllers.jobs import JobController, JobControllerSettings
from volcanopy.services.controllers.pod_groups import GroupController
from volcanopy.services.controllers.queues import QueueContents
from volcanopy.services.controllers.run_times import RunTimes
from volcanopy.services.controllers.worker import Worker

Following = Callable[[], Coroutine[Any, Any, None]]
"""The work of a watch."""
_NO_SPEC = PodSpec()


@dataclass(frozen=True)
class ApiControllers:
    """The controllers of the objects of one API, and the watches that they need before they start."""

    jobs: JobController
    others: tuple[Controller, ...]
    loose: GroupController
    pods: Reflector[Any]
    groups: Reflector[Any]

    @property
    def workers(self) -> tuple[Worker, ...]:
        """All but the controller of jobs."""
        return (*self.others, self.loose)

    @property
    def watches(self) -> tuple[Reflector[Any], ...]:
        """The watches that must be synced before reconciles start."""
        return (self.pods, self.groups, *self.loose.watches)

    def dispatch(self, event: str, manifest: Json) -> None:
        """Pass on an object that a user wrote to the controllers of its kind."""
        if any(is_of(kind, manifest) for kind in self.jobs.kinds):
            self.jobs.event(event, manifest)
        for other in self.others:
            if any(is_of(kind, manifest) for kind in other.kinds()):
                other.event(event, manifest)

    def following(self, contents: QueueContents) -> list[tuple[str, Following]]:
        """Return the name and the work of each watch; ``contents`` counts the PodGroups of queues."""
        cache = self.jobs.cache

        def group_changes(changes: Sequence[Change[PodGroup]]) -> None:
            for sink in (cache.pod_group_changes, contents.pod_group_changes, self.loose.group_changes):
                sink(changes)

        followed: tuple[tuple[Reflector[Any], Callable[[Any], None]], ...] = (
            (self.pods, cache.pod_changes),
            (self.groups, group_changes),
        )
        own = [(watch.kind.plural, partial(watch.run, each_alone(sink))) for watch, sink in followed]
        return [*own, *self.loose.following()]


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
        (
            FlowController(client, recorder, jobs.cache.pods_of),
            CronController(client, recorder),
        ),
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
