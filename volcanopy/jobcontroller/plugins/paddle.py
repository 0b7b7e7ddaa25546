"""paddle: the pods of a job are the nodes of one ``paddle.distributed.launch``."""

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

PORT_NAME = "paddle-master"


class PaddleArguments(Arguments):
    """Arguments of paddle."""

    worker: Annotated[str, Role(required=True)] = "worker"
    """The task of the nodes; its first pod is the master."""
    port: Port = 36767
    """The port that the master listens on."""


class Paddle(JobPlugin[PaddleArguments]):
    """Give every node the master's address, the number of nodes and its own rank, as the launcher reads them.

    The launcher serves as the master where the master's address is its own, which it knows as an IP only: so the first node
    gets its IP, the others the name.
    """

    name = "paddle"
    needs_pod_names = False
    implies = ("svc",)

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The environment, and the master's port."""
        if task.name != self.arguments.worker:
            return pod
        if index == 0:
            for container in containers(pod, initial=False):
                add_port(container, PORT_NAME, self.arguments.port)
        values = {
            "PADDLE_MASTER": f"{address_of(self.job, task, 0) if index else '$(POD_IP)'}:{self.arguments.port}",
            "PADDLE_NNODES": str(task.replicas),
            "PADDLE_RANK": str(index),
            "PADDLE_JOB_ID": self.job.metadata.name,
        }
        entries: list[Json] = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
        entries += [{"name": name, "value": value} for name, value in values.items()]
        add_environment(pod, entries, initial=False)
        return pod
