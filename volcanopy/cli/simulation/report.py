"""The report of a simulation: one static HTML file without scripts and without anything from elsewhere."""

from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path

from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.durations import span
from volcanopy.cli.simulation.comparison import Comparison
from volcanopy.cli.simulation.plots import COLOURS, Line, Strip, bars, figure, gantt, legend, lines
from volcanopy.cli.simulation.style import STYLE
from volcanopy.simulate.measures import by_class
from volcanopy.simulate.outcome import JobOutcome, Outcome

_RUNS = 400
"""The most runs of a Gantt chart."""
_UNITS = {"cpu": "cpus", "gpu": "GPUs"}
_MOST_QUEUES = 12
"""Queues of a plot: those with the greatest shares."""


def write_report(path: Path, comparison: Comparison, workload: str) -> None:
    """Write the report. Raises CommandError."""
    try:
        path.write_text(html(comparison, workload), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--report: cannot write {path}: {error.strerror}", 2) from None


def html(comparison: Comparison, workload: str) -> str:
    """Return the report; plots are of the first seed."""
    firsts = {name: runs[0] for name, runs in comparison.outcomes.items()}
    count = max(len(runs) for runs in comparison.outcomes.values())
    some = next(iter(firsts.values()))
    size = ", ".join(
        f"{some.capacity[name]:,.0f} {title}"
        for name, title in (("cpu", "cpus"), ("gpu", "GPUs"))
        if some.capacity.get(name)
    )
    seeds = f"seed {some.seed}" if count == 1 else f"{count} seeds; plots show seed {some.seed}"
    cards = [
        _measures(comparison, count),
        *_over_time(firsts),
        *(_shares(name, outcome) for name, outcome in firsts.items() if len(_queues(outcome)) > 1),
        *_classes(firsts),
        _evictions(firsts),
        *(_runs(name, outcome) for name, outcome in firsts.items()),
        _definitions(),
    ]
    title = f"Simulation of {Path(workload).name}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<header><h1>{escape(title)}</h1><p>{len(some.jobs):,} jobs on {escape(size)}; {escape(seeds)}</p></header>"
        f"<main>{''.join(cards)}</main></body></html>\n"
    )


def _measures(comparison: Comparison, seeds: int) -> str:
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in comparison.outcomes)
    rows = "".join(
        f'<tr><th scope="row">{escape(title)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for title, *cells in comparison.rows(timed=False)
    )
    note = "Means over the seeds with 95 % confidence intervals." if seeds > 1 else ""
    table = f'<table><thead><tr><th scope="col">Measure</th>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    return figure("Measures", table, note, wide=True)


def _over_time(firsts: dict[str, Outcome]) -> Iterable[str]:
    kinds = [("CPU", "cpu")] + (
        [("GPU", "gpu")] if any(outcome.capacity.get("gpu") for outcome in firsts.values()) else []
    )
    for title, name in kinds:
        series = [
            Line(config, [(point.time, 100 * getattr(point, name)) for point in outcome.samples], colour)
            for colour, (config, outcome) in enumerate(firsts.items())
        ]
        yield figure(f"{title} utilisation", lines(f"{title} utilisation", series, " %", 100.0))
    waiting = [
        Line(config, [(point.time, float(point.waiting)) for point in outcome.samples], colour)
        for colour, (config, outcome) in enumerate(firsts.items())
    ]
    yield figure("Waiting jobs", lines("Waiting jobs", waiting))
    fragments = [
        Line(config, [(point.time, 100 * point.fragmentation) for point in outcome.samples], colour)
        for colour, (config, outcome) in enumerate(firsts.items())
    ]
    what = "cards" if next(iter(firsts.values())).main == "gpu" else "cpus"
    yield figure(
        "Fragmentation",
        lines("Fragmentation", fragments, " %", 100.0),
        f"Part of the free {what} that an average pod of the workload cannot use.",
    )


def _queues(outcome: Outcome) -> list[int]:
    """Return the rows of the queues with allocations, those with the greatest shares, by name."""
    rows = [row for row, name in enumerate(outcome.queues) if outcome.shares.get(name)]
    rows.sort(key=lambda row: -outcome.shares[outcome.queues[row]])
    return sorted(rows[:_MOST_QUEUES], key=lambda row: outcome.queues[row])


