"""Runs of a comparison: each configuration with each seed, in parallel, continued after an interruption."""

import hashlib
import json
import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from volcanopy.api.config_file import ConfigError
from volcanopy.client.errors import CommandError
from volcanopy.installed.scheduler_plugins import registry
from volcanopy.lab.reports.source import SimulationInput
from volcanopy.lab.simulate.engine import Options, SimulationError, Simulator
from volcanopy.lab.simulate.outcome import Outcome
from volcanopy.lab.simulate.workload import WorkloadError
from volcanopy.scheduler.policy.config import parse

_INTERVAL = 0.25
"""Seconds of processor time between reports of progress."""


@dataclass(frozen=True)
class SimulationRun:
    """A run: what is simulated, under which configuration."""

    source: SimulationInput
    config: str
    options: Options

    @property
    def key(self) -> str:
        """Identity of the run: its results are used again while this is the same."""
        text = json.dumps([asdict(self.source), self.config, asdict(self.options)], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


def simulate(task: SimulationRun, progress: Callable[[float], None] = lambda _: None) -> Outcome:
    """Run a task; ``progress`` is called with the part of the jobs that has ended. Raises CommandError."""
    given = task.source.read(task.options.seed)
    name = task.options.configuration
    try:
        known = registry()
        simulator = Simulator(given.objects, given.jobs, parse(task.config, known), task.options, known)
        begin = last = time.process_time()
        for _ in simulator.steps():
            if time.process_time() - last > _INTERVAL:
                last = time.process_time()
                progress(len(simulator.records.ended) / max(len(given.jobs), 1))
        outcome = simulator.outcome()
    except ConfigError as error:
        raise CommandError(f"configuration {name}: {error}") from None
    except (SimulationError, WorkloadError) as error:
        raise CommandError(f"configuration {name}, seed {task.options.seed}: {error}") from None
    return replace(outcome, cpu_seconds=time.process_time() - begin)


class FinishedRuns:
    """The outcomes of finished runs in a file, a line each: an interrupted comparison goes on from there."""

    def __init__(self, path: Path | None) -> None:
        """Read the file, if there is one. Raises CommandError."""
        self._path = path
        self.outcomes: dict[str, Outcome] = {}
        if path is None or not path.exists():
            return
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                entry = msgspec.json.decode(line)
                self.outcomes[entry["key"]] = msgspec.convert(entry["outcome"], Outcome)
            except (msgspec.MsgspecError, KeyError, TypeError):
                raise CommandError(
                    f"--resume: line {number} of {path} is no finished run: delete the file, or name another"
                ) from None

    def add(self, task: SimulationRun, outcome: Outcome) -> None:
        """Add an outcome, and write it."""
        self.outcomes[task.key] = outcome
        if self._path is None:
            return
        try:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode({"key": task.key, "outcome": outcome}) + b"\n")
        except OSError as error:
            raise CommandError(f"--resume: cannot write {self._path}: {error.strerror}", 2) from None


def run_all(
    tasks: Sequence[SimulationRun], finished: FinishedRuns, processes: int, progress: Callable[[float], None]
) -> list[Outcome]:
    """Run the tasks that are not finished, in as many processes; return all outcomes in the order of the tasks."""
    missing = [task for task in tasks if task.key not in finished.outcomes]
    if processes > 1 and len(missing) > 1:
        _parallel(missing, finished, processes, progress)
    else:
        for number, task in enumerate(missing):

            def note(part: float, done: int = number) -> None:
                progress((done + part) / len(missing))

            finished.add(task, simulate(task, note))
    progress(1.0)
    return [finished.outcomes[task.key] for task in tasks]


_parts: Any = None
"""In a worker: the progress of all runs, shared with the parent process."""


def _share(parts: Any) -> None:
    global _parts  # noqa: PLW0603
    _parts = parts


def _in_worker(number: int, task: SimulationRun) -> Outcome:
    def note(part: float) -> None:
        _parts[number] = part

    outcome = simulate(task, note)
    note(1.0)
    return outcome


def _parallel(
    tasks: Sequence[SimulationRun], finished: FinishedRuns, processes: int, progress: Callable[[float], None]
) -> None:
    context = multiprocessing.get_context("spawn")
    parts = context.Array("d", len(tasks), lock=False)
    workers = min(processes, len(tasks))
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_share, initargs=(parts,)) as pool:
        running: dict[Future[Outcome], SimulationRun] = {
            pool.submit(_in_worker, number, task): task for number, task in enumerate(tasks)
        }
        try:
            while running:
                done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in done:
                    finished.add(running.pop(future), future.result())
                progress(_mean(parts))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _mean(parts: Iterable[float]) -> float:
    values = list(parts)
    return sum(values) / len(values)
