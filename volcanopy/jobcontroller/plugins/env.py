"""env: every container learns which replica of its task it is."""

from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json
from volcanopy.jobcontroller.plugins.plugin import Arguments, JobPlugin, add_environment

VARIABLES = ("VK_TASK_INDEX", "VC_TASK_INDEX")
"""The names that programs written for Volcano look for."""


class EnvArguments(Arguments):
    """env takes no arguments."""


class Env(JobPlugin[EnvArguments]):
    """Give every container the index of its pod within its task, in the environment."""

    name = "env"

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The index, under both names."""
        add_environment(pod, [{"name": name, "value": str(index)} for name in VARIABLES])
        return pod
