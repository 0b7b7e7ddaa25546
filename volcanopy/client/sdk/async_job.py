"""``AsyncJob``: submit a job, wait for it, read its logs, explain it, cancel it, in a coroutine.

It uses the client, the manifest and the functions of the command line.
"""

from __future__ import annotations

import asyncio
import builtins
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Self

from volcanopy.api import names
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.lifecycle import Action
from volcanopy.client.commands import CommandRequest, command_for
from volcanopy.client.durations import current_time
from volcanopy.client.explain.cluster_reads import job_facts
from volcanopy.client.explain.job import job_report
from volcanopy.client.jobs import status
from volcanopy.client.jobs.logs import ContainerLog, end_of_log, failure_log
from volcanopy.client.jobs.pods import pods_of
from volcanopy.client.jobs.wait import UnreachableError, goal, wait_until_job
from volcanopy.client.kinds import read
from volcanopy.client.sdk.connected import Connected, JobError, run
from volcanopy.client.sdk.notebook import job_html
from volcanopy.client.sdk.tasks import Amount, Task, check_types, job_body
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import COMMANDS, JOBS

if TYPE_CHECKING:
    from kubernetes.client import V1ObjectMeta, V1Pod


class AsyncJob:
    """A job, to use in a coroutine.

    ``command`` is the program of a pod as a list of strings, or use ``script``. Amounts are numbers (of CPUs, of bytes) or
    Kubernetes quantities. ``array`` is FIRST-LAST or FIRST-LAST%PARALLELISM, ``deadline`` a duration as ``2h``. ``here`` passes
    this directory and environment to a process node. ``template`` is used instead of a command and what it needs: a
    ``V1PodTemplateSpec``, ``V1PodSpec`` or ``V1Container`` of the package kubernetes, or a pod template as a dict. ``tasks`` is
    used instead of all these: tasks by name, which start together. ``plugins`` are those of jobs, such as ``svc`` and
    ``ssh=--ssh-port=2222``. The cluster is that of ``kubeconfig``, by default that of kubectl. Raises JobError for
    invalid values.
    """

    _lock = threading.Lock()
    """Of all jobs: a job without requests can be copied and pickled."""

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]] = (),
        *,
        name: str = "",
        image: str = "",
        script: Path | str | None = None,
        replicas: int = 1,
        minimum: int | None = None,
        cpu: Amount = "1",
        memory: Amount = "100Mi",
        gpus: int = 0,
        array: str = "",
        env: Mapping[str, str] | None = None,
        queue: str = "",
        deadline: str = "",
        here: bool = False,
        template: Any = None,
        tasks: Mapping[str, Task] | None = None,
        plugins: Sequence[str] = (),
        namespace: str = "",
        kubeconfig: Path | str | None = None,
    ) -> None:
        if tasks is None:
            single = Task(
                command=command,
                image=image,
                script=script,
                replicas=replicas,
                minimum=minimum,
                cpu=cpu,
                memory=memory,
                gpus=gpus,
                env=env or {},
                here=here,
                template=template,
            )
            tasks = {"main": single}
        elif command or image or script or template is not None:
            raise JobError("tasks: leave out command, image, script and template: each task has its own")
        self.manifest: Json = job_body(tasks, name=name, array=array, queue=queue, plugins=plugins, deadline=deadline)
        self._start(name, Connected(namespace, kubeconfig))

    def _start(self, name: str, connected: Connected) -> None:
        self.name = name
        self._connected = connected
        self._seen: BatchJob | None = None
        self._is_submitted = False

    @property
    def namespace(self) -> str:
        """Namespace of the job; empty before the first request if none was given."""
        return self._connected.namespace

    @property
    def last_phase(self) -> str:
        """The phase at the last request; empty before the first."""
        return status.shown_phase(self._seen) if self._seen is not None else ""

    @classmethod
    def _of_body(cls, body: Json, connected: Connected) -> Self:
        job = cls.__new__(cls)
        job.manifest = body
        job._start(body["metadata"]["name"], connected)
        job._is_submitted = True
        job._see(body)
        return job

    @classmethod
    async def attach(cls, name: str, *, namespace: str = "", kubeconfig: Path | str | None = None) -> Self:
        """Return a job that exists. Raises JobError."""
        check_types(str, "the name of a job", name=name)
        connected = Connected(namespace, kubeconfig)
        async with connected.client() as client:
            return cls._of_body(await client.get(JOBS, connected.namespace, name), connected)

    @classmethod
    async def list(
        cls, *, queue: str = "", phase: str = "", namespace: str = "", kubeconfig: Path | str | None = None
    ) -> builtins.list[Self]:
        """Return the jobs of the namespace by name, those of one queue or phase if given. Raises JobError."""
        connected = Connected(namespace, kubeconfig)
        async with connected.client() as client:
            goal_phase = status.phase_named(phase) if phase else ""
            listing = await client.list(JOBS, connected.namespace)
        jobs = [cls._of_body(body, connected) for body in listing.items]
        return sorted(
            (job for job in jobs if job._is_in(queue, goal_phase)),
            key=lambda job: job.name,
        )

    def _is_in(self, queue: str, phase: str) -> bool:
        assert self._seen is not None
        return queue in {"", status.queue(self._seen)} and phase in {"", status.phase(self._seen)}

    def _see(self, body: Json) -> BatchJob:
        self._seen = read(BatchJob, body)
        return self._seen

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[tuple[Client, Json]]:
        """Open a client, and read the job."""
        if not (self._is_submitted and self.name):
            raise JobError("the job is not submitted: call submit(), or Job.attach(NAME) for a job that exists")
        async with self._connected.client() as client:
            body = await client.get(JOBS, self.namespace, self.name)
            self._see(body)
            yield client, body

    async def submit(self) -> None:
        """Create the job; its name is in ``name`` afterwards. Raises JobError, also where it exists already."""
        with self._lock:
            if self._is_submitted:
                raise JobError(f'job "{self.name}" is submitted already: make a new one to run it again')
            self._is_submitted = True
        try:
            created = await self._connected.create(self.manifest)
        except BaseException:
            self._is_submitted = False
            raise
        self.name = self._see(created).metadata.name

    async def phase(self) -> str:
        """Return the phase. Raises JobError."""
        async with self._reading() as (_, body):
            return status.shown_phase(self._see(body))

    async def wait(self, until: str = "completed", timeout: float = 3600.0) -> str:
        """Wait for a phase, or ``finished``; return the phase.

        Raises JobError when it cannot be reached any more, with the end of the log of a pod that failed.
        """
        check_types((int, float), "seconds", timeout=timeout)
        async with self._reading() as (client, body):
            try:
                self._seen = await wait_until_job(client, body, goal(until), timeout)
            except UnreachableError as error:
                self._seen = error.job
                raise JobError(f"{error}{await failure_log(client, await pods_of(client, error.job))}") from None
            return status.shown_phase(self._seen)

    async def logs(self, tail: int | None = None) -> dict[str, str]:
        """Return the logs of the first container of every started pod, by pod name. Raises JobError."""
        check_types((int, NoneType), "a number of lines", tail=tail)
        async with self._reading() as (client, body):
            return {
                pod.metadata.name: await end_of_log(client, pod, tail)
                for pod in await pods_of(client, read(BatchJob, body))
                if ContainerLog(pod, pod.spec.containers[0].name).started
            }

    async def pods(self) -> builtins.list[V1Pod]:
        """Return the pods as models of the package kubernetes, by name. Raises JobError."""
        async with self._reading() as (_, body):
            return await asyncio.to_thread(self._official_pods, body["metadata"]["uid"])

    def _official_pods(self, uid: str) -> builtins.list[V1Pod]:
        from kubernetes.client import CoreV1Api  # noqa: PLC0415 - a fifth of a second

        from volcanopy.client import official_client  # noqa: PLC0415

        api = CoreV1Api(official_client.api_client(self._connected.kubeconfig))
        pods = api.list_namespaced_pod(self.namespace, label_selector=f"{names.JOB_NAME}={self.name}").items
        by_name = {
            pod.metadata.name or "": pod for pod in pods if pod.metadata is not None and _is_owned(pod.metadata, uid)
        }
        return [by_name[name] for name in sorted(by_name)]

    async def explain(self) -> str:
        """Return the sentence why the job does not run, or what became of it. Raises JobError."""
        async with self._reading() as (client, _):
            facts = await job_facts(client, self.namespace, self.name, "volcanopy-system")
            return job_report(facts).summary

    async def cancel(self, reason: str = "") -> None:
        """Terminate the job for good, and wait until nothing of it runs. Raises JobError."""
        async with self._reading() as (client, body):
            job = self._see(body)
            if job.status.state.phase in status.FINISHED:
                raise JobError(f'job "{self.name}" has ended: {status.summary(job)}')
            request = CommandRequest("terminate", reason, None)
            command = command_for(JOBS, body, self.namespace, request, str(Action.TERMINATE_JOB))
            await client.create(COMMANDS, self.namespace, command)
            self._seen = await wait_until_job(client, body, goal("finished"))

    async def html(self, tail: int = 5) -> str:
        """Return phase, reason, pods over time and the last log lines, for a notebook. Raises JobError."""
        async with self._reading() as (client, body):
            job = read(BatchJob, body)
            pods = await pods_of(client, job)
            first = next((pod for pod in pods if ContainerLog(pod, pod.spec.containers[0].name).started), None)
            try:
                text = await end_of_log(client, first, tail) if first is not None else ""
            except KubeError as error:
                text = str(error)
            return job_html(job, pods, text, current_time())

    def _repr_html_(self) -> str | None:
        """Show the job in a notebook as it is now; as text where it cannot be read."""
        try:
            return run(self.html)
        except JobError:
            return None

    def __repr__(self) -> str:
        kind = type(self).__name__
        if self._seen is None:
            return f'<{kind} "{self.name}": not submitted>' if self.name else f"<{kind}: not submitted>"
        job = self._seen
        return f'<{kind} "{self.name}": {status.shown_phase(job)}, {status.ready(job)} of {status.total(job)} pods>'


def _is_owned(metadata: V1ObjectMeta, uid: str) -> bool:
    return any(owner.uid == uid for owner in metadata.owner_references or ())
