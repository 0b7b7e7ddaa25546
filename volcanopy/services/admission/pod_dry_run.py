"""Dry runs of pods on the API server, with a cache of the results.

Concurrent requests for the same pod share one dry run, and results about the pod itself are cached for some seconds. Rejections
that depend on the namespace or the moment are not cached.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Self

import msgspec
import structlog

from volcanopy.admission.context import DryRun, DryRunResult, MakePod
from volcanopy.api.batch import BatchJob, BatchJobStatus, TaskSpec
from volcanopy.api.model import Json, Problem
from volcanopy.jobcontroller.plugins.plugin import PluginError
from volcanopy.jobcontroller.plugins.registry import Registry, plugins_of
from volcanopy.jobcontroller.pods import maker
from volcanopy.kube import machine
from volcanopy.kube.cache.followed_kinds import PODS
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError, KubeError

log = structlog.get_logger(__name__)

DEADLINE = 3.0
"""Seconds for all dry runs of one object, within the webhook timeout of ten."""
KEPT = 10.0
"""Seconds for which a result is cached, short because a namespace may change its rules."""
MOST_KEPT = 4096
AT_ONCE = 16
"""Concurrent dry runs, over all objects."""
_LARGEST = 1024 * 1024


class PodDryRuns:
    """The dry runs of one server. ``clock`` returns monotonic seconds."""

    def __init__(
        self, client: Client, clock: Callable[[], float] = machine.monotonic, deadline: float = DEADLINE
    ) -> None:
        self._client, self._clock, self._deadline = client, clock, deadline
        self._kept: OrderedDict[bytes, tuple[float, DryRunResult]] = OrderedDict()
        self._running: dict[bytes, asyncio.Task[DryRunResult]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def answers(self, asked: Sequence[DryRun]) -> tuple[tuple[DryRun, DryRunResult], ...]:
        """Return each dry run with its result, when all are done or the time is over."""
        waiting: dict[int, asyncio.Task[DryRunResult]] = {}
        results: dict[int, DryRunResult] = {}
        for number, trial in enumerate(asked):
            answer = self._begin(trial)
            if isinstance(answer, DryRunResult):
                results[number] = answer
            else:
                waiting[number] = answer
        if waiting:
            await asyncio.wait(waiting.values(), timeout=self._deadline)
        late = DryRunResult(0, f"it did not answer within {self._deadline:g} s")
        results |= {number: task.result() if task.done() else late for number, task in waiting.items()}
        return tuple((trial, results[number]) for number, trial in enumerate(asked))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel running dry runs."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, trial: DryRun) -> DryRunResult | asyncio.Task[DryRunResult]:
        if isinstance(trial.pod, str):
            return DryRunResult(0, trial.pod)
        body = msgspec.json.encode(trial.pod, order="deterministic")
        if len(body) > _LARGEST:
            return DryRunResult(0, f"it has {len(body)} bytes: the limit is {_LARGEST}")
        key = hashlib.sha256(body).digest()
        if (kept := self._kept.get(key)) is not None:
            if kept[0] > self._clock():
                return kept[1]
            del self._kept[key]
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._ask(key, trial.pod["metadata"]["namespace"], body))
            task.add_done_callback(lambda _: self._running.pop(key))
        return task

    async def _ask(self, key: bytes, namespace: str, body: bytes) -> DryRunResult:
        try:
            async with asyncio.timeout(self._deadline), self._slots:
                answer = DryRunResult(
                    201, warnings=await self._client.try_create(PODS.raw, namespace, body, deadline=self._deadline)
                )
        except ApiError as error:
            causes = (error.details and error.details.causes) or ()
            answer = DryRunResult(
                error.code, error.message, tuple(Problem(cause.field, cause.message) for cause in causes if cause.field)
            )
        except KubeError as fault:
            log.warning("pod dry run failed", error=str(fault))
            answer = DryRunResult(0, str(fault))
        except TimeoutError:
            answer = DryRunResult(0, f"it did not answer within {self._deadline:g} s")
        if answer.code in {201, 422}:
            self._kept[key] = (self._clock() + KEPT, answer)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return answer


def pod_maker(registry: Registry) -> MakePod:
    """Return a function that builds the first pod of a task as the job controller does, with these plugins."""

    def of_job(job: BatchJob) -> Callable[[TaskSpec], Json | str]:
        try:
            plugins = plugins_of(job, registry)
        except PluginError:
            return lambda _: ""  # reported by the check of plugins
        except Exception as error:
            problem = _failed(job, error)
            return lambda _: problem

        def made(task: TaskSpec) -> Json | str:
            try:
                return maker(job, BatchJobStatus(), task, plugins)(0)
            except Exception as error:
                return _failed(job, error)

        return made

    return of_job


def _failed(job: BatchJob, error: Exception) -> str:
    """Return the error of a plugin or template as a message, since neither may stop the review."""
    log.error("pod not built for dry run", namespace=job.metadata.namespace, exc_info=error)
    return f"no pod can be made of the template: {type(error).__name__}: {error}"
