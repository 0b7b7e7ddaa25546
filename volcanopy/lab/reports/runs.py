"""Runs of a comparison: each configuration with each seed, in parallel."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace

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


def _parallel(tasks: Sequence[SimulationRun], processes: int, progress: Callable[[float], None]) -> list[Outcome]:
    workers = min(processes, len(tasks))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        runs = [pool.submit(simulate, task) for task in tasks]
        try:
            for number, run in enumerate(as_completed(runs), start=1):
                run.result()
                progress(number / len(tasks))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [run.result() for run in runs]
