"""pytorch: the pods of a job meet by ``torch.distributed``'s ``env://`` rendezvous."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

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

PORT_NAME = "pytorchjob-port"
WAITING = "wait-for-master"


class PytorchArguments(Arguments):
    """Arguments of pytorch."""

    master: Annotated[str, Role(required=True)] = "master"
    """The task whose first pod the others meet at."""
    worker: Annotated[str, Role()] = "worker"
    """The task of the workers."""
    port: Port = 23456
    """The port that the master listens on."""
    wait_master_enabled: bool = False
    """Whether workers start only when the master answers."""
    wait_master_timeout: Annotated[int, Field(ge=1)] = 300
    """How many seconds they wait before they fail."""
    wait_master_image: str = "busybox:1.36.1"
    """The image of the container that waits."""


class Pytorch(JobPlugin[PytorchArguments]):
    """Give every container the place of the rendezvous, how many take part in it, and its own rank.

    Ranks are counted through: the masters' first, then the workers'. Pods of other tasks get no rank.
    """

    name = "pytorch"
    needs_pod_names = False
    implies = ("svc",)
    idle_without_tasks = True

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The port and the environment; for workers, if requested, a container that waits for the master."""
        for container in containers(pod, initial=False):
            add_port(container, PORT_NAME, self.arguments.port)
        entries = [*self._place(), {"name": "WORLD_SIZE", "value": str(self._size(self.arguments.worker))}]
        if task.name == self.arguments.master:
            entries.append({"name": "RANK", "value": str(index)})
        elif task.name == self.arguments.worker:
            entries.append({"name": "RANK", "value": str(self._masters + index)})
        add_environment(pod, entries, initial=False)
        if self.arguments.wait_master_enabled and task.name == self.arguments.worker:
            self._wait(pod)
        return pod

    @property
    def _masters(self) -> int:
        return self._master.replicas

    @property
    def _master(self) -> TaskSpec:
        master = self.job.spec.task(self.arguments.master)
        assert master is not None
        return master

    def _size(self, worker: str) -> int:
        return sum(task.replicas for task in self.job.spec.tasks if task.name in {self.arguments.master, worker})

    def _place(self) -> Iterator[Json]:
        yield {"name": "MASTER_ADDR", "value": address_of(self.job, self._master, 0)}
        yield {"name": "MASTER_PORT", "value": str(self.arguments.port)}

    def _wait(self, pod: Json) -> None:
        before = pod["spec"].get("initContainers") or ()
        if any(container["name"] == WAITING for container in before):
            return
        waiting = {
            "name": WAITING,
            "image": self.arguments.wait_master_image,
            "command": ["sh", "-c", wait_script(self.arguments.wait_master_timeout)],
            "env": list(self._place()),
            "resources": _modest((pod["spec"].get("containers") or [{}])[0].get("resources") or {}),
        }
        pod["spec"]["initContainers"] = [*before, waiting]


def wait_script(seconds: int) -> str:
    """What the waiting container runs: knock every two seconds, by nc or, where there is none, by the shell itself.

    It prints the first line of nc's errors: that the name does not resolve, or that nc has no option ``-z``.
    """
    return "\n".join(
        (
            'master="$MASTER_ADDR:$MASTER_PORT"',
            f"end=$(($(date +%s) + {seconds}))",
            "newline='",
            "'",
            'until error=$(nc -z -w 2 "$MASTER_ADDR" "$MASTER_PORT" 2>&1) ||',
            '  (: < "/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; do',
            '  error="${error%%"$newline"*}"',
            '  if [ "$(date +%s)" -ge "$end" ]; then',
            f'    echo "$master has not answered for {seconds} seconds${{error:+: $error}}"',
            "    exit 1",
            "  fi",
            '  echo "waiting for $master${error:+: $error}"',
            "  sleep 2",
            "done",
            'echo "$master answers"',
        )
    )


def _modest(resources: Json) -> Json:
    """The cpu and memory of a container: requested before it, they cost nothing, and the pod keeps its quality of service."""
    return {
        kind: modest
        for kind in ("limits", "requests")
        if (modest := {name: given for name, given in (resources.get(kind) or {}).items() if name in {"cpu", "memory"}})
    }
