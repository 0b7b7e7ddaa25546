"""The commands that run a service: ``volcanopy scheduler``, ``controller``, ``admission`` and ``agent``."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volcanopy.api import names
from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.options import Api, ClusterOptions, GangApiName, ProcessOptions
from volcanopy.client.durations import positive_seconds, whole_seconds
from volcanopy.client.errors import CommandError

if TYPE_CHECKING:
    from volcanopy.services.process.settings import Election

app = typer.Typer(rich_markup_mode=None)

FailurePolicy = StrEnum("FailurePolicy", {"fail": "Fail", "ignore": "Ignore"})
"""Whether objects are rejected while the webhook does not answer."""


@dataclass(frozen=True)
class ElectionOptions:
    """Options of leader election."""

    leader_elect: Annotated[bool, typer.Option(help="Act only while holding a Lease.")] = True
    lease_namespace: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Namespace of the Lease. Default: the pod's namespace, or kube-system outside a cluster.",
        ),
    ] = ""
    lease_name: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Name of the Lease. Default: <scheduler name>-scheduler, or volcanopy-controller."
        ),
    ] = ""
    lease_duration: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Time without renewal until another process may lead."),
    ] = "10s"
    renew_deadline: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Time without renewal after which the leader stops. Less than --lease-duration."
        ),
    ] = "6s"
    retry_period: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Time between renewals. Less than --renew-deadline."),
    ] = "2s"

    def election(self, name: str) -> "Election | None":
        """Return the election to take part in; ``name`` is the default name of the Lease."""
        from volcanopy.kube.leader.elector import LeaseDurations
        from volcanopy.services.process.settings import Election

        if not self.leader_elect:
            return None
        try:
            terms = LeaseDurations(
                duration=whole_seconds("--lease-duration", self.lease_duration, minimum=1),
                renew=positive_seconds("--renew-deadline", self.renew_deadline),
                retry=positive_seconds("--retry-period", self.retry_period),
            )
        except ValueError as error:
            raise CommandError(f"--lease-duration, --renew-deadline, --retry-period: {error}", 2) from None
        return Election(name=self.lease_name or name, namespace=self.lease_namespace, terms=terms)


SchedulerName = Annotated[str, typer.Option(metavar="NAME", help="spec.schedulerName of the pods to schedule.")]

ServedApi = Annotated[Api, typer.Option(help="API groups that are served: those of volcanopy, of Volcano, or both.")]


@command(app, "scheduler")
def scheduler_command(
    cluster: ClusterOptions,
    process: ProcessOptions,
    election: ElectionOptions,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Scheduler configuration; changes take effect while running."),
    ] = None,
    scheduler_name: SchedulerName = names.SCHEDULER,
    api: ServedApi = Api.both,
    stuck_after: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Time without a finished cycle until /healthz fails, at least 1s."),
    ] = "2m",
    pod_events: Annotated[
        bool, typer.Option("--pod-events", help="Write events Scheduled and FailedScheduling of each pod.")
    ] = False,
) -> None:
    """Run the scheduler."""
    from volcanopy.cli.service_process import serve
    from volcanopy.services.process.settings import SchedulerSettings
    from volcanopy.services.scheduler.scheduler_service import run

    settings = SchedulerSettings(
        api=api.value,
        scheduler_name=scheduler_name,
        config=config,
        election=election.election(f"{scheduler_name}-scheduler"),
        stuck_after=positive_seconds("--stuck-after", stuck_after, minimum=1),
        pod_events=pod_events,
    )
    serve(cluster, process, lambda connection, stop, health: run(connection, settings, stop, health=health))


@command(app, "controller")
def controller_command(
    cluster: ClusterOptions,
    process: ProcessOptions,
    election: ElectionOptions,
    scheduler_name: SchedulerName = names.SCHEDULER,
    api: ServedApi = Api.both,
    queue_label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Label of workloads that names the queue of their pods. Repeatable."),
    ] = None,
    gang_api: Annotated[
        list[GangApiName] | None,
        typer.Option(help="Other API whose PodGroups are gangs; pods name them. Repeatable."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Controller configuration: discovery of HyperNodes; changes take effect while running."
        ),
    ] = None,
) -> None:
    """Run the controllers of jobs, flows, cron jobs and queues."""
    from volcanopy.cli.service_process import serve
    from volcanopy.services.controllers.controller_service import run
    from volcanopy.services.controllers.jobs import JobControllerSettings

    settings = JobControllerSettings(
        api=api.value,
        scheduler_name=scheduler_name,
        election=election.election("volcanopy-controller"),
        queue_labels=tuple(queue_label or ()),
        gang_apis=tuple(api.value for api in gang_api or ()),
        config=config,
    )
    serve(cluster, process, lambda connection, stop, health: run(connection, settings, stop, health=health))


@command(app, "admission")
def admission_command(
    cluster: ClusterOptions,
    process: ProcessOptions,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the webhook (HTTPS); 0: any free port.")] = 0,
    url: Annotated[str, typer.Option(metavar="URL", help="URL by which the API server reaches the webhook.")] = "",
    service: Annotated[str, typer.Option(metavar="NAMESPACE/NAME", help="Service in front of the webhook.")] = "",
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Admission configuration; changes take effect while running."),
    ] = None,
    failure_policy: Annotated[
        FailurePolicy,
        typer.Option(help="Failure policy of the webhooks while this process does not answer."),
    ] = FailurePolicy.fail,
    api: ServedApi = Api.both,
) -> None:
    """Run the admission webhook, and register it."""
    from volcanopy.cli.service_process import serve
    from volcanopy.services.admission.admission_service import AdmissionSettings, run

    if service and service.count("/") != 1:
        raise CommandError(f"--service: {service!r} must be NAMESPACE/NAME, such as volcanopy-system/admission", 2)
    settings = AdmissionSettings(
        api=api.value,
        host=process.address,
        port=port,
        url=url,
        service=service,
        config=config,
        fail_closed=failure_policy is FailurePolicy.fail,
        unregister=not service,  # other replicas behind the Service remain
        drain=5.0 if service else 0.0,
    )
    serve(cluster, process, lambda connection, stop, health: run(connection, settings, stop, health=health))


@command(app, "agent")
def agent_command(
    cluster: ClusterOptions,
    process: ProcessOptions,
    node: Annotated[
        str,
        typer.Option(metavar="NAME", envvar="NODE_NAME", help="Name of the node that this runs on."),
    ],
    kubelet_dir: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the kubelet.")] = Path(
        "/var/lib/kubelet"
    ),
    root: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder with sys and proc of the node.")] = Path("/"),
    interval: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Time between two reads of the files of the node, at least 1s."),
    ] = "15s",
    api: ServedApi = Api.both,
) -> None:
    """Run the agent of a node: it reports its CPUs and load."""
    from volcanopy.cli.service_process import serve
    from volcanopy.services.agent.agent_service import AgentSettings, run
    from volcanopy.services.agent.machine_files import MachineFiles

    settings = AgentSettings(
        node=node,
        api=api.value,
        files=MachineFiles(root, kubelet_dir),
        interval=positive_seconds("--interval", interval, minimum=1),
    )
    serve(cluster, process, lambda connection, stop, health: run(connection, settings, stop, health=health))
