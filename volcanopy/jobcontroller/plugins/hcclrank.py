"""hcclrank: pods with Ascend NPUs know their rank by an annotation."""

from typing import Annotated

from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json
from volcanopy.jobcontroller.plugins.plugin import Arguments, JobPlugin, Role

RANK = "hccl/rankIndex"
"""The annotation that Ascend's device plugin reads."""


class HcclrankArguments(Arguments):
    """Arguments of hcclrank."""

    master: Annotated[str, Role()] = "master"
    """The task of the masters."""
    worker: Annotated[str, Role()] = "worker"
    """The task of the workers."""


class Hcclrank(JobPlugin[HcclrankArguments]):
    """Annotate each pod with its rank: that in a container's ``RANK``, else masters counted first, then workers."""

    name = "hcclrank"
    needs_pod_names = False

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The annotation, where there is none yet and the pod has a rank."""
        notes = pod["metadata"].setdefault("annotations", {})
        rank = _given(pod) or self._counted(task, index)
        if rank and not notes.get(RANK):
            notes[RANK] = rank
        return pod

    def _counted(self, task: TaskSpec, index: int) -> str:
        if task.name == self.arguments.master:
            return str(index)
        if task.name == self.arguments.worker:
            master = self.job.spec.task(self.arguments.master)
            return str((master.replicas if master else 0) + index)
        return ""


def _given(pod: Json) -> str:
    entries = (entry for variable in pod["spec"].get("containers") or () for entry in variable.get("env") or ())
    return next((entry["value"] for entry in entries if entry.get("name") == "RANK" and entry.get("value")), "")
