"""The pages of job flows: a list, and the graph of one, read when the page is opened."""

from datetime import datetime

from volcanopy.api.flow_read import JobFlow
from volcanopy.api.model import Json
from volcanopy.cli.views.flows import phase, read_report, reason
from volcanopy.client.kinds import readable
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.raw_kinds import FLOWS


async def flow_list(client: Client, namespace: str | None) -> Json:
    """Return the flows of a namespace, or of all, in the order of their names."""
    flows = readable(JobFlow, (await client.list(FLOWS, namespace)).items)
    return {"flows": [_row(flow) for flow in sorted(flows, key=lambda flow: flow.metadata.key)]}


async def flow_document(client: Client, namespace: str, name: str, now: datetime) -> Json:
    """Return a flow with its jobs, their levels, the critical path and the expected end. Raises CommandError without it."""
    flow, report = await read_report(client, namespace, name, now)
    return _row(flow) | report.document()


def _row(flow: JobFlow) -> Json:
    created = flow.metadata.creation_timestamp
    return {
        "namespace": flow.metadata.namespace,
        "name": flow.metadata.name,
        "phase": phase(flow),
        "reason": reason(flow),
        "completed": len(flow.status.completed_jobs),
        "total": len(flow.spec.flows),
        "created": created.isoformat() if created else "",
    }
