"""Run times learnt from finished jobs, by queue, user and the name of the job without its trailing number.

A job of which no earlier run is known counts with the mean of the last two jobs of its user in its queue (Tsafrir, Etsion and
Feitelson, "Backfilling Using System-Generated Predictions Rather than User Runtime Estimates", TPDS 2007), else of the queue.

The estimate is a weighted quantile: three quarters of the weight of earlier runs lie at or below it, and a run weighs a fifth
less than the one after it. A single long run does not spoil it, and a change of the program shows after a few runs. The table
is bounded; the jobs that were not run for the longest time are forgotten first. The text of the table is JSON.
"""

import json
import re
from collections.abc import Iterable
from datetime import timedelta

from volcanopy.api import names
from volcanopy.api.batch import BatchJob, BatchJobStatus, Phase
from volcanopy.jobcontroller.deadline import EXCEEDED

RUNS = 16
"""Runs of a job, of a user and of a queue that are kept."""
JOBS = 2000
"""Jobs, users and queues that are kept."""
SIZE = 512 * 1024
"""The longest text of a table, in bytes."""
_QUANTILE = 0.75
_DECAY = 0.8
_OF_USER = 2
"""The last jobs of a user whose mean is expected of one that was never run."""
_NUMBER = re.compile(r"[-.]?[0-9]+$")

Key = tuple[str, str, str]
"""Queue, user and name without its number; of a job with alternatives ``name@alternative``.

The name is empty in the keys of all jobs of a user, and the user, too, in those of all jobs of a queue.
"""


def key_of(queue: str, user: str, name: str, alternative: str = "") -> Key:
    """Return the key of a job: ``train-17`` and ``train-18`` have the same."""
    stem = _NUMBER.sub("", name) or name
    return queue, user, f"{stem}@{alternative}" if alternative else stem


def job_key(job: BatchJob) -> Key:
    """Return the key of a job."""
    user = (job.metadata.annotations or {}).get(names.SUBMITTED_BY, "")
    selected = job.status.alternative
    return key_of(job.spec.queue, user, job.metadata.name, "" if selected is None else selected.name)


def run_of(status: BatchJobStatus) -> timedelta | None:
    """Return the mean time of the runs of a finished job, of which restarts begin others; None if it ended otherwise.

    A job that reached its deadline would have run at least as long.
    """
    state = status.state
    if state.phase is not Phase.COMPLETED and not (state.phase is Phase.FAILED and state.reason == EXCEEDED):
        return None
    return None if status.running_duration is None else status.running_duration / (status.retry_count + 1)


class LearntRunTimes:
    """The table: the last runs of each job in seconds, the jobs in the order of their last run."""

    def __init__(self, runs: Iterable[tuple[Key, list[int]]] = ()) -> None:
        self._runs: dict[Key, list[int]] = dict(runs)

    def __len__(self) -> int:
        return len(self._runs)

    def learn(self, key: Key, run: timedelta) -> None:
        """Add a run of a job, to those of its user and of its queue, too."""
        queue, user, _ = key
        for scope in dict.fromkeys((key, (queue, user, ""), (queue, "", ""))):
            runs = self._runs.pop(scope, [])
            self._runs[scope] = [*runs, max(round(run.total_seconds()), 1)][-RUNS:]
        while len(self._runs) > JOBS:
            del self._runs[next(iter(self._runs))]

    def estimate(self, key: Key) -> timedelta | None:
        """Return the estimate for a job; None if no run of it is known."""
        runs = self._runs.get(key, ())
        return timedelta(seconds=quantile(runs)) if runs else None

    def of_others(self, key: Key) -> timedelta | None:
        """Return what is expected of a job that was never run, from the last jobs of its user, or else of its queue."""
        queue, user, _ = key
        runs = self._runs.get((queue, user, ""), [])[-_OF_USER:] if user else []
        if len(runs) < _OF_USER:
            runs = self._runs.get((queue, "", ""), [])
        return timedelta(seconds=round(sum(runs) / len(runs))) if runs else None

    def dump(self) -> str:
        """Return the table as text, without the oldest jobs if it would be too long."""
        lines = [json.dumps([*key, runs], ensure_ascii=True) for key, runs in reversed(self._runs.items())]
        size, kept = 2, list[str]()
        for line in lines:
            size += len(line) + 2
            if size > SIZE:
                break
            kept.append(line)
        return "[" + ",\n".join(reversed(kept)) + "]"

    @classmethod
    def load(cls, text: str) -> "LearntRunTimes":
        """Return the table in a text. Raises ValueError."""
        rows = json.loads(text)
        if not isinstance(rows, list):
            raise ValueError("not a list")
        table = cls()
        for row in rows[-JOBS:]:
            match row:
                case [str(queue), str(user), str(name), [*runs]] if all(type(run) is int and run > 0 for run in runs):
                    table._runs[queue, user, name] = runs[-RUNS:]
                case _:
                    raise ValueError(f"not a row: {row!r:.80}")
        return table


def quantile(runs: Iterable[int]) -> int:
    """Return the weighted quantile of runs, the oldest first."""
    ordered = list(runs)
    weights = [_DECAY ** (len(ordered) - 1 - number) for number in range(len(ordered))]
    limit, reached = _QUANTILE * sum(weights), 0.0
    for run, weight in sorted(zip(ordered, weights, strict=True)):
        reached += weight
        if reached >= limit * (1 - 1e-12):
            return run
    return 0
