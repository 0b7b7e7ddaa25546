"""Job plugin dask: makes the pods of a job a Dask cluster.

Install this package where the job controller and admission run, and name the plugin in a job::

    spec:
      plugins:
        dask: [--dashboard-port=8080]

``dask worker`` and ``distributed.Client()`` then connect to the scheduler without further arguments.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated

from volcanopy.api import names
from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json, Problem
from volcanopy.jobcontroller.plugins.plugin import (
    Arguments,
    JobPlugin,
    Needed,
    Port,
    Role,
    add_environment,
    add_port,
    address_of,
    containers,
)


class DaskArguments(Arguments):
    """Arguments of the plugin. Admission rejects all others."""

    scheduler: Annotated[str, Role(required=True)] = "scheduler"
    """The task of the scheduler."""
    port: Port = 8786
    """The port that the scheduler listens on."""
    dashboard_port: Port = 8787
    """The port of its dashboard."""


class Dask(JobPlugin[DaskArguments]):
    """Sets the address of the scheduler in every container and creates a service of the dashboard, ``<job>-dashboard``."""

    name = "dask"
    implies = ("svc",)

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """Add the address of the scheduler, and to the scheduler its ports."""
        if task.name == self.arguments.scheduler:
            for container in containers(pod, initial=False):
                add_port(container, "scheduler", self.arguments.port)
                add_port(container, "dashboard", self.arguments.dashboard_port)
        address = f"tcp://{address_of(self.job, self._scheduler, 0)}:{self.arguments.port}"
        add_environment(pod, [{"name": "DASK_SCHEDULER_ADDRESS", "value": address}])
        return pod

    def objects(self) -> Sequence[Needed]:
        """Return the service of the dashboard."""
        selector = {
            names.JOB_NAME: self.job.metadata.name,
            names.JOB_NAMESPACE: self.job.metadata.namespace,
            names.TASK_SPEC: self.arguments.scheduler,
        }
        port = {"name": "dashboard", "port": 80, "targetPort": self.arguments.dashboard_port, "protocol": "TCP"}
        spec = {"selector": selector, "ports": [port]}
        metadata = self.metadata(f"{self.job.metadata.name}-dashboard")
        return [Needed({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})]

    def problems(self) -> Iterable[Problem]:
        """Report more than one scheduler: workers join exactly one."""
        if self._scheduler.replicas > 1:
            yield self.problem(f"task {self._scheduler.name} has {self._scheduler.replicas} replicas: give it one")

    @property
    def _scheduler(self) -> TaskSpec:
        task = self.job.spec.task(self.arguments.scheduler)
        assert task is not None
        return task
