"""Measures of several configurations side by side: as a table or JSON."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from volcanopy.api.model import Json
from volcanopy.cli.framework.tables import plain_table
from volcanopy.client.durations import span
from volcanopy_lab.simulate.measures import Interval, Measures, measure, over_seeds
from volcanopy_lab.simulate.outcome import Outcome


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:,.1f}"


def _part(value: float) -> str:
    return f"{100 * value:.1f}"


def _ratio(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


MEASURES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "jobs": ("Jobs", _count),
    "never_started": ("Jobs that never started", _count),
    "mean_wait": ("Mean wait", span),
    "longest_wait": ("Longest wait", span),
    "mean_bounded_slowdown": ("Mean bounded slowdown", _ratio),
    "utilisation": ("CPU utilisation, %", _part),
    "gpu_utilisation": ("GPU utilisation, %", _part),
    "gpu_allocation": ("GPU allocation at the end, %", _part),
    "makespan": ("Makespan", span),
    "fairness_distance": ("Distance from fair shares, %", _part),
    "slowest": ("Longest wait / bound", _ratio),
    "starved": ("Starved jobs", _count),
    "evictions": ("Evicted pods", _count),
    "thrash": ("Evictions in return", _count),
    "lost": ("Work lost, %", _part),
    "fragmentation": ("Fragmentation, %", _part),
    "events_per_second": ("Events per second", _count),
}
"""The title of each measure, and its text."""
_REASONS = 3
"""The most reasons that are stated for jobs that did not start."""
_NAMES_AND_NUMBERS = re.compile(r'"[^"]*"|\d+\S*')
_OF_STARTED_JOBS = ("mean_wait", "mean_bounded_slowdown")
"""Measures that have no value while no job has started."""
_ONLY_IF_THERE = ("never_started", "gpu_utilisation", "gpu_allocation", "starved", "thrash")


_NOT_COMPARED = frozenset({"jobs", "events_per_second"})
_MORE_IS_BETTER = frozenset({"utilisation", "gpu_utilisation", "gpu_allocation"})
_EQUAL = 0.01
"""Part of a value up to which another one counts as equal."""


@dataclass(frozen=True)
class Comparison:
    """The outcomes of each configuration over the seeds."""

    outcomes: Mapping[str, Sequence[Outcome]]

    @property
    def measures(self) -> dict[str, list[Measures]]:
        """The measures of each run, by configuration."""
        return {name: [measure(outcome) for outcome in runs] for name, runs in self.outcomes.items()}

    @property
    def intervals(self) -> dict[str, dict[str, Interval]]:
        """The means over the seeds, by configuration and measure."""
        return {name: over_seeds(runs) for name, runs in self.measures.items()}

    def rows(self, timed: bool = True) -> list[tuple[str, ...]]:
        """Return the title of each measure with its text for each configuration; those that are always 0 are left out."""
        intervals = self.intervals
        result = []
        for name, (title, text) in MEASURES.items():
            values = [measures[name] for measures in intervals.values()]
            if name in _ONLY_IF_THERE and not any(value.mean for value in values):
                continue
            if name == "events_per_second" and not timed:
                continue
            cells = [_with_interval(value, text) for value in values]
            if name in _OF_STARTED_JOBS:
                idle = [measures["never_started"].mean >= measures["jobs"].mean for measures in intervals.values()]
                cells = ["-" if none else cell for none, cell in zip(idle, cells, strict=True)]
            result.append((title, *cells))
        return result

    def notes(self) -> list[str]:
        """Return which jobs were rejected and which never started, with the reasons: those of the first seed of each configuration."""
        result: list[str] = []
        for name, (first, *_) in self.outcomes.items():
            where = f"configuration {name}: " if len(self.outcomes) > 1 else ""
            waiting = {job.name: job.reason for job in first.jobs if job.start < 0}
            result += [f"{where}{line}" for line in _by_reason("rejected by admission", first.rejected, "-o json")]
            result += [f"{where}{line}" for line in _by_reason("never started", waiting, "the file of --jobs")]
        return result

    def summary(self) -> list[str]:
        """Return one sentence for each configuration that is best at something, and one for what does not differ.

        A difference counts if it is larger than a hundredth and than the confidence intervals of both means.
        """
        if len(self.outcomes) < 2:
            return []
        intervals = self.intervals
        best: dict[str, list[str]] = {}
        equal: list[str] = []
        for name, (title, text) in MEASURES.items():
            if name in _NOT_COMPARED:
                continue
            sign = -1 if name in _MORE_IS_BETTER else 1
            ranked = sorted(intervals, key=lambda key: sign * intervals[key][name].mean)
            first, second = (intervals[key][name] for key in ranked[:2])
            measure_name = title.removesuffix(", %")
            measure_name = measure_name if measure_name[:2].isupper() else measure_name[0].lower() + measure_name[1:]
            unit = " %" if title.endswith(", %") else ""
            if not _differs(first, second):
                equal += [measure_name] if name not in _ONLY_IF_THERE or first.mean or second.mean else []
                continue
            by = ""
            if second.mean:
                by = f", {abs(second.mean - first.mean) / abs(second.mean):.0%} {'less' if sign == 1 else 'more'}"
            values = f"{text(first.mean)}{unit} instead of {text(second.mean)}{unit} of {ranked[1]}{by}"
            best.setdefault(ranked[0], []).append(f"{measure_name} ({values})")
        lines = [f"{name} is best at {'; '.join(best[name])}." for name in self.outcomes if name in best]
        return [*lines, f"No clear difference: {', '.join(equal)}."] if equal else lines

    def table(self) -> str:
        """Return the table of a terminal."""
        return plain_table(("MEASURE", *(name.upper() for name in self.outcomes)), self.rows())

    def document(self) -> str:
        """Return the measures of each run and their means as JSON."""
        items: list[Json] = []
        for name, intervals in self.intervals.items():
            runs = [
                {
                    "seed": outcome.seed,
                    "rejected": outcome.rejected,
                    "measures": vars(measures),
                    "decayedUsage": [share.document() for share in outcome.usage],
                }
                for outcome, measures in zip(self.outcomes[name], self.measures[name], strict=True)
            ]
            means = {field: {"mean": value.mean, "interval": value.half} for field, value in intervals.items()}
            items.append({"configuration": name, "measures": means, "runs": runs})
        return json.dumps({"kind": "SimulationComparison", "items": items}, indent=2)


def _differs(first: Interval, second: Interval) -> bool:
    difference = abs(first.mean - second.mean)
    return difference > first.half + second.half and difference > _EQUAL * max(abs(first.mean), abs(second.mean))


def _by_reason(what: str, reasons: Mapping[str, str], source: str) -> list[str]:
    """Return a line for each of the most frequent reasons with the first job that has it, and how many jobs have others.

    Reasons that differ only in names and numbers are one. ``source`` has all of them.
    """
    jobs: dict[str, list[str]] = {}
    for job, reason in reasons.items():
        jobs.setdefault(_NAMES_AND_NUMBERS.sub("", reason), []).append(job)
    most = sorted(jobs.values(), key=lambda same: -len(same))
    lines = [
        f"{f'{len(same):,} jobs {what}, such as' if len(same) > 1 else f'1 job {what}:'} {same[0]}: {reasons[same[0]]}"
        for same in most[:_REASONS]
    ]
    others = sum(len(same) for same in most[_REASONS:])
    return [*lines, f"{others:,} other jobs {what}: {source} has the reasons"] if others else lines


def _with_interval(value: Interval, text: Callable[[float], str]) -> str:
    return f"{text(value.mean)} ± {text(value.half)}" if value.half else text(value.mean)
