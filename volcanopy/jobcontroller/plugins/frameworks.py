"""The plugins of machine learning frameworks: each pod learns where the others are and which of them it is.

tensorflow: the pods of a job are one cluster, described in ``TF_CONFIG``. pytorch: they meet by ``torch.distributed``'s
``env://`` rendezvous. jax, paddle: the pods of a task are the processes of one program, which meet at its first pod.
"""

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, ClassVar, TypeVar

from pydantic import Field

from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json, Problem
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


def add_ports(pod: Json, name: str, number: int) -> None:
    """Add a port to the containers that run."""
    for container in containers(pod, initial=False):
        add_port(container, name, number)


ROLES = ("ps", "worker", "chief", "evaluator")
"""The parts that TensorFlow knows, in the order in which ``TF_CONFIG`` lists them."""


class TensorflowArguments(Arguments):
    """Arguments of tensorflow."""

    ps: Annotated[str, Role()] = "ps"
    """The task of the parameter servers."""
    worker: Annotated[str, Role()] = "worker"
    """The task of the workers."""
    chief: Annotated[str, Role()] = "chief"
    """The task of the chief."""
    evaluator: Annotated[str, Role()] = "evaluator"
    """The task of the evaluator."""
    port: Port = 2222
    """The port that the servers listen on."""


class Tensorflow(JobPlugin[TensorflowArguments]):
    """Describe the cluster to every container, and the part that its pod plays in it.

    A job of a single pod is no cluster, and is left as it is.
    """

    name = "tensorflow"
    needs_pod_names = False
    implies = ("svc",)

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """``TF_CONFIG``, in the containers that run."""
        if not self._alone:
            kind = self._roles.get(task.name, task.name)
            part = json.dumps({"type": kind, "index": index}, separators=(",", ":"))
            value = f'{{"cluster":{self._cluster},"task":{part}}}'
            add_environment(pod, [{"name": "TF_CONFIG", "value": value}], initial=False)
        return pod

    def problems(self) -> Iterable[Problem]:
        """Return a problem if no task has a role."""
        if not self._roles and not self._alone:
            yield self.problem(f"none of its tasks is one of {', '.join(ROLES)}: name one, for example with --worker")

    @property
    def _alone(self) -> bool:
        return len(self.job.spec.tasks) == 1 and self.job.spec.replicas <= 1

    @cached_property
    def _roles(self) -> Mapping[str, str]:
        """The role of each task that has one."""
        named = {getattr(self.arguments, role): role for role in ROLES}
        return {task.name: named[task.name] for task in self.job.spec.tasks if task.name in named}

    @cached_property
    def _cluster(self) -> str:
        addresses = {
            self._roles[task.name]: [
                f"{address_of(self.job, task, index)}:{self.arguments.port}" for index in range(task.replicas)
            ]
            for task in self.job.spec.tasks
            if task.name in self._roles and task.replicas
        }
        return json.dumps({role: addresses[role] for role in ROLES if role in addresses}, separators=(",", ":"))


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
        add_ports(pod, "pytorchjob-port", self.arguments.port)
        entries = [*self._place(), {"name": "WORLD_SIZE", "value": str(self._size)}]
        if task.name == self.arguments.master:
            entries.append({"name": "RANK", "value": str(index)})
        elif task.name == self.arguments.worker:
            entries.append({"name": "RANK", "value": str(self._master.replicas + index)})
        add_environment(pod, entries, initial=False)
        if self.arguments.wait_master_enabled and task.name == self.arguments.worker:
            self._wait(pod)
        return pod

    @property
    def _master(self) -> TaskSpec:
        master = self.job.spec.task(self.arguments.master)
        assert master is not None
        return master

    @property
    def _size(self) -> int:
        parts = {self.arguments.master, self.arguments.worker}
        return sum(task.replicas for task in self.job.spec.tasks if task.name in parts)

    def _place(self) -> Iterator[Json]:
        yield {"name": "MASTER_ADDR", "value": address_of(self.job, self._master, 0)}
        yield {"name": "MASTER_PORT", "value": str(self.arguments.port)}

    def _wait(self, pod: Json) -> None:
        before = pod["spec"].get("initContainers") or ()
        if any(container.get("name") == WAITING for container in before):
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


class JaxArguments(Arguments):
    """Arguments of jax."""

    worker: Annotated[str, Role(required=True)] = "worker"
    """The task of the processes; its first pod is the coordinator."""
    port: Port = 6666
    """The port that the coordinator listens on."""


class PaddleArguments(Arguments):
    """Arguments of paddle."""

    worker: Annotated[str, Role(required=True)] = "worker"
    """The task of the nodes; its first pod is the master."""
    port: Port = 36767
    """The port that the master listens on."""


_Meeting = TypeVar("_Meeting", JaxArguments, PaddleArguments)


class _MeetingPlugin(JobPlugin[_Meeting]):
    """The pods of a task meet at its first pod."""

    needs_pod_names = False
    implies = ("svc",)
    port_name: ClassVar[str]

    @abstractmethod
    def environment(self, task: TaskSpec, index: int) -> Mapping[str, str]:
        """The variables of a pod of the task."""

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The environment, and the port of the first pod."""
        if task.name == self.arguments.worker:
            if index == 0:
                add_ports(pod, self.port_name, self.arguments.port)
            values = self.environment(task, index)
            add_environment(pod, [{"name": name, "value": value} for name, value in values.items()], initial=False)
        return pod


class Jax(_MeetingPlugin[JaxArguments]):
    """Give every process the coordinator's address, the number of processes and its own.

    ``jax.distributed.initialize`` reads the address itself; it is handed the numbers as ``num_processes`` and ``process_id``.
    """

    name = "jax"
    port_name = "jax-coordinator"

    def environment(self, task: TaskSpec, index: int) -> Mapping[str, str]:
        """The coordinator's address, the number of processes and the own one."""
        return {
            "JAX_COORDINATOR_ADDRESS": f"{address_of(self.job, task, 0)}:{self.arguments.port}",
            "JAX_NUM_PROCESSES": str(task.replicas),
            "JAX_PROCESS_ID": str(index),
        }


class Paddle(_MeetingPlugin[PaddleArguments]):
    """Give every node the master's address, the number of nodes and its own rank, as the launcher reads them.

    The launcher serves as the master where the master's address is its own, which it knows as an IP only: so the first node
    gets its IP, the others the name.
    """

    name = "paddle"
    port_name = "paddle-master"

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The environment, and the master's port."""
        if task.name == self.arguments.worker:
            address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
            add_environment(pod, [address], initial=False)
        return super().pod(pod, task, index)

    def environment(self, task: TaskSpec, index: int) -> Mapping[str, str]:
        """The master's address, the number of nodes and the own rank."""
        return {
            "PADDLE_MASTER": f"{address_of(self.job, task, 0) if index else '$(POD_IP)'}:{self.arguments.port}",
            "PADDLE_NNODES": str(task.replicas),
            "PADDLE_RANK": str(index),
            "PADDLE_JOB_ID": self.job.metadata.name,
        }
