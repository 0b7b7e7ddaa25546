"""The outcomes of calls as their pods end: one watch of jobs and one of pods for all calls of an executor."""

import asyncio
import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import InvalidStateError
from contextlib import suppress
from typing import Any

from volcanopy.api import names
from volcanopy.api.batch_read import BatchJob
from volcanopy.client.functions import pod_program
from volcanopy.client.functions.function_job import FunctionJob
from volcanopy.client.functions.storage import Storage
from volcanopy.client.jobs.logs import failure_log
from volcanopy.client.jobs.pods import Pod, index_of, pods_of
from volcanopy.client.jobs.status import FINISHED, phase, reason, summary
from volcanopy.client.kinds import read, readable
from volcanopy.client.sdk.connected import JobError
from volcanopy.client.watch import Changes, watch_objects
from volcanopy.kube.cache.watch import ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS, PODS

_ENDED = frozenset({"Succeeded", "Failed"})


class Observer:
    """Observes the calls of one executor until all have ended."""

    def __init__(self, connect: Callable[[], Client], namespace: str, label: str, storage: Storage) -> None:
        self._connect, self._namespace, self._storage = connect, namespace, storage
        self._selector = f"{names.EXECUTOR}={label}"
        self._calls: dict[str, dict[int, FunctionJob[Any]]] = {}
        self._changed_jobs: dict[str, tuple[BatchJob, bool]] = {}
        self._changed_pods: list[Pod] = []
        self._added = asyncio.Event()

    def add(self, calls: Iterable[FunctionJob[Any]]) -> None:
        """Observe calls of jobs that exist."""
        for call in calls:
            self._calls.setdefault(call.element.job, {})[call.index] = call
        self._added.set()

    async def run(self) -> None:
        """Observe until cancelled. An error that ends the watch becomes the exception of all calls."""
        try:
            async with self._connect() as client:
                while True:
                    await self._added.wait()
                    await self._watch(client)
        except KubeError as error:
            for call in [call for calls in self._calls.values() for call in calls.values()]:
                self._end(call, JobError(str(error)))

    async def _watch(self, client: Client) -> None:
        """Watch until no call is open."""
        async with (
            watch_objects(client, JOBS, self._namespace, selector=self._selector, take=self._take_jobs) as watched,
            watch_objects(
                client, PODS, self._namespace, selector=self._selector, take=self._take_pods, also=watched
            ) as pods,
        ):
            while self._calls:
                await self._settle(client, pods.objects)
                if self._calls:
                    await watched.changed()
        self._added.clear()

    def _take_jobs(self, changes: Changes) -> None:
        for change in changes:
            job = read(BatchJob, change.object)
            self._changed_jobs[job.metadata.name] = (job, change.type is ChangeType.DELETED)

    def _take_pods(self, changes: Changes) -> None:
        self._changed_pods += readable(Pod, (change.object for change in changes))

    async def _settle(self, client: Client, pods: dict[str, Json]) -> None:
        """Take what changed: outcomes of pods that ended, and of the open calls of jobs that finished."""
        pods_to_settle, self._changed_pods = self._changed_pods, []
        for pod in pods_to_settle:
            call = self._calls.get(pod.label(names.JOB_NAME), {}).get(index_of(pod))
            if call is not None and pod.status.phase in _ENDED:
                await self._take_outcome(call)
            elif call is not None and pod.status.phase == "Running":
                call.observe("Running", "")
        jobs, self._changed_jobs = self._changed_jobs, {}
        for name, (job, deleted) in jobs.items():
            finished = deleted or phase(job) in FINISHED
            for call in list(self._calls.get(name, {}).values()):
                if finished:
                    await self._take_outcome(call)
                    await self._end_without_outcome(client, call, job, deleted=deleted)
                elif call.state == "Pending":
                    call.observe("Pending", reason(job))

    async def _take_outcome(self, call: FunctionJob[Any]) -> None:
        """End a call whose outcome is in the store."""
        try:
            content = await asyncio.to_thread(
                pod_program.read, self._storage.of(call.element.job), pod_program.outcome_name(call.index)
            )
        except FileNotFoundError:
            return
        try:
            returned, value = await asyncio.to_thread(pickle.loads, content)
        except Exception as error:
            returned, value = False, JobError(f"{call.element.job}: the outcome cannot be read: {error!r}")
        self._end(call, None if returned else value, value)

    async def _end_without_outcome(
        self, client: Client, call: FunctionJob[Any], job: BatchJob, *, deleted: bool
    ) -> None:
        if call.done():
            return
        pods = [] if deleted else [pod for pod in await pods_of(client, job) if index_of(pod) == call.index]
        cause = next((end for pod in pods if call.element.count > 1 and (end := _end_of(pod))), summary(job))
        text = f'job "{call.element.job}" was deleted' if deleted else f'job "{call.element.job}": {cause}'
        if "OOMKilled" in text:
            text += ": more memory than that of its Executor"
        text += await failure_log(client, pods)
        self._end(call, JobError(text))

    def _end(self, call: FunctionJob[Any], error: BaseException | None, value: Any = None) -> None:
        calls = self._calls.get(call.element.job, {})
        calls.pop(call.index, None)
        if not calls:
            self._calls.pop(call.element.job, None)
        with suppress(InvalidStateError):  # it was cancelled
            if error is None:
                call.observe("Succeeded", "")
                call.set_result(value)
            else:
                call.observe("Failed", str(error))
                call.set_exception(error)


def _end_of(pod: Pod) -> str:
    """Return how the program of a pod ended; empty if it has not."""
    ends = (status.state.terminated for status in pod.status.container_statuses)
    return next((f"pod {pod.metadata.name}: {end.cause}, exit code {end.exit_code}" for end in ends if end), "")
