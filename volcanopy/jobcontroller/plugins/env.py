"""env: every container gets the index of its pod within its task."""

from typing import Annotated

from pydantic import Field

from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json
from volcanopy.jobcontroller.plugins.plugin import Arguments, JobPlugin, add_environment

VARIABLES = ("VK_TASK_INDEX", "VC_TASK_INDEX")
"""The names that programs written for Volcano look for."""
ARRAY_INDEX = "VC_ARRAY_INDEX"
"""The index of a job array, which may start with any number."""


class EnvArguments(Arguments):
    """Arguments of env."""

    first_index: Annotated[int, Field(ge=0)] = 0
    """With it, VC_ARRAY_INDEX counts from this number."""


class Env(JobPlugin[EnvArguments]):
    """Give every container the index of its pod within its task, in the environment."""

    name = "env"
    needs_pod_names = False

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The index, under both names, and that of a job array."""
        values = dict.fromkeys(VARIABLES, index)
        if "first_index" in self.arguments.model_fields_set:
            values[ARRAY_INDEX] = index + self.arguments.first_index
        add_environment(pod, [{"name": name, "value": str(value)} for name, value in values.items()])
        return pod
