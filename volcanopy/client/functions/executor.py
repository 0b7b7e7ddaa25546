"""``Executor``: functions as jobs, with their results and exceptions back.

The model is ``concurrent.futures.Executor``; files in a folder or object store carry functions and results, as in submitit.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent import futures
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import cloudpickle

from volcanopy.api import names
from volcanopy.api.quantity import counted
from volcanopy.client.functions import pod_program
from volcanopy.client.functions.function_job import Element, FunctionJob
from volcanopy.client.functions.observer import Observer
from volcanopy.client.functions.storage import Storage, folder_of, mount
from volcanopy.client.jobs.job_names import new_name
from volcanopy.client.jobs.manifest import manifest
from volcanopy.client.jobs.options import JobOptions, RestartOption
from volcanopy.client.jobs.program import Array, literal
from volcanopy.client.progress import progress
from volcanopy.client.sdk.connected import Connected, JobError, job_errors
from volcanopy.client.sdk.job import Job
from volcanopy.client.sdk.tasks import Amount, amount, check_types, variables
from volcanopy.kube.client.kinds import Json

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of a function, by position and by name."""


def store_calls(storage: Storage, job: str, executor: str, function: Callable[..., Any], calls: Sequence[Call]) -> None:
    """Write the function and its arguments. Raises ValueError where they cannot be pickled or are too large."""
    name = getattr(function, "__name__", repr(function))
    files = {pod_program.FUNCTION: _pickled(function, f"function {name}", storage)}
    for index, call in enumerate(calls):
        files[pod_program.arguments_name(index)] = _pickled(call, f"the arguments of {name}", storage)
    about = {
        "python": pod_program.version(),
        "maximum": storage.maximum,
        "executor": executor,
        "count": len(calls),
    }
    for file, content in (*files.items(), (pod_program.ABOUT, json.dumps(about).encode())):
        pod_program.write(storage.of(job), file, content)


def _pickled(value: object, subject: str, storage: Storage) -> bytes:
    try:
        content: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise ValueError(f"{subject} cannot be pickled: {error}") from error
    if len(content) > storage.maximum:
        fix = "write the data to a volume, and pass its path"
        raise ValueError(f"{subject}: {len(content):,} bytes, of {storage.maximum:,} allowed: {fix}")
    return content


def job_manifest(storage: Storage, options: JobOptions, array: Array, job: str, python: str, executor: str) -> Json:
    """Return the array job that calls the function of a submission. Raises CommandError for invalid options."""
    text = Path(pod_program.__file__).read_text(encoding="utf-8")
    parallelism = "" if array.parallelism is None else f"%{array.parallelism}"
    complete = replace(
        options,
        name=job,
        arguments=[python, "-c", literal(text)],
        array=f"{array.first}-{array.last}{parallelism}",
        env=[*(options.env or ()), f"{pod_program.STORE}={storage.of(job)}"],
        label=[f"{names.EXECUTOR}={executor}"],
        restart=RestartOption.Never,
    )
    body = manifest(complete)
    task = body["spec"]["tasks"][0]
    task["policies"] = [{"exitCode": pod_program.REQUEUE, "action": "RestartPod"}]
    mount(task["template"]["spec"], storage)
    return body


P = ParamSpec("P")
T = TypeVar("T")


