"""Functions as jobs on process nodes: results and exceptions back, arrays, futures, checkpoints."""

import contextlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks
from volcanopy import Checkpoint, Executor, Job, JobError
from volcanopy.client.functions import pod_program
from volcanopy.client.functions.executor import store_calls
from volcanopy.client.functions.storage import Storage


@pytest.fixture(scope="module")
def executor(processes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    """An executor with its store."""
    with Executor(tmp_path_factory.mktemp("store"), cpu=0.1, kubeconfig=processes) as made:
        yield made


def test_a_function_of_the_program_returns_its_result(executor: Executor) -> None:
    factor = 3

    def scaled(number: int, *, offset: int) -> int:
        return factor * number + offset

    call = executor.submit(scaled, 4, offset=1)
    assert call.result(timeout=120) == 13
    assert call.state == "Succeeded"
    assert call.job.phase() in {"Running", "Completing", "Completed"}


def test_an_exception_of_the_function_is_raised_with_its_traceback(executor: Executor) -> None:
    def divide(number: int) -> float:
        return 1 / number

    call = executor.submit(divide, 0)
    with pytest.raises(ZeroDivisionError) as caught:
        call.result(timeout=120)
    assert "in divide" in "".join(caught.value.__notes__)
    assert call.job.wait("finished", timeout=120) == "Failed"


def test_an_array_returns_the_results_in_order(executor: Executor) -> None:
    assert list(executor.map(pow, [2, 3, 4], [5, 2, 1], timeout=120)) == [32, 9, 4]


def test_one_failed_call_of_an_array_leaves_the_others(executor: Executor) -> None:
    calls = executor.submit_array(divmod, [6, 6, 6], [1, 0, 2], parallelism=2)
    futures.wait(calls, timeout=120)
    assert [calls[0].result(), calls[2].result()] == [(6, 0), (3, 0)]
    assert isinstance(calls[1].exception(), ZeroDivisionError)


def test_a_pod_that_ends_without_an_outcome_says_why(executor: Executor) -> None:
    def end() -> None:
        print("out of paper", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(JobError, match=r"(?s)Failed.*out of paper"):
        executor.submit(end).result(timeout=120)


class Unreadable(Exception):
    """An exception that pickle cannot make again, as many libraries have."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


async def later(number: int) -> int:
    return number + 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Unreadable(3, "out of paper"), r"Unreadable\('3: out of paper'\); the Unreadable cannot be pickled"),
        (RuntimeError(threading.Lock()), "the RuntimeError cannot be pickled"),
        ((number for number in range(3)), "the generator cannot be pickled: .*: return data, such as a list"),
        (threading.Lock(), "the lock cannot be pickled"),
    ],
    ids=["exception of two arguments", "exception with a lock", "generator", "lock"],
)
def test_every_outcome_can_be_read_and_names_what_it_could_not_carry(value: object, message: str) -> None:
    _, content = pod_program.pickled(not isinstance(value, Exception), value, 2**20)
    returned, error = pickle.loads(content)
    assert not returned
    assert re.search(message, str(error)), str(error)
    assert any("In the pod" in note for note in getattr(error, "__notes__", ())) == isinstance(value, Exception)


def test_a_coroutine_function_runs_to_its_end(executor: Executor) -> None:
    assert executor.submit(later, 2).result(timeout=120) == 3  # type: ignore[comparison-overlap]


def test_a_call_beyond_its_memory_says_so(executor: Executor) -> None:
    with pytest.raises(JobError, match=r"OOMKilled.*more memory than that of its Executor"):
        executor.submit(bytearray, 2**30).result(timeout=120)


def test_calls_of_an_array_that_end_without_an_outcome_have_the_exit_codes_of_their_pods(executor: Executor) -> None:
    calls = executor.submit_array(os._exit, [3, 4])
    errors = [str(call.exception(timeout=120)) for call in calls]
    assert [error.rpartition(": ")[2] for error in errors] == ["Error, exit code 3", "Error, exit code 4"]


def test_a_block_that_raises_leaves_its_jobs_and_names_them(processes: Path, tmp_path: Path) -> None:
    """Ctrl-C while a call waits must not wait for the call."""
    executor = Executor(tmp_path, cpu=4000, kubeconfig=processes)
    call, interrupt = executor.submit(abs, -1), KeyboardInterrupt()
    with contextlib.suppress(KeyboardInterrupt), executor:
        raise interrupt
    assert call.element.job in "".join(interrupt.__notes__)
    assert not call.done()
    call.cancel()
    executor.shutdown()


def test_a_variable_of_another_type_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"^env\['B'\]: None is of type NoneType: use a string$"):
        Executor(tmp_path, env={"B": None})  # type: ignore[dict-item]


@pytest.mark.parametrize("options", [{"gpus": 1.5}, {"kubeconfig": "/of/nobody"}])
def test_an_error_names_the_argument_and_no_option_of_the_command_line(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(JobError, match=r"gpu: '1.5' is not an integer|kubeconfig") as caught:
        Executor(tmp_path, **options).submit(abs, -1)
    assert "--" not in str(caught.value)


def test_a_waiting_call_says_why_and_can_be_cancelled(processes: Path, tmp_path: Path) -> None:
    with Executor(tmp_path, cpu=4000, kubeconfig=processes) as executor:
        call = executor.submit(abs, -1)
        job = call.job
        job.wait("pending", timeout=60)
        with pytest.raises(TimeoutError, match=r"FunctionJob abs-.*: Pending"):
            call.result(timeout=1)
        assert call.cancel()
        assert call.state == "Cancelled"
        assert job.phase() == "Terminated"


def test_a_shutdown_cancels_calls_that_wait_or_run_and_terminates_their_jobs(processes: Path, tmp_path: Path) -> None:
    executor = Executor(tmp_path, cpu=0.1, kubeconfig=processes)
    calls = [executor.submit(time.sleep, 1000), *executor.submit_array(time.sleep, [1000, 1000], parallelism=1)]
    calls[0].job.wait("running", timeout=120)
    assert repr(executor) == f'<Executor "{tmp_path}": 3 open calls>'
    executor.shutdown(cancel_futures=True)
    assert [call.state for call in calls] == ["Cancelled"] * 3
    with pytest.raises(futures.CancelledError):
        calls[1].result(timeout=1)
    assert {call.job.wait("finished", timeout=120) for call in calls} == {"Terminated"}


def test_another_program_attaches_to_a_submission(executor: Executor, processes: Path) -> None:
    call = executor.submit(abs, -7)
    with Executor(executor.folder, kubeconfig=processes) as other:
        assert other.attach(call.element.job)[0].result(timeout=120) == 7
        with pytest.raises(JobError, match="has no submission nothing"):
            other.attach("nothing")


def test_a_call_continues_from_its_checkpoint_in_a_new_pod(executor: Executor) -> None:
    def count() -> list[str]:
        checkpoint = Checkpoint()
        runs: list[str] = [*checkpoint.load(default=[]), uuid.uuid4().hex]
        checkpoint.save(runs)
        if len(runs) < 3:
            checkpoint.requeue()
        return runs

    assert len(set(executor.submit(count).result(timeout=120))) == 3


def test_the_example_of_the_docs_runs(
    processes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(processes))
    texts = [block.text for block in blocks(ROOT / "docs/python.md") if "import Executor" in block.text]
    assert len(texts) == 1
    exec(compile(texts[0], "docs/python.md", "exec"), {"__name__": "__main__"})
    assert all(2.9 < float(line) < 3.4 for line in capsys.readouterr().out.split())


def test_a_checkpoint_notices_that_its_program_is_to_end(tmp_path: Path) -> None:
    earlier = signal.getsignal(signal.SIGTERM)
    try:
        checkpoint = Checkpoint(tmp_path)
        requested = [checkpoint.requested]
        os.kill(os.getpid(), signal.SIGTERM)
        assert [*requested, checkpoint.requested] == [False, True]
    finally:
        signal.signal(signal.SIGTERM, earlier)
    with pytest.raises(SystemExit, match="85"):
        checkpoint.requeue()


def test_a_store_with_a_url_keeps_files_too() -> None:
    pod_program.write("memory://functions/job", "state", b"content")
    assert pod_program.read("memory://functions/job", "state") == b"content"
    assert Checkpoint("memory://functions/job", "other").load(default=5) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [({"python": "2.7"}, "the function was pickled by Python 2.7: use an image"), ({"maximum": 3}, "of 3 allowed")],
)
def test_a_pod_that_cannot_call_the_function_says_so(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    storage = Storage(str(tmp_path))
    store_calls(storage, "job", "executor", abs, [((-1,), {})])
    store = storage.of("job")
    about = {**json.loads(pod_program.read(store, pod_program.ABOUT)), **change}
    pod_program.write(store, pod_program.ABOUT, json.dumps(about).encode())
    environment = {**os.environ, pod_program.STORE: store, pod_program.INDEX: "0"}
    ended = subprocess.run([sys.executable, pod_program.__file__], env=environment, check=False, capture_output=True)
    assert ended.returncode == 1
    returned, error = pickle.loads(pod_program.read(store, pod_program.outcome_name(0)))
    assert not returned
    assert message in str(error)


async def test_a_call_is_awaited_and_is_not_an_argument_of_another_one(executor: Executor) -> None:
    call = executor.submit(abs, -2)
    with pytest.raises(ValueError, match=r"the arguments of abs cannot be pickled: .*use its result\(\)"):
        executor.submit(abs, call)  # type: ignore[arg-type]
    with pytest.raises(JobError, match="timeout: '60' is of type str: use seconds"):
        call.result("60")  # type: ignore[arg-type]
    assert await call == 2


def test_a_large_argument_and_one_that_cannot_be_pickled_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the arguments of len: 1,\d+ bytes, of 100 allowed"):
        Executor(tmp_path, maximum_size=100).submit(len, b"x" * 1000)
    with pytest.raises(ValueError, match="the arguments of print cannot be pickled"):
        Executor(tmp_path).submit(print, threading.Lock())


def test_an_executor_that_is_not_used_starts_no_thread(tmp_path: Path) -> None:
    threads = threading.active_count()
    with Executor(tmp_path) as executor:
        assert executor.submit_array(abs, []) == []
        assert threading.active_count() == threads
    assert repr(executor) == f'<Executor "{tmp_path}": 0 open calls, shut down>'


def test_an_executor_that_is_deleted_closes_its_connections(processes: Path, tmp_path: Path) -> None:
    program = f"""
import gc
import threading
from volcanopy import Executor

print(Executor({str(tmp_path)!r}, cpu=0.1, kubeconfig={str(processes)!r}).submit(abs, -3).result(timeout=400))
gc.collect()
for thread in threading.enumerate():
    if thread.name == "volcanopy-executor":
        thread.join(timeout=60)
"""
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", program]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "3\n", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu": "lots"}, "cpu: 'lots'"),
        ({"memory": -1}, "memory: '-1' is negative"),
        ({"deadline": "soon"}, "deadline: 'soon'"),
        ({"maximum_size": "10M"}, "maximum_size: '10M' is of type str: use a number of bytes"),
    ],
)
def test_an_invalid_value_of_an_executor_is_named_at_once(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(JobError, match=f"^{message}"):
        Executor(tmp_path, **options)


def test_an_executor_calls_functions_only(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'ls' is no function: use volcanopy.Job for a command"):
        Executor(tmp_path).submit("ls")  # type: ignore[arg-type]


def test_an_image_needs_a_place_that_its_pods_see(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="claim: name the PersistentVolumeClaim"):
        Executor(tmp_path, image="python:3.11")


def test_a_function_is_no_command_and_text_is_no_list() -> None:
    with pytest.raises(JobError, match=r"command: this is a function: use volcanopy.Executor\(\).submit"):
        Job(len)  # type: ignore[arg-type]
    with pytest.raises(JobError, match=r"command: 'sleep 1' is one string: use a list, as \['sleep', '1'\]"):
        Job("sleep 1", image="busybox")
