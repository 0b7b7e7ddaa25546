"""Columns and descriptions of job flows."""

from contextlib import suppress
from datetime import datetime

from volcanopy.api.flow_read import FlowJobStatus, JobFlow, JobTemplate
from volcanopy.cli.explain.flow import FlowReport, flow_report
from volcanopy.cli.framework.description import Description
from volcanopy.cli.framework.tables import AGE, NAME, Column, View, phase_style, reason_column
from volcanopy.client.errors import CommandError
from volcanopy.client.kinds import read, readable
from volcanopy.client.objects import find_object
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden
from volcanopy.kube.client.raw_kinds import FLOWS, TEMPLATES

_STYLES = {"Succeed": "Completed"}


def phase(flow: JobFlow) -> str:
    """Return the phase; Pending before the flow controller has set it."""
    return flow.status.state.phase or "Pending"


def reason(flow: JobFlow) -> str:
    """Return the message of the flow's state."""
    return flow.status.state.message if flow.status.state.phase else "not yet processed by the flow controller"


VIEW = View(
    FLOWS,
    JobFlow,
    (
        NAME,
        Column("PHASE", lambda flow, _: phase(flow), style=lambda text: phase_style(_STYLES.get(text, text))),
        Column("COMPLETED", lambda flow, _: f"{len(flow.status.completed_jobs)}/{len(flow.spec.flows)}"),
        AGE,
        Column("RUNNING", lambda flow, _: ",".join(flow.status.running_jobs), wide=True),
        reason_column(reason),
    ),
)
"""``volcanopy jobflow list``."""


async def describe(client: Client, flow: JobFlow) -> str:
    """Return the description of a flow."""
    lines = Description(flow.metadata)
    lines.line("Phase", phase(flow))
    lines.line("Reason", reason(flow))
    lines.line("Job Retain Policy", flow.spec.job_retain_policy)
    lines.line("Failure Policy", flow.spec.failure_policy)
    with suppress(Forbidden, CommandError):  # of one who may not list templates, or whose dependencies have a cycle
        report = await _report(client, flow, lines.now)
        lines.line("Critical Path", report.path_text())
        lines.line("Expected End", report.end_text(lines.now))
    statuses = {status.name: status for status in flow.status.job_status_list}
    rows = []
    for job in flow.spec.flows:
        name = f"{flow.metadata.name}-{job.name}"
        status = statuses.get(name) or statuses.get(job.name) or FlowJobStatus()
        rows.append(
            (
                name,
                job.template or job.name,
                ",".join(job.depends_on.targets if job.depends_on else ()) or "-",
                status.state or "-",
                status.attempt,
                status.running_duration or "-",
                " ".join(status.message.split()),
            )
        )
    lines.table("Jobs", ("NAME", "TEMPLATE", "DEPENDS ON", "PHASE", "RETRIES", "DURATION", "REASON"), rows)
    await lines.events(client, flow.metadata)
    return lines.text()


async def read_report(client: Client, namespace: str, name: str, now: datetime) -> tuple[JobFlow, FlowReport]:
    """Return a flow and its report. Raises CommandError where it does not exist or its dependencies have a cycle."""
    flow = read(JobFlow, await find_object(client, FLOWS, namespace, name))
    return flow, await _report(client, flow, now)


async def _report(client: Client, flow: JobFlow, now: datetime) -> FlowReport:
    namespace = flow.metadata.namespace
    flows = readable(JobFlow, (await client.list(FLOWS, namespace)).items)
    templates = readable(JobTemplate, (await client.list(TEMPLATES, namespace)).items)
    try:
        return flow_report(flow, flows, templates, now)
    except ValueError as fault:
        raise CommandError(str(fault)) from None
