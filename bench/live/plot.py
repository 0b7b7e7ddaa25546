"""Bars of processor time for each pod, as SVG: one bar for each run, divided by process."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from bench.live.load import Run

COLOURS = {
    "kube-apiserver": "#4878a8",
    "etcd": "#a8c4e0",
    "client": "#909090",
    "scheduler": "#d08030",
    "controller": "#e8b070",
    "admission": "#f4d8b0",
}
LEFT, WIDTH, BAR, GAP = 190, 560, 18, 8


def bars(runs: Sequence[Run]) -> str:
    """Return the plot."""
    most = max(run.cpu_per_pod for run in runs)
    lines, top = [], 40
    for number, (name, colour) in enumerate(COLOURS.items()):
        at = LEFT + number * 95
        lines.append(f'<rect x="{at}" y="10" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{at + 16}" y="20">{name}</text>')
    for run in runs:
        lines.append(
            f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(run.shape)} {run.load.value}</text>'
        )
        x = float(LEFT)
        for name, colour in COLOURS.items():
            width = run.parts_per_pod.get(name, 0.0) / most * WIDTH
            lines.append(f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>')
            x += width
        lines.append(f'<text x="{x + 6:.1f}" y="{top + 13}">{run.cpu_per_pod:.2f} ms</text>')
        top += BAR + GAP
    size = f'width="{LEFT + WIDTH + 90}" height="{top + 10}"'
    style = 'font-family="sans-serif" font-size="12"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *lines, "</svg>", ""])
