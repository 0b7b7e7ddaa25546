"""tensorflow: the pods of a job are one TensorFlow cluster, described in ``TF_CONFIG``."""

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated

from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json, Problem
from volcanopy.jobcontroller.plugins.plugin import Arguments, JobPlugin, Port, Role, add_environment, address_of

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
