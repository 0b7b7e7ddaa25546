"""jax: the pods of a job are the processes of one JAX program."""

from typing import Annotated

from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json
from volcanopy.jobcontroller.plugins.plugin import (
    Arguments,
    JobPlugin,
    Port,
    Role,
    add_environment,
    add_port,
    address_of,
    containers,
)

PORT_NAME = "jax-coordinator"


class JaxArguments(Arguments):
    """Arguments of jax."""

    worker: Annotated[str, Role(required=True)] = "worker"
    """The task of the processes; its first pod is the coordinator."""
    port: Port = 6666
    """The port that the coordinator listens on."""


class Jax(JobPlugin[JaxArguments]):
    """Give every process the coordinator's address, the number of processes and its own.

    ``jax.distributed.initialize`` reads the address itself; it is handed the numbers as ``num_processes`` and ``process_id``.
    """

    name = "jax"
    needs_pod_names = False
    implies = ("svc",)

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The environment, and the coordinator's port."""
        if task.name != self.arguments.worker:
            return pod
        if index == 0:
            for container in containers(pod, initial=False):
                add_port(container, PORT_NAME, self.arguments.port)
        values = {
            "JAX_COORDINATOR_ADDRESS": f"{address_of(self.job, task, 0)}:{self.arguments.port}",
            "JAX_NUM_PROCESSES": str(task.replicas),
            "JAX_PROCESS_ID": str(index),
        }
        add_environment(pod, [{"name": name, "value": value} for name, value in values.items()], initial=False)
        return pod
