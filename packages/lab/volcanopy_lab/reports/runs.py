"""Runs of a comparison: each configuration with each seed, in parallel."""

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from volcanopy.api.config_file import ConfigError
from volcanopy.client.errors import CommandError
from volcanopy.installed.scheduler_plugins import registry
from volcanopy.scheduler.policy.config import parse
from volcanopy_lab.reports.source import SimulationInput
from volcanopy_lab.simulate.engine import Options, SimulationError, Simulator
from volcanopy_lab.simulate.outcome import Outcome
from volcanopy_lab.simulate.workload import WorkloadError

_INTERVAL = 0.25
"""Seconds of processor time between reports of progress."""


@dataclass(frozen=True)
class SimulationRun:
    """A run: what is simulated, under which configuration."""

    source: SimulationInput
    config: str
    options: Options


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


def run_all(tasks: Sequence[SimulationRun], processes: int, progress: Callable[[float], None]) -> list[Outcome]:
    """Run the tasks in as many processes; return their outcomes in the order of the tasks."""
    if processes > 1 and len(tasks) > 1:
        return _parallel(tasks, processes, progress)
    outcomes = []
    for number, task in enumerate(tasks):

        def note(part: float, done: int = number) -> None:
            progress((done + part) / len(tasks))

        outcomes.append(simulate(task, note))
    progress(1.0)
    return outcomes


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


def _parallel(tasks: Sequence[SimulationRun], processes: int, progress: Callable[[float], None]) -> list[Outcome]:
    context = multiprocessing.get_context("spawn")
    parts = context.Array("d", len(tasks), lock=False)
    workers = min(processes, len(tasks))
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_share, initargs=(parts,)) as pool:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # workers inherit this: Ctrl-C is for the parent
        runs = [pool.submit(_in_worker, number, task) for number, task in enumerate(tasks)]
        signal.signal(signal.SIGINT, handler)
        try:
            running = set(runs)
            while running:
                done, running = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for run in done:
                    run.result()
                progress(_mean(parts))
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()  # this ends the pool, for which the end of the block waits
            raise
    return [run.result() for run in runs]


def _mean(parts: Iterable[float]) -> float:
    values = list(parts)
    return sum(values) / len(values)
