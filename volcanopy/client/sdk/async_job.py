"""``Job`` and ``AsyncJob``: submit a job of equal pods, wait for it, read its logs, explain it, cancel it.

Both use the client, the manifest and the functions of the command line.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from volcanopy.api import names
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.lifecycle import Action
from volcanopy.client.commands import CommandRequest, command_for
from volcanopy.client.errors import CommandError
from volcanopy.client.explain.cluster_reads import job_facts
from volcanopy.client.explain.job import job_report
from volcanopy.client.jobs.logs import ContainerLog, log_path
from volcanopy.client.jobs.manifest import manifest
from volcanopy.client.jobs.options import JobOptions, LogOptions
from volcanopy.client.jobs.pods import pods_of
from volcanopy.client.jobs.status import FINISHED, message, shown_phase
from volcanopy.client.jobs.wait import goal, wait_until_job
from volcanopy.client.kinds import read
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import COMMANDS, JOBS

if TYPE_CHECKING:
    from kubernetes.client import V1ObjectMeta, V1Pod

T = TypeVar("T")


def with_trace_context(manifest: Json) -> None:
    """Annotate a job with the trace that it is submitted in, if the program uses OpenTelemetry."""
    if "opentelemetry" not in sys.modules:
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    if carrier:
        manifest["metadata"].setdefault("annotations", {})[names.TRACEPARENT] = carrier["traceparent"]


class JobError(Exception):
    """The request was rejected, the job ended otherwise than awaited, or the time is over; the message is the reason."""


@asynccontextmanager
async def _errors() -> AsyncIterator[None]:
    try:
        yield
    except (CommandError, KubeError) as error:
        raise JobError(str(error)) from error


class AsyncJob:
    """A job of equal pods, to use in a coroutine.

    ``command`` is the program of a pod, or use ``script``. Amounts are Kubernetes quantities. ``array`` is FIRST-LAST or
    FIRST-LAST%PARALLELISM. ``here`` passes this directory and environment to a process node. The cluster is that of
    ``kubeconfig``, by default that of kubectl. Raises JobError for invalid values.

    ``template`` is used instead of a command and what it needs: a ``V1PodTemplateSpec``, ``V1PodSpec`` or ``V1Container`` of
    the package kubernetes, or a pod template as a dict.
    """

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        name: str = "",
        image: str = "",
        script: Path | str | None = None,
        replicas: int = 1,
        minimum: int | None = None,
        cpu: str = "1",
        memory: str = "100Mi",
        gpus: int = 0,
        array: str = "",
        env: Mapping[str, str] | None = None,
        queue: str = "",
        here: bool = False,
        template: Any = None,
        namespace: str = "",
        kubeconfig: Path | str | None = None,
    ) -> None:
        if template is not None and (command or image or script or gpus or env or here):
            raise JobError("template: leave out command, image, script, gpus, env and here: the template has them")
        options = JobOptions(
            image=image if template is None else "template",
            arguments=list(command),
            name=name,
            script=Path(script) if script is not None else None,
            replicas=replicas,
            minimum=minimum,
            cpu=cpu,
            memory=memory,
            gpus=gpus,
            array=array,
            env=[f"{key}={value}" for key, value in (env or {}).items()],
            queue=queue,
            here=here,
        )
        try:
            self.manifest: Json = manifest(options)
            if template is not None:
                from volcanopy.client.official_client import pod_template  # noqa: PLC0415 - a fifth of a second

                self.manifest["spec"]["tasks"][0]["template"] = pod_template(template)
        except (CommandError, TypeError) as error:
            raise JobError(str(error)) from None
        self.name, self.namespace = name, namespace
        self._kubeconfig = Path(kubeconfig) if kubeconfig is not None else None

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        async with _errors():
            connection = await asyncio.to_thread(load_connection, self._kubeconfig)
            self.namespace = self.namespace or connection.namespace
            async with Client(connection) as client:
                yield client

    async def _read(self, client: Client) -> Json:
        if not self.name:
            raise JobError("the job is not submitted")
        return await client.get(JOBS, self.namespace, self.name)

    async def submit(self) -> None:
        """Create the job; its name is in ``name`` afterwards. Raises JobError."""
        with_trace_context(self.manifest)
        async with self._client() as client:
            created = await client.create(JOBS, self.namespace, self.manifest)
            self.name = str(created["metadata"]["name"])

    async def phase(self) -> str:
        """Return the phase. Raises JobError."""
        async with self._client() as client:
            return shown_phase(read(BatchJob, await self._read(client)))

    async def wait(self, until: str = "completed", timeout: float = 3600.0) -> str:
        """Wait for a phase, or ``finished``; return the phase. Raises JobError when it cannot be reached any more."""
        async with self._client() as client:
            job = await wait_until_job(client, await self._read(client), goal(until), timeout)
            return shown_phase(job)

    async def logs(self, tail: int | None = None) -> dict[str, str]:
        """Return the logs of the first container of every started pod, by pod name. Raises JobError."""
        async with self._client() as client:
            job = read(BatchJob, await self._read(client))
            texts = {}
            for pod in await pods_of(client, job):
                source = ContainerLog(pod, pod.spec.containers[0].name)
                if source.started:
                    path = log_path(source, LogOptions(tail=tail), follow=False)
                    texts[pod.metadata.name] = (await client.get_raw(path)).decode(errors="replace")
            return texts

    async def pods(self) -> list[V1Pod]:
        """Return the pods as models of the package kubernetes, by name. Raises JobError."""
        async with self._client() as client:
            job = await self._read(client)
            return await asyncio.to_thread(self._official_pods, job["metadata"]["uid"])

    def _official_pods(self, uid: str) -> list[V1Pod]:
        from kubernetes.client import CoreV1Api  # noqa: PLC0415 - a fifth of a second

        from volcanopy.client import official_client  # noqa: PLC0415

        api = CoreV1Api(official_client.api_client(self._kubeconfig))
        pods = api.list_namespaced_pod(self.namespace, label_selector=f"{names.JOB_NAME}={self.name}").items
        by_name = {
            pod.metadata.name or "": pod for pod in pods if pod.metadata is not None and _is_owned(pod.metadata, uid)
        }
        return [by_name[name] for name in sorted(by_name)]

    async def explain(self) -> str:
        """Return the sentence why the job does not run, or what became of it. Raises JobError."""
        async with self._client() as client:
            facts = await job_facts(
                client, self.namespace, (await self._read(client))["metadata"]["name"], "volcanopy-system"
            )
            return job_report(facts).summary

    async def cancel(self, reason: str = "") -> None:
        """Terminate the job for good, and wait until nothing of it runs. Raises JobError."""
        async with self._client() as client:
            body = await self._read(client)
            job = read(BatchJob, body)
            if job.status.state.phase in FINISHED:
                raise JobError(f'job "{self.name}" has ended: {shown_phase(job)} {message(job)}'.rstrip())
            request = CommandRequest("terminate", reason, None)
            command = command_for(JOBS, body, self.namespace, request, str(Action.TERMINATE_JOB))
            await client.create(COMMANDS, self.namespace, command)
            await wait_until_job(client, body, goal("finished"))


def _is_owned(metadata: V1ObjectMeta, uid: str) -> bool:
    return any(owner.uid == uid for owner in metadata.owner_references or ())


class Job:
    """A job of equal pods, to use in a program without coroutines; the arguments are those of :class:`AsyncJob`."""

    def __init__(self, command: Sequence[str] = (), **options: Any) -> None:
        self._job = AsyncJob(command, **options)

    @property
    def name(self) -> str:
        """Name of the job; empty before it is submitted without one."""
        return self._job.name

    @property
    def manifest(self) -> Json:
        """The BatchJob that is submitted."""
        return self._job.manifest

    def submit(self) -> Job:
        """Create the job; return it. Raises JobError."""
        _run(self._job.submit)
        return self

    def phase(self) -> str:
        """Return the phase. Raises JobError."""
        return _run(self._job.phase)

    def wait(self, until: str = "completed", timeout: float = 3600.0) -> str:
        """Wait for a phase, or ``finished``; return the phase. Raises JobError when it cannot be reached any more."""
        return _run(lambda: self._job.wait(until, timeout))

    def logs(self, tail: int | None = None) -> dict[str, str]:
        """Return the logs of the first container of every started pod, by pod name. Raises JobError."""
        return _run(lambda: self._job.logs(tail))

    def pods(self) -> list[V1Pod]:
        """Return the pods as models of the package kubernetes, by name. Raises JobError."""
        return _run(self._job.pods)

    def explain(self) -> str:
        """Return the sentence why the job does not run, or what became of it. Raises JobError."""
        return _run(self._job.explain)

    def cancel(self, reason: str = "") -> None:
        """Terminate the job for good, and wait until nothing of it runs. Raises JobError."""
        _run(lambda: self._job.cancel(reason))


def _run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(work())
