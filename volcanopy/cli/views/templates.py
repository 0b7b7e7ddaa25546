"""Columns and descriptions of job templates."""

from volcanopy.api.flow_read import JobTemplate
from volcanopy.cli.framework.description import Description
from volcanopy.cli.framework.tables import AGE, NAME, Column, View
from volcanopy.client.jobs.status import task_minimum
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.raw_kinds import TEMPLATES


def _tasks(template: JobTemplate) -> str:
    return ",".join(f"{task.name} x {task.replicas}" for task in template.spec.tasks)


VIEW = View(
    TEMPLATES,
    JobTemplate,
    (
        NAME,
        Column("TASKS", lambda template, _: _tasks(template)),
        Column("QUEUE", lambda template, _: template.spec.queue or "default"),
        Column("JOBS", lambda template, _: str(len(template.status.job_depends_on_list))),
        AGE,
    ),
)
"""``volcanopy jobtemplate list``."""


async def describe(client: Client, template: JobTemplate) -> str:
    """Return the description of a template."""
    lines = Description(template.metadata)
    spec = template.spec
    lines.line("Queue", spec.queue or "default")
    lines.line("Min Available", spec.min_available or "")
    lines.line("Plugins", ", ".join(sorted(spec.plugins)))
    rows = [
        (
            task.name,
            task.replicas,
            task_minimum(task),
            ",".join(container.image for container in task.template.spec.containers),
        )
        for task in spec.tasks
    ]
    lines.table("Tasks", ("NAME", "REPLICAS", "MIN", "IMAGE"), rows)
    lines.line("Jobs", ", ".join(template.status.job_depends_on_list) or "<none>")
    await lines.events(client, template.metadata)
    return lines.text()
