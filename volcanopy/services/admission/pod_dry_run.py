"""Has the API server look at pods that are not to be kept, and remembers what it said.

A pod is asked about once: whoever asks for the same while the answer is on its way waits for it, and what was said of the
pod itself counts for some seconds. What a namespace or the moment had against it is asked again each time.
"""

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import msgspec

from volcanopy.admission.context import DryRun, DryRunResult, MakePod
from volcanopy.api.batch import BatchJob, BatchJobStatus, TaskSpec
from volcanopy.api.model import Json, Problem
from volcanopy.jobcontroller.plugins.plugin import PluginError
from volcanopy.jobcontroller.plugins.registry import Registry, plugins_of
from volcanopy.jobcontroller.pods import pod
from volcanopy.kube.cache.followed_kinds import PODS
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError, KubeError

log = logging.getLogger(__name__)

DEADLINE = 3.0
"""Seconds for all trials of one object: well within the ten that the API server waits for us."""
KEPT = 10.0
"""Seconds for which an answer counts: jobs that come in swarms come quickly, and a namespace may change its rules."""
MOST_KEPT = 4096
AT_ONCE = 16
"""Trials that are under way at the same time, for whichever objects."""
_LARGEST = 1024 * 1024


class PodDryRuns:
    """Asks, for all reviews of one server. ``clock`` gives seconds that only grow."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic, deadline: float = DEADLINE) -> None:
        self._client, self._clock, self._deadline = client, clock, deadline
        self._kept: OrderedDict[bytes, tuple[float, DryRunResult]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[DryRunResult]] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    async def answers(self, asked: Sequence[DryRun]) -> tuple[tuple[DryRun, DryRunResult], ...]:
        """Each trial with what is said of it, once all is said or the time is over."""
        waiting: dict[int, asyncio.Task[DryRunResult]] = {}
        found: dict[int, DryRunResult] = {}
        for number, trial in enumerate(asked):
            answer = self._begin(trial)
            if isinstance(answer, DryRunResult):
                found[number] = answer
            else:
                waiting[number] = answer
        if waiting:
            await asyncio.wait(waiting.values(), timeout=self._deadline)
        late = DryRunResult(0, f"it did not answer within {self._deadline:g} s")
        found |= {number: task.result() if task.done() else late for number, task in waiting.items()}
        return tuple((trial, found[number]) for number, trial in enumerate(asked))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give up what is under way."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, trial: DryRun) -> DryRunResult | asyncio.Task[DryRunResult]:
        if isinstance(trial.pod, str):
            return DryRunResult(0, trial.pod)
        body = msgspec.json.encode(trial.pod, order="deterministic")
        if len(body) > _LARGEST:
            return DryRunResult(0, f"it has {len(body)} bytes: {_LARGEST} can be tried")
        key = hashlib.sha256(body).digest()
        if (kept := self._kept.get(key)) is not None:
            if kept[0] > self._clock():
                return kept[1]
            del self._kept[key]
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(key, trial.pod["metadata"]["namespace"], body))
            task.add_done_callback(lambda _: self._asking.pop(key))
        return task

    async def _ask(self, key: bytes, namespace: str, body: bytes) -> DryRunResult:
        try:
            async with asyncio.timeout(self._deadline), self._room:
                answer = DryRunResult(
                    201, warnings=await self._client.try_create(PODS.raw, namespace, body, deadline=self._deadline)
                )
        except ApiError as error:
            causes = (error.details and error.details.causes) or ()
            answer = DryRunResult(
                error.code, error.message, tuple(Problem(one.field, one.message) for one in causes if one.field)
            )
        except KubeError as fault:
            log.warning("the API server cannot be asked about a pod: %s", fault)
            answer = DryRunResult(0, str(fault))
        except TimeoutError:
            answer = DryRunResult(0, f"it did not answer within {self._deadline:g} s")
        if answer.code in {201, 422}:
            self._kept[key] = (self._clock() + KEPT, answer)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return answer


def pod_maker(registry: Registry) -> MakePod:
    """Makes the first pod of a task as the job controller does, with these plugins."""

    def of_job(job: BatchJob) -> Callable[[TaskSpec], Json | str]:
        try:
            plugins = plugins_of(job, registry)
        except PluginError:
            return lambda _: ""  # the check of plugins tells it
        except Exception as error:
            told = _failed(job, error)
            return lambda _: told

        def made(task: TaskSpec) -> Json | str:
            try:
                return pod(job, BatchJobStatus(), task, 0, plugins)
            except Exception as error:
                return _failed(job, error)

        return made

    return of_job


def _failed(job: BatchJob, error: Exception) -> str:
    """Plugins are others' code as well, and a template may be anything: that is told, and no reason not to answer."""
    log.error("no pods can be tried for a job in namespace %s", job.metadata.namespace, exc_info=error)
    return f"no pod can be made of the template: {type(error).__name__}: {error}"
