"""Plots of the report as inline SVG without scripts. Labels are HTML beside the drawing, so that they keep their size on phones."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = 8
"""Number of colours, the classes c0 to c7."""
_POINTS = 600
"""The most points of a line."""


@dataclass(frozen=True)
class Line:
    """A line of a plot; ``step`` lines keep a value until the next point."""

    title: str
    points: Sequence[tuple[float, float]]
    colour: int
    dashed: bool = False


@dataclass(frozen=True)
class Strip:
    """A strip of a Gantt chart."""

    title: str
    begin: float
    end: float
    colour: int


def figure(title: str, body: str, note: str = "", wide: bool = False) -> str:
    """Return a plot or table with its title, as a card."""
    below = f'<p class="note">{escape(note)}</p>' if note else ""
    return (
        f'<figure class="card{" wide" if wide else ""}"><figcaption>{escape(title)}</figcaption>{body}{below}</figure>'
    )


def lines(title: str, series: Sequence[Line], unit: str = "", most: float | None = None) -> str:
    """Return a plot of lines over time; ``most`` is the upper end of the axis, by default what the lines need."""
    drawn = [line for line in series if line.points]
    if not drawn:
        return '<p class="note">nothing to show</p>'
    end = max(line.points[-1][0] for line in drawn) or 1.0
    top = most or nice(max(value for line in drawn for _, value in line.points)) or 1.0
    shapes = "".join(_path(line, end, top) for line in drawn)
    label = f"{title}: {', '.join(line.title for line in drawn)} over {duration(end)}"
    axis = [f"{_number(top * part)}{unit}" for part in (1.0, 0.5, 0.0)]
    return _framed(label, shapes, axis, end) + legend([(line.title, line.colour, line.dashed) for line in drawn])


def gantt(title: str, strips: Sequence[Strip]) -> str:
    """Return strips in as few rows as they need."""
    if not strips:
        return '<p class="note">nothing to show</p>'
    first, end = min(strip.begin for strip in strips), max(strip.end for strip in strips)
    length = max(end - first, 1e-9)
    ends: list[float] = []
    placed: list[tuple[Strip, int]] = []
    for strip in sorted(strips, key=lambda strip: (strip.begin, strip.title)):
        row = next((number for number, busy in enumerate(ends) if busy <= strip.begin), len(ends))
        if row == len(ends):
            ends.append(0.0)
        ends[row] = strip.end
        placed.append((strip, row))
    height = 100.0 / len(ends)
    shapes = "".join(
        f'<rect class="c{strip.colour % COLOURS}" x="{100 * (strip.begin - first) / length:.3f}" y="{row * height:.3f}" '
        f'width="{max(100 * (strip.end - strip.begin) / length, 0.05):.3f}" height="{0.86 * height:.3f}">'
        f"<title>{escape(strip.title)}</title></rect>"
        for strip, row in placed
    )
    return _framed(
        f"{title}: {len(strips)} runs in {len(ends)} rows", shapes, ["", "", ""], end, first, tall=len(ends) > 12
    )


def bars(
    classes: Sequence[str], values: Mapping[str, Sequence[float | None]], text: Mapping[str, Sequence[str]]
) -> str:
    """Return horizontal bars: for each class one of each series."""
    most = max((value for row in values.values() for value in row if value is not None), default=0.0) or 1.0
    rows = []
    for number, name in enumerate(classes):
        for colour, (series, row) in enumerate(values.items()):
            value = row[number]
            width = 0.0 if value is None else 100 * value / most
            rows.append(
                f'<span class="name">{escape(name) if not colour else ""}</span>'
                f'<span class="bar" role="img" aria-label="{escape(f"{name}, {series}: {text[series][number]}")}">'
                f'<i class="c{colour % COLOURS}" style="width:{width:.1f}%"></i></span>'
                f'<span class="value">{escape(text[series][number])}</span>'
            )
    marks = legend([(series, colour, False) for colour, series in enumerate(values)]) if len(values) > 1 else ""
    return f'<div class="bars">{"".join(rows)}</div>{marks}'


def legend(entries: Sequence[tuple[str, int, bool]]) -> str:
    """Return a legend of titles with colours; dashed lines have dashed marks."""
    marks = "".join(
        f'<span><b class="c{colour % COLOURS}{" dashed" if dashed else ""}"></b>{escape(title)}</span>'
        for title, colour, dashed in entries
    )
    return f'<div class="legend">{marks}</div>'


def duration(length: float) -> str:
    """Return a time as text of an axis."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if length >= 2 * size:
            return f"{_number(round(length / size, 1))} {unit}"
    return f"{length:.0f} s"


def nice(value: float) -> float:
    """Return the least of 1, 2, 2.5, 5 and 10 times a power of ten that is not below a value."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0) if step * power >= value * (1 - 1e-9))


def _path(line: Line, end: float, top: float) -> str:
    points = line.points
    if len(points) > _POINTS:
        points = points[:: math.ceil(len(points) / _POINTS)]
    commands: list[str] = []
    for time, value in points:
        x, y = 100 * time / end, 100 - 100 * min(value, top) / top
        commands.append(f"L{x:.2f} {y:.2f}" if commands else f"M{x:.2f} {y:.2f}")
    dashes = " dashed" if line.dashed else ""
    return f'<path class="line c{line.colour % COLOURS}{dashes}" d="{"".join(commands)}"><title>{escape(line.title)}</title></path>'


def _framed(label: str, shapes: str, axis: Sequence[str], end: float, begin: float = 0.0, tall: bool = False) -> str:
    grid = "".join(f'<path class="grid" d="M0 {y}H100"/>' for y in (0, 50, 100))
    times = "".join(f"<span>{escape(duration(begin + (end - begin) * part / 4))}</span>" for part in range(5))
    ticks = "".join(f"<span>{escape(text)}</span>" for text in axis)
    return (
        f'<div class="plot{" tall" if tall else ""}"><div class="y">{ticks}</div>'
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">{grid}{shapes}</svg>'
        f'<div class="x">{times}</div></div>'
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.3g}"
