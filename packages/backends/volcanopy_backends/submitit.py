"""submitit's executor ``volcanopy``: found by its entry points, chosen by ``AutoExecutor(folder, cluster="volcanopy")``.

Each submission is a BatchJob whose pods run submitit's own program on the folder, as a job of Slurm does.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from submitit.core import core, job_environment

from volcanopy.client.functions.pod_program import REQUEUE
from volcanopy.client.functions.storage import Storage, mount
from volcanopy.client.jobs.job_names import new_name
from volcanopy.client.jobs.program import literal, with_signal
from volcanopy.client.jobs.slurm import STATES
from volcanopy.client.sdk.connected import JobError
from volcanopy.client.sdk.job import Job

_PROGRAM = "{python} -u -m submitit.core._submit {folder} >{out}_log.out 2>{out}_log.err"
_PARAMETERS = frozenset(
    {"name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node", "queue"}
)


class VolcanopyInfoWatcher(core.InfoWatcher):
    """Reads the phases of all jobs with one request."""

    def update(self) -> None:
        """Read the states of the jobs that have not finished."""
        open_jobs = self._registered - self._finished
        if open_jobs:
            self._num_calls += 1
            phases = {job.name: job.last_phase for job in Job.list()}
            self._info_dict.update({name: {"State": STATES[phases[name]]} for name in open_jobs & phases.keys()})
        self._last_status_check = time.time()
        self._finished |= {name for name in open_jobs if self.is_done(name, mode="cache")}

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """Return the state of a job by Slurm's name."""
        return str(self.get_info(job_id, mode=mode).get("State") or "UNKNOWN")


class VolcanopyJob(core.Job[Any]):
    """A submission."""

    watcher = VolcanopyInfoWatcher(delay_s=10)

    def cancel(self, check: bool = True) -> None:
        """Terminate the job; with ``check``, raise JobError where it has ended."""
        try:
            Job.attach(self.job_id).cancel("cancelled by submitit")
        except JobError:
            if check:
                raise


class VolcanopyJobEnvironment(job_environment.JobEnvironment):
    """What submitit's program knows about its pod."""

    _env: ClassVar[dict[str, str]] = {
        "job_id": "SUBMITIT_VOLCANOPY_JOB",
        "num_tasks": "SUBMITIT_VOLCANOPY_TASKS",
        "num_nodes": "SUBMITIT_VOLCANOPY_NODES",
        "global_rank": "VC_TASK_INDEX",
    }

    @property
    def node(self) -> int:
        """The rank of the node: each has as many tasks as the others."""
        return self.global_rank // (self.num_tasks // self.num_nodes)

    @property
    def local_rank(self) -> int:
        """The rank on the node."""
        return self.global_rank % (self.num_tasks // self.num_nodes)

    def _requeue(self, countdown: int) -> None:
        """End the pod with the code for which it is created again."""
        sys.exit(REQUEUE)


class VolcanopyExecutor(core.PicklingExecutor):
    """Submits to the cluster of kubectl.

    ``folder`` is a folder that this program and the pods see: with ``volcanopy_image``, on the PersistentVolumeClaim
    ``volcanopy_claim``; without an image the pods are processes of this machine. The parameters are submitit's, and ``queue``.
    """

    job_class = VolcanopyJob

    def __init__(
        self,
        folder: Path | str,
        max_num_timeout: int = 3,
        max_pickle_size_gb: float = 1.0,
        python: str | None = None,
        image: str = "",
        claim: str = "",
    ) -> None:
        super().__init__(folder, max_num_timeout, max_pickle_size_gb)
        self._throttling = 0.0
        self._image, self._claim = image, claim
        self._python = python or ("python3" if image else sys.executable)
        if image and not claim:
            raise JobError("volcanopy_claim: name the PersistentVolumeClaim that has the folder")

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return set(_PARAMETERS)

    @classmethod
    def affinity(cls) -> int:
        """Return 2, as for a cluster, where a cluster is named, else 0: only on request."""
        return 2 if os.environ.get("KUBECONFIG") else 0

    def _num_tasks(self) -> int:
        return int(self.parameters.get("nodes", 1)) * int(self.parameters.get("tasks_per_node", 1))

    def _submit_command(self, command: str) -> VolcanopyJob:
        name = new_name(self.parameters.get("name", ""), "submitit")
        job = VolcanopyJob(self.folder, name, list(range(self._num_tasks())))
        folder = str(job.paths.folder)
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._job(name, folder).submit()
        return job

    def _job(self, name: str, folder: str) -> Job:
        get = self.parameters.get
        tasks_per_node = int(get("tasks_per_node", 1))
        variables = {
            "SUBMITIT_EXECUTOR": self.name(),
            "SUBMITIT_VOLCANOPY_JOB": name,
            "SUBMITIT_VOLCANOPY_TASKS": str(self._num_tasks()),
            "SUBMITIT_VOLCANOPY_NODES": str(get("nodes", 1)),
        }
        files = f'{shlex.quote(f"{folder}/{name}_")}"$VC_TASK_INDEX"'
        command = _PROGRAM.format(python=shlex.quote(self._python), folder=shlex.quote(folder), out=files)
        job = Job(
            ["sh", "-c", literal(with_signal(command, "kill -USR2 $!"))],  # at which submitit checkpoints
            name=name,
            image=self._image,
            here=not self._image,
            replicas=self._num_tasks(),
            cpu=get("cpus_per_task", 1),
            memory=int(get("mem_gb", 0.1) * 2**30 / tasks_per_node),
            gpus=int(get("gpus_per_node", 0)) // tasks_per_node,
            env=variables,
            queue=get("queue", ""),
            deadline=f"{60 * float(minutes):.0f}s" if (minutes := get("timeout_min")) else "",
            plugins=["env"],
        )
        spec = job.manifest["spec"]
        task = spec["tasks"][0]
        task["policies"] = [{"exitCode": REQUEUE, "action": "RestartPod"}]
        spec["maxRetry"] = max(3, self.max_num_timeout)
        mount(task["template"]["spec"], Storage(folder, self._claim))
        return job

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        raise NotImplementedError

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        raise NotImplementedError

    @staticmethod
    def _get_job_id_from_submission_command(string: bytes | str) -> str:
        raise NotImplementedError
