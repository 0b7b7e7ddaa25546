"""The figures of the report of a simulation as data: the charts of the web page draw them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from volcanopy.api.model import Json
from volcanopy.client.durations import span
from volcanopy_lab.simulate.measures import by_class
from volcanopy_lab.simulate.outcome import JobOutcome, JobRun, Outcome, SamplePoint

_POINTS = 600
"""The most points of a line."""
_RUNS = 400
"""The most runs of a Gantt chart."""
_UNITS = {"cpu": "cpus", "gpu": "GPUs"}
_MOST_QUEUES = 12
"""Queues of a plot: those with the greatest shares."""
_T = TypeVar("_T")


def figures(firsts: Mapping[str, Outcome]) -> list[Json]:
    """Return the figures of one run of each configuration.

    Each has a ``title``, perhaps a ``note``, and the fields of its ``kind``: ``timeline`` (lines and stacked areas over
    time), ``classes`` (bars by class), ``gantt``, or ``text``. ``colour`` is the place in the list of colours; times are
    seconds since the beginning.
    """
    end = max(outcome.end for outcome in firsts.values())  # of all axes, so that figures can be compared
    charts = [_runs(name, outcome) | {"end": round(end, 1)} for name, outcome in firsts.items()]
    return [
        *_over_time(firsts),
        *(
            _shares(name, outcome) | {"end": round(end, 1)}
            for name, outcome in firsts.items()
            if len(_queues(outcome)) > 1
        ),
        *_classes(firsts),
        _evictions(firsts),
        *charts,
    ]


def _over_time(firsts: Mapping[str, Outcome]) -> Iterable[Json]:
    def lines(value: Callable[[SamplePoint], float]) -> list[Json]:
        return [
            _line(name, [(point.time, value(point)) for point in outcome.samples], colour)
            for colour, (name, outcome) in enumerate(firsts.items())
        ]

    percent = {"kind": "timeline", "unit": " %", "top": 100}
    yield percent | {"title": "CPU utilisation", "lines": lines(lambda point: 100 * point.cpu)}
    if any(outcome.capacity.get("gpu") for outcome in firsts.values()):
        yield percent | {"title": "GPU utilisation", "lines": lines(lambda point: 100 * point.gpu)}
    yield {"kind": "timeline", "title": "Waiting jobs", "unit": "", "lines": lines(lambda point: point.waiting)}
    free = "cards" if next(iter(firsts.values())).main == "gpu" else "cpus"
    note = f"Part of the free {free} that an average pod of the workload cannot use."
    fragmentation = lines(lambda point: 100 * point.fragmentation)
    yield percent | {"title": "Fragmentation", "note": note, "lines": fragmentation}


def _line(name: str, points: Sequence[tuple[float, float]], colour: int, *, dashed: bool = False) -> Json:
    shown = [(round(time, 1), round(value, 3)) for time, value in _thinned(points)]
    return {"name": name, "points": shown, "colour": colour, "dashed": dashed}


def _thinned(points: Sequence[_T]) -> list[_T]:
    """Return at most about as many points as are drawn, the last one among them."""
    step = math.ceil(len(points) / _POINTS) or 1
    return [*points[:-1:step], *points[-1:]]


def _queues(outcome: Outcome) -> list[int]:
    """Return the rows of the queues with allocations, those with the greatest shares, by name."""
    rows = [row for row, name in enumerate(outcome.queues) if outcome.shares.get(name)]
    rows.sort(key=lambda row: -outcome.shares[outcome.queues[row]])
    return sorted(rows[:_MOST_QUEUES], key=lambda row: outcome.queues[row])


def _shares(name: str, outcome: Outcome) -> Json:
    """Return the allocation of queues, stacked, with their fair shares as lines and evictions as marks."""
    part = 100 / (outcome.capacity[outcome.main] or 1.0)
    samples = _thinned(outcome.samples)
    areas, lines = [], []
    for colour, row in enumerate(_queues(outcome)):
        queue = outcome.queues[row]
        areas.append(
            {"name": queue, "values": [round(part * point.shares[row], 3) for point in samples], "colour": colour}
        )
        if any(point.fair[row] for point in samples):
            fair = [(point.time, part * point.fair[row]) for point in samples]
            lines.append(_line(f"{queue}, fair share", fair, colour, dashed=True))
    return {
        "kind": "timeline",
        "title": f"Shares of queues: {name}",
        "unit": " %",
        "top": 100,
        "wide": True,
        "note": f"Part of the {_UNITS[outcome.main]} of the cluster, stacked; dashed lines, each from 0: fair shares.",
        "areas": {"times": [round(point.time, 1) for point in samples], "series": areas},
        "lines": lines,
        "marks": sorted({round(eviction.time, 1) for eviction in outcome.evictions}),
    }


def _classes(firsts: Mapping[str, Outcome]) -> Iterable[Json]:
    groupings: list[tuple[str, Callable[[JobOutcome], str]]] = [("size", _size)]
    if any(len({job.queue for job in outcome.jobs}) > 1 for outcome in firsts.values()):
        groupings.append(("queue", lambda job: job.queue))
    for title, key in groupings:
        by_name = {name: by_class(outcome.jobs, key, outcome.end) for name, outcome in firsts.items()}
        classes = sorted({entry for known in by_name.values() for entry in known}, key=_class_order)[: _MOST_QUEUES * 2]
        for measure, number, text in (
            ("Mean wait", 1, span),
            ("Mean bounded slowdown", 2, lambda value: f"{value:,.1f}"),
        ):
            rows = [
                {"name": entry, "values": [_value(known, entry, number, text) for known in by_name.values()]}
                for entry in classes
            ]
            yield {"kind": "classes", "title": f"{measure} by {title}", "rows": rows, "series": list(firsts)}


def _value(
    known: Mapping[str, tuple[int, float, float]], entry: str, number: int, text: Callable[[float], str]
) -> tuple[float | None, str]:
    if entry not in known:
        return None, "-"
    value = known[entry][number]
    return round(value, 3), text(value)


def _size(job: JobOutcome) -> str:
    """Return the class of a job by its cards, or by its cpus: powers of two."""
    size, unit = (job.gpu, "GPU") if job.gpu else (job.cpu, "cpu")
    if size <= 1:
        return f"up to 1 {unit}"
    most = 2
    while most < size:
        most *= 2
    return f"up to {most} {unit}s"


def _class_order(name: str) -> tuple[str, int, str]:
    parts = name.split()
    if name.startswith("up to ") and len(parts) == 4:
        return parts[3].rstrip("s"), int(parts[2]), ""
    return "", 0, name


def _evictions(firsts: Mapping[str, Outcome]) -> Json:
    shown: Json = {"title": "Evictions and wasted work", "wide": True}
    lines: list[Json] = []
    for colour, (name, outcome) in enumerate(firsts.items()):
        total, lost = 0, 0.0
        pods, work = [(0.0, 0.0)], [(0.0, 0.0)]
        for eviction in outcome.evictions:
            total, lost = total + eviction.pods, lost + eviction.lost / 3600
            pods.append((eviction.time, float(total)))
            work.append((eviction.time, lost))
        if total:
            lines.append(_line(f"{name}: evicted pods", [*pods, (outcome.end, float(total))], 2 * colour))
            hours = f"{name}: {outcome.main}-hours lost"
            lines.append(_line(hours, [*work, (outcome.end, lost)], 2 * colour + 1, dashed=True))
    if not lines:
        return shown | {"kind": "text", "note": "No pod was evicted or lost."}
    note = "Sums since the beginning."
    return shown | {"kind": "timeline", "unit": "", "lines": lines, "note": note}


def _runs(name: str, outcome: Outcome) -> Json:
    """Return the runs of jobs as strips in as few rows as they need."""
    title = f"Runs of jobs: {name}"
    shown = sorted(outcome.placements[:_RUNS], key=lambda run: (run.begin, run.job))
    if not shown:
        return {"kind": "text", "title": title, "note": "No job has run.", "wide": True}
    colours = {outcome.queues[row]: colour for colour, row in enumerate(_queues(outcome))}
    rows: list[list[Json]] = []
    ends: list[float] = []
    for run in shown:
        row = next((number for number, busy in enumerate(ends) if busy <= run.begin), len(ends))
        if row == len(ends):
            ends.append(0.0)
            rows.append([])
        ends[row] = run.end
        rows[row].append(_strip(run, colours.get(run.queue, len(colours)), _UNITS[outcome.main]))
    return {
        "kind": "gantt",
        "title": title,
        "note": f"The first {_RUNS} runs that ended." if len(outcome.placements) > _RUNS else "",
        "wide": True,
        "rows": rows,
        "queues": list(colours.items()),
    }


def _strip(run: JobRun, colour: int, unit: str) -> Json:
    title = f"{run.job} in {run.queue}: {run.size:g} {unit}, {span(run.end - run.begin)}"
    return {"title": title, "from": round(run.begin, 1), "until": round(run.end, 1), "colour": colour}
