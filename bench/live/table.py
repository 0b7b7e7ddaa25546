"""Runs of several systems beside each other: a table, and the same as data."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from bench.live.load import Load, Run

HEAD = (
    "shape",
    "system",
    "ms of processor time for each pod",
    "to bare",
    "to volcanopy",
    "pods/s",
    "volcanopy's rate to this",
    "writes for each pod",
    "pods bound",
)


def typical(runs: Iterable[Run]) -> list[Run]:
    """Return one run of each shape and system: that of the median processor time, the lower one of two."""
    groups: dict[tuple[str, Load], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.shape, run.load), []).append(run)
    chosen = []
    for group in groups.values():
        median = statistics.median_low(run.cpu_per_pod for run in group)
        chosen.append(next(run for run in group if run.cpu_per_pod == median))
    return chosen


def table(runs: Iterable[Run]) -> str:
    """Return a table in Markdown: a row for each shape and system."""
    shown = typical(runs)
    by_name = {(run.shape, run.load): run for run in shown}
    lines = [_line(HEAD), _line("---" for _ in HEAD)]
    for run in sorted(shown, key=lambda run: [each.shape for each in shown].index(run.shape)):
        bare, ours = (by_name.get((run.shape, load)) for load in (Load.BARE, Load.OURS))
        parts = ", ".join(f"{name} {spent:.2f}" for name, spent in run.parts_per_pod.items())
        cells = (
            run.shape,
            run.load.value,
            f"{run.cpu_per_pod:.2f} ({parts})",
            f"{run.cpu_per_pod / bare.cpu_per_pod:.2f}" if bare else "",
            f"{run.cpu_per_pod / ours.cpu_per_pod:.2f}" if ours else "",
            f"{run.pods_per_second:.0f}",
            f"{ours.pods_per_second / run.pods_per_second:.2f}" if ours else "",
            f"{run.requests.total() / run.bound:.2f}",
            "all" if run.bound == run.pods else f"{run.bound} of {run.pods}",
        )
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def document(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return all runs as data."""
    return [
        {
            "shape": run.shape,
            "system": run.load.value,
            "pods": run.pods,
            "bound": run.bound,
            "seconds": round(run.seconds, 3),
            "podsPerSecond": round(run.pods_per_second, 1),
            "processorMillisecondsPerPod": round(run.cpu_per_pod, 3),
            "parts": {name: round(spent, 3) for name, spent in run.parts_per_pod.items()},
            "writesPerPod": round(run.requests.total() / run.bound, 3),
            "requests": dict(run.requests.most_common()),
            "load": run.load_average,
        }
        for run in runs
    ]
