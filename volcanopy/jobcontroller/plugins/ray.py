"""ray: one pod is the head of a Ray cluster, the others join it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from pydantic import Field

from volcanopy.api import names
from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json, Problem
from volcanopy.jobcontroller.plugins.plugin import Arguments, JobPlugin, Needed, Port, Role, add_port, address_of

_LONGEST_NAME = 63


class RayArguments(Arguments):
    """Arguments of ray."""

    head: Annotated[str, Role(required=True)] = "head"
    """The task of the head."""
    head_container: Annotated[str, Field(alias="headContainer")] = "head"
    """The container of its pod that Ray runs in."""
    worker: Annotated[str, Role()] = "worker"
    """The task of the workers."""
    worker_container: Annotated[str, Field(alias="workerContainer")] = "worker"
    """The container of their pods that Ray runs in."""
    port: Port = 6379
    """The port of the head's control store (GCS)."""
    dashboard_port: Annotated[Port, Field(alias="dashboardPort")] = 8265
    """The port of the dashboard, where jobs are submitted."""
    client_port: Annotated[Port, Field(alias="clientPort")] = 10001
    """The port of the Ray client server."""


class Ray(JobPlugin[RayArguments]):
    """Start Ray in the head and in the workers, and give the head a service, ``<job>-head-svc``.

    The command of the container that Ray runs in is replaced. A Ray cluster does not end by itself: let a task that submits
    the work complete the job, or delete it.
    """

    name = "ray"
    needs_pod_names = False
    implies = ("svc",)

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The command; for the head, its ports."""
        given = self.arguments
        if task.name == given.head:
            container = _container(pod, given.head_container)
            for name, number in self._ports():
                add_port(container, name, number)
            start = (
                f"ray start --head --block --dashboard-host=0.0.0.0 --port={given.port}"
                f" --dashboard-port={given.dashboard_port} --ray-client-server-port={given.client_port}"
            )
            container["command"] = ["sh", "-c", start]
        elif task.name == given.worker:
            head = self.job.spec.task(given.head)
            assert head is not None
            start = f"ray start --block --address={address_of(self.job, head, 0)}:{given.port}"
            _container(pod, given.worker_container)["command"] = ["sh", "-c", start]
        return pod

    def objects(self) -> Sequence[Needed]:
        """The service of the head; by number, so that it serves ports that the user has named otherwise."""
        ports = [
            {"name": name, "port": number, "targetPort": number, "protocol": "TCP"} for name, number in self._ports()
        ]
        selector = {
            names.JOB_NAME: self.job.metadata.name,
            names.JOB_NAMESPACE: self.job.metadata.namespace,
            names.TASK_SPEC: self.arguments.head,
        }
        spec = {"type": "ClusterIP", "selector": selector, "ports": ports}
        return [Needed({"apiVersion": "v1", "kind": "Service", "metadata": self.metadata(self._service), "spec": spec})]

    def problems(self) -> Iterable[Problem]:
        """A task without the container that Ray should run in; a name that is too long for the service."""
        given = self.arguments
        for role, name, key in (
            (given.head, given.head_container, "headContainer"),
            (given.worker, given.worker_container, "workerContainer"),
        ):
            task = self.job.spec.task(role)
            spec = (task.template.get("spec") or {}) if task else {}
            there = [container.get("name", "") for container in spec.get("containers") or ()]
            if task and name not in there:
                message = f"task {role} has no container {name!r} for Ray to run in: choose one of {', '.join(there)}"
                yield self.problem(f"{message}, by --{key}")
        numbers = [number for _, number in self._ports()]
        if len(set(numbers)) < len(numbers):
            yield self.problem("--port, --dashboardPort and --clientPort must be three different ports")
        if len(self._service) > _LONGEST_NAME:
            message = f"the head's service would be called {self._service}, which has {len(self._service)} characters"
            yield Problem("metadata.name", f"{message}: {_LONGEST_NAME} are allowed")

    def _ports(self) -> Iterator[tuple[str, int]]:
        yield "gcs", self.arguments.port
        yield "dashboard", self.arguments.dashboard_port
        yield "client-server", self.arguments.client_port

    @property
    def _service(self) -> str:
        return f"{self.job.metadata.name}-head-svc"


def _container(pod: Json, name: str) -> Json:
    result: Json = next(container for container in pod["spec"]["containers"] if container.get("name") == name)
    return result