class Executor(futures.Executor):
    """Runs Python functions as jobs; each call is a pod.

    ``folder`` keeps functions and results: a directory that this program and the pods see, or a URL of fsspec
    (``s3://bucket/path``). Without ``image`` the pods are processes of this machine, with this Python, directory and
    environment. With an image, ``claim`` is the PersistentVolumeClaim that pods mount at the folder, and ``python`` the
    program in the image. ``cpu``, ``memory`` and ``gpus`` are those of one call; ``deadline`` as ``2h`` is that of a submission.
    On a terminal a wait shows what it waits for, unless ``show_progress`` is false, as for a program with bars of its own.
    Invalid values and errors of the cluster are JobError.
    """

    def __init__(
        self,
        folder: Path | str = "volcanopy-functions",
        *,
        image: str = "",
        claim: str = "",
        python: str = "",
        cpu: Amount = "1",
        memory: Amount = "100Mi",
        gpus: int = 0,
        queue: str = "",
        deadline: str = "",
        env: dict[str, str] | None = None,
        maximum_size: int = Storage.maximum,
        show_progress: bool = True,
        namespace: str = "",
        kubeconfig: Path | str | None = None,
    ) -> None:
        check_types(str, "a string", image=image, claim=claim, python=python, queue=queue, deadline=deadline)
        check_types(int, "a number of bytes", maximum_size=maximum_size)
        with job_errors():
            self._storage = Storage(folder_of(folder), claim, maximum_size)
        if image and not claim and "://" not in self._storage.location:
            raise JobError("claim: name the PersistentVolumeClaim that has the folder, or use a URL as folder")
        self._python = python or ("python3" if image else sys.executable)
        self._options = JobOptions(
            image=image,
            here=not image,
            queue=queue,
            deadline=deadline or None,
            env=variables(env or {}),
            cpu=amount("cpu", cpu),
            memory=amount("memory", memory),
            gpus=gpus,
        )
        with job_errors():
            job_manifest(self._storage, self._options, Array(0, 0), "check", self._python, "check")
        self._connected = Connected(namespace, kubeconfig)
        self._label = secrets.token_hex(8)
        self._shows_progress = show_progress
        self._thread: _LoopThread | None = None
        self._observers: dict[str, tuple[Observer, asyncio.Task[None]]] = {}
        self._calls: list[FunctionJob[Any]] = []
        self._lock = threading.Lock()
        self._is_shut_down = False

    @property
    def folder(self) -> str:
        """The folder or URL with functions and results."""
        return self._storage.location

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> FunctionJob[T]:
        """Call a function in a job of one pod. Raises JobError, or ValueError where it cannot be pickled."""
        return self._submit(fn, [(args, kwargs)], None)[0]

    def submit_array(
        self, fn: Callable[..., T], *iterables: Iterable[Any], parallelism: int | None = None
    ) -> list[FunctionJob[T]]:
        """Call a function once for each element, in one array job, so many calls at a time. Raises as ``submit``."""
        calls: list[Call] = [(arguments, {}) for arguments in zip(*iterables, strict=False)]
        return self._submit(fn, calls, parallelism) if calls else []

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """Return the results of an array of calls in its order, as ``concurrent.futures`` does; the chunk size is 1."""
        calls = self.submit_array(fn, *iterables)
        return (call.result(timeout) for call in calls)

    def attach(self, job: str) -> list[FunctionJob[Any]]:
        """Return the calls of an earlier submission, of this or another program, whose folder this is. Raises JobError."""
        try:
            about = json.loads(pod_program.read(self._storage.of(job), pod_program.ABOUT))
        except FileNotFoundError:
            raise JobError(f"{self._storage.location} has no submission {job}") from None
        return self._observe(job, about["count"], about["executor"])

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Shut down, and wait for the calls unless the block raised an error, such as by Ctrl-C: then their jobs go on."""
        jobs = dict.fromkeys(call.element.job for call in self._calls if not call.done())
        if error is not None and jobs:
            error.add_note(f"volcanopy: these jobs go on, attach(NAME) returns their calls: {', '.join(jobs)}")
        self.shutdown(wait=error is None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; wait for the submitted ones, or cancel those that have not ended and terminate their jobs."""
        with self._lock:
            self._is_shut_down = True
        open_calls = [call for call in self._calls if not call.done()]
        if cancel_futures:
            for call in open_calls:
                call.mark_cancelled()
            for name in {call.element.job for call in open_calls}:
                self._open_job(name).cancel("its executor was shut down")
        if wait or cancel_futures:
            with progress(lambda: repr(self)) if self._shows_progress and open_calls else nullcontext():
                futures.wait(open_calls)
        if wait and self._thread is not None:
            self._thread.stop()
            self._thread.join()
            self._thread = None

    def _submit(self, fn: Callable[..., T], calls: Sequence[Call], parallelism: int | None) -> list[FunctionJob[T]]:
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("the executor was shut down")
        if not callable(fn):
            raise TypeError(f"{fn!r} is no function: use volcanopy.Job for a command")
        name = new_name(getattr(fn, "__name__", type(fn).__name__), "function")
        with job_errors():
            body = job_manifest(
                self._storage, self._options, Array(0, len(calls) - 1, parallelism), name, self._python, self._label
            )
        store_calls(self._storage, name, self._label, fn, calls)
        self._run(self._connected.create(body))
        return self._observe(name, len(calls), self._label)

    def _observe(self, job: str, count: int, label: str) -> list[FunctionJob[Any]]:
        calls: list[FunctionJob[Any]] = [
            FunctionJob(Element(job, index, count), self._open_job, self._shows_progress) for index in range(count)
        ]
        with self._lock:
            self._calls = [call for call in self._calls if not call.done()] + calls
        self._run(self._add(label, calls))
        return calls

    async def _add(self, label: str, calls: list[FunctionJob[Any]]) -> None:
        """Observe calls; runs in the loop's thread."""
        await self._connected.load()
        if label not in self._observers or self._observers[label][1].done():
            observer = Observer(self._connected.new_client, self._connected.namespace, label, self._storage)
            self._observers[label] = (observer, asyncio.create_task(observer.run()))
        self._observers[label][0].add(calls)

    def _open_job(self, name: str) -> Job:
        return Job.attach(name, namespace=self._connected.namespace, kubeconfig=self._connected.kubeconfig)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop of this executor, whose thread starts with the first one."""
        with self._lock:
            if self._thread is None:
                self._thread = _LoopThread(self._observers)
                weakref.finalize(self, self._thread.stop).atexit = False
        try:
            return asyncio.run_coroutine_threadsafe(work, self._thread.loop).result()
        except JobError as error:
            raise error.with_traceback(None) from None

    def __repr__(self) -> str:
        calls = counted(sum(not call.done() for call in self._calls), "open call")
        return f'<Executor "{self.folder}": {calls}{", shut down" if self._is_shut_down else ""}>'


class _LoopThread(threading.Thread):
    """Runs an event loop until it is stopped, also when its executor is deleted; then it cancels what runs.

    It refers to the tasks so that they live as long, but not to the executor.
    """

    def __init__(self, tasks: object) -> None:
        super().__init__(name="volcanopy-executor", daemon=True)
        self._tasks = tasks
        self._runner = asyncio.Runner()
        self.loop = self._runner.get_loop()
        self.start()

    def stop(self) -> None:
        """End the thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)

    def run(self) -> None:
        """Run the loop."""
        with self._runner:
            self.loop.run_forever()