def _shares(name: str, outcome: Outcome) -> str:
    most = outcome.capacity[outcome.main] or 1.0
    series: list[Line] = []
    for colour, row in enumerate(_queues(outcome)):
        queue = outcome.queues[row]
        series.append(Line(queue, [(point.time, 100 * point.shares[row] / most) for point in outcome.samples], colour))
        if any(point.fair[row] for point in outcome.samples):
            fair = [(point.time, 100 * point.fair[row] / most) for point in outcome.samples]
            series.append(Line(f"{queue}, fair share", fair, colour, dashed=True))
    title = f"Shares of queues: {name}"
    return figure(
        title, lines(title, series, " %", 100.0), f"Part of the {_UNITS[outcome.main]} of the cluster.", wide=True
    )


def _classes(firsts: dict[str, Outcome]) -> Iterable[str]:
    groupings: list[tuple[str, Callable[[JobOutcome], str]]] = [("size", _size)]
    if any(len({job.queue for job in outcome.jobs}) > 1 for outcome in firsts.values()):
        groupings.append(("queue", lambda job: job.queue))
    for title, key in groupings:
        by_name = {name: by_class(outcome.jobs, key, outcome.end) for name, outcome in firsts.items()}
        classes = sorted({entry for classes in by_name.values() for entry in classes}, key=_class_order)[
            : _MOST_QUEUES * 2
        ]
        for measure, number, text in (
            ("Mean wait", 1, span),
            ("Mean bounded slowdown", 2, lambda value: f"{value:,.1f}"),
        ):
            values = {name: [_value(known, entry, number) for entry in classes] for name, known in by_name.items()}
            texts = {name: ["-" if value is None else text(value) for value in row] for name, row in values.items()}
            yield figure(f"{measure} by {title}", bars(classes, values, texts))


def _value(known: dict[str, tuple[int, float, float]], entry: str, number: int) -> float | None:
    return float(known[entry][number]) if entry in known else None


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


def _evictions(firsts: dict[str, Outcome]) -> str:
    series: list[Line] = []
    for colour, (name, outcome) in enumerate(firsts.items()):
        total, lost = 0, 0.0
        pods, work = [(0.0, 0.0)], [(0.0, 0.0)]
        for eviction in outcome.evictions:
            total, lost = total + eviction.pods, lost + eviction.lost / 3600
            pods.append((eviction.time, float(total)))
            work.append((eviction.time, lost))
        if total:
            series.append(Line(f"{name}: evicted pods", [*pods, (outcome.end, float(total))], 2 * colour))
            series.append(
                Line(f"{name}: {outcome.main}-hours lost", [*work, (outcome.end, lost)], 2 * colour + 1, dashed=True)
            )
    if not series:
        return figure("Evictions and wasted work", '<p class="note">No pod was evicted or lost.</p>')
    return figure(
        "Evictions and wasted work", lines("Evictions", series), "Sums since the beginning, failures included."
    )


def _runs(name: str, outcome: Outcome) -> str:
    rows = _queues(outcome)
    colours = {outcome.queues[row]: colour % COLOURS for colour, row in enumerate(rows)}
    strips = [
        Strip(
            f"{run.job} in {run.queue}: {run.size:g} {_UNITS[outcome.main]}, {span(run.end - run.begin)}",
            run.begin,
            run.end,
            colours.get(run.queue, COLOURS - 1),
        )
        for run in outcome.placements[:_RUNS]
    ]
    marks = legend([(queue, colour, False) for queue, colour in colours.items()]) if len(colours) > 1 else ""
    note = f"The first {_RUNS} runs that ended." if len(outcome.placements) > _RUNS else ""
    return figure(f"Runs of jobs: {name}", gantt(f"Runs of jobs: {name}", strips) + marks, note, wide=True)


def _definitions() -> str:
    terms = (
        (
            "Wait",
            "from the submission of a job to its first start; a job that never starts counts for the longest wait.",
        ),
        (
            "Bounded slowdown",
            "time from submission to end, divided by the run time, which counts as at least 10 seconds; at least 1.",
        ),
        ("Utilisation", "mean allocated part of the capacity from the beginning to the last end."),
        ("Distance from fair shares", "half the sum of the differences between shares and fair shares; 0 is fair."),
        (
            "Longest wait / bound",
            "the bound is the longest run time plus the time in which the weight of the queue does the work before the job.",
        ),
        ("Evictions in return", "evictions of a job for one that was evicted for it before."),
    )
    text = "".join(f"<dt>{escape(term)}</dt><dd>{escape(meaning)}</dd>" for term, meaning in terms)
    return figure("Definitions", f"<dl>{text}</dl>", wide=True)
