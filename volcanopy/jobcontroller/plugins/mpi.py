"""mpi: one pod starts the processes of an MPI program on the others, through ssh."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json
from volcanopy.jobcontroller.plugins.plugin import (
    LONGEST_VARIABLE,
    Arguments,
    JobPlugin,
    Needed,
    Port,
    Role,
    add_environment,
    add_port,
    add_volume,
    containers,
    hosts_of,
)

PORT_NAME = "mpijob-port"
HOSTFILE_PATH = "/etc/mpi"


class MpiArguments(Arguments):
    """Arguments of mpi."""

    master: Annotated[str, Role(required=True)] = "master"
    """The task that runs mpirun."""
    worker: Annotated[str, Role()] = "worker"
    """The task that the processes are started in."""
    port: Port = 22
    """The port that the ssh servers listen on; give it to plugin ssh, too."""
    slots: Annotated[int, Field(ge=1)] = 1
    """How many processes a worker takes, in the hostfile."""


class Mpi(JobPlugin[MpiArguments]):
    """Give the master the names of the workers: in ``MPI_HOST`` as a list, and in a hostfile, ``/etc/mpi/hostfile``.

    The hostfile follows when the job is scaled. Where the list is longer than a variable may be (128 KiB), it is left out
    and the hostfile serves.
    """

    name = "mpi"
    needs_pod_names = False
    implies = ("svc", "ssh")

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The port; for the master, the workers."""
        for container in containers(pod):
            add_port(container, PORT_NAME, self.arguments.port)
        worker = self.job.spec.task(self.arguments.worker)
        if worker is not None and task.name == self.arguments.master:
            hosts = ",".join(hosts_of(self.job, worker))
            if len(f"MPI_HOST={hosts}") <= LONGEST_VARIABLE:
                add_environment(pod, [{"name": "MPI_HOST", "value": hosts}])
            volume = {"name": self._hosts, "configMap": {"name": self._hosts}}
            add_volume(pod, volume, {"name": self._hosts, "mountPath": HOSTFILE_PATH})
        return pod

    def objects(self) -> Sequence[Needed]:
        """The hostfile, a line for each worker."""
        worker = self.job.spec.task(self.arguments.worker)
        if worker is None:
            return ()
        lines = [f"{host} slots={self.arguments.slots}\n" for host in hosts_of(self.job, worker)]
        return [self.config_map(self._hosts, {"hostfile": "".join(lines)})]

    @property
    def _hosts(self) -> str:
        return f"{self.job.metadata.name}-mpi"
