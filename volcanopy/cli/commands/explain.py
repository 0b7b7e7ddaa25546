"""``volcanopy explain``: why a job is pending, and the state of a queue."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of
from volcanopy.cli.framework.options import ClusterOptions, NamespaceOption

if TYPE_CHECKING:
    from volcanopy.kube.client.api_client import Client

app = typer.Typer(rich_markup_mode=None)

ExplanationFormat = StrEnum("ExplanationFormat", "text json yaml")
"""Format of an explanation."""
OUTPUT = typer.Option("-o", "--output", help="Output format.")


@dataclass(frozen=True)
class ReportOptions:
    """Output of a report about a job or pod group, and how it is made."""

    output: Annotated[ExplanationFormat, OUTPUT] = ExplanationFormat.text
    system_namespace: Annotated[str, typer.Option(metavar="NAME", help="Namespace of the scheduler's Lease.")] = (
        "volcanopy-system"
    )
    budget: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Work for the search for changes, as the time that it takes on an idle machine; 0: none.",
        ),
    ] = "5s"

    def seconds(self) -> float:
        """Return the budget. Raises CommandError."""
        from volcanopy.client.durations import seconds

        return seconds("--budget", self.budget)


@command(app, "job", examples=["volcanopy explain job train", "volcanopy explain job train -n research -o json"])
async def explain_job(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.", autocompletion=names_of("job"))],
    options: ReportOptions,
    cluster: ClusterOptions,
    place: NamespaceOption,
) -> None:
    """Explain why a job is pending, and what lets it start.

    Shows the gates of the job, the reasons for which nodes reject its pods, the problems of its pods, and changes that let it start, each tried out on a copy of the cluster state. You need read access to the job and its pod group; with more access, the report has more details. `volcanopy explain NAME` is short for it.
    """
    async with cluster.client() as client:
        await _show_job(client, place.of(client), name, options)


@command(app, "podgroup", examples=["volcanopy explain podgroup spark-0123-podgroup"])
async def explain_podgroup(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the pod group.", autocompletion=names_of("podgroup"))
    ],
    options: ReportOptions,
    cluster: ClusterOptions,
    place: NamespaceOption,
) -> None:
    """Explain why a pod group is pending, and what lets it start.

    The output is that of `explain job`, for pods without a BatchJob: those of operators that create PodGroups, of workloads, and of PodGroups of Kubernetes' gang API, the coscheduling plugin and KAI.
    """
    async with cluster.client() as client:
        await _show_group(client, place.of(client), name, options)


@command(app, "pod", examples=["volcanopy explain pod train-worker-0"])
async def explain_pod(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the pod.", autocompletion=names_of("pod"))],
    options: ReportOptions,
    cluster: ClusterOptions,
    place: NamespaceOption,
) -> None:
    """Explain why a pod is pending, and what lets it start.

    The output is that of `explain job` for its job, or of `explain podgroup` for the pod group of a pod without a job.
    """
    from volcanopy.client.explain.cluster_reads import job_or_group_of_pod

    async with cluster.client() as client:
        namespace = place.of(client)
        job, group = await job_or_group_of_pod(client, namespace, name)
        if job:
            await _show_job(client, namespace, job, options)
        else:
            await _show_group(client, namespace, group, options)


async def _show_job(client: "Client", namespace: str, name: str, options: ReportOptions) -> None:
    from volcanopy.cli.explain.output import show
    from volcanopy.cli.explain.text import job_lines
    from volcanopy.client.explain.cluster_reads import job_facts
    from volcanopy.client.explain.job import job_report

    report = job_report(await job_facts(client, namespace, name, options.system_namespace, options.seconds()))
    show(report.document(), job_lines(report), options.output.value)


async def _show_group(client: "Client", namespace: str, name: str, options: ReportOptions) -> None:
    from volcanopy.cli.explain.output import show
    from volcanopy.cli.explain.text import job_lines
    from volcanopy.client.explain.cluster_reads import group_facts
    from volcanopy.client.explain.pod_group import group_report

    report = group_report(await group_facts(client, namespace, name, options.system_namespace, options.seconds()))
    show(report.document(), job_lines(report), options.output.value)


@command(app, "queue", examples=["volcanopy explain queue research", "volcanopy explain queue research -o yaml"])
async def explain_queue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.", autocompletion=names_of("queue"))],
    cluster: ClusterOptions,
    output: Annotated[ExplanationFormat, OUTPUT] = ExplanationFormat.text,
) -> None:
    """Explain the state of a queue, and which of its jobs are pending.

    Shows allocated and available resources, the fair share, the ancestors whose capability limits the queue, and its pending jobs by gate.
    """
    from volcanopy.cli.explain.output import show
    from volcanopy.cli.explain.text import queue_lines
    from volcanopy.client.explain.queue import queue_report
    from volcanopy.client.explain.queue_reads import queue_facts

    async with cluster.client() as client:
        report = queue_report(await queue_facts(client, name))
    show(report.document(), queue_lines(report), output.value)
