"""The report of a simulation: one HTML file that needs nothing else, with the style sheet and the charts of the web page."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from volcanopy.client.errors import CommandError
from volcanopy_lab.reports.comparison import Comparison
from volcanopy_lab.reports.figures import figures

_ASSETS = resources.files("volcanopy.cli.ui") / "assets"
_MODULES = ("uPlot.min.js", "dom.js", "charts.js", "report.js")
"""The scripts of the page that draw the report, each after those that it needs."""
_STYLES = ("uPlot.min.css", "style.css")
_IMPORT = re.compile(r"^import .*;\n", re.MULTILINE)
_DEFINITIONS = {
    "Wait": "from the submission of a job to its first start; a job that never starts counts for the longest wait.",
    "Bounded slowdown": "time from submission to end, divided by the run time, which counts as at least 10 seconds; at least 1.",
    "Utilisation": "mean allocated part of the capacity from the beginning to the last end.",
    "Distance from fair shares": "half the sum of the differences between shares and fair shares; 0 is fair.",
    "Longest wait / bound": "the bound is the longest run time plus the time in which the weight of the queue does the work before the job.",
    "Evictions in return": "evictions of a job for one that was evicted for it before.",
}


def write_report(path: Path, comparison: Comparison, workload: str, configurations: Mapping[str, str]) -> None:
    """Write the report; ``configurations`` are those of the scheduler by name, in YAML. Raises CommandError."""
    try:
        path.write_text(html(comparison, workload, configurations), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--report: cannot write {path}: {error.strerror}", 2) from None


def html(comparison: Comparison, workload: str, configurations: Mapping[str, str]) -> str:
    """Return the report; plots are of the first seed. The measures are readable without scripts."""
    firsts = {name: runs[0] for name, runs in comparison.outcomes.items()}
    count = max(len(runs) for runs in comparison.outcomes.values())
    some = next(iter(firsts.values()))
    size = ", ".join(
        f"{some.capacity[name]:,.0f} {title}"
        for name, title in (("cpu", "cpus"), ("gpu", "GPUs"))
        if some.capacity.get(name)
    )
    seeds = f"seed {some.seed}" if count == 1 else f"{count} seeds; plots show seed {some.seed}"
    title = escape(f"Simulation of {Path(workload).name}")
    style, script = _text(_STYLES), re.sub(r"^export ", "", _IMPORT.sub("", _text(_MODULES)), flags=re.MULTILINE)
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    # "<" is escaped so that no text of a workload can end the element of the data.
    data = json.dumps(figures(firsts), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{title}</title><style>{style}</style></head><body>"
        f'<main><h1>{title}</h1><p class="dim">{len(some.jobs):,} jobs on {escape(size)}; {escape(seeds)}</p>'
        f'{_measures(comparison, count)}<noscript><p class="card">The plots need JavaScript.</p></noscript>'
        f'<div class="grid halves" id="figures"></div>{_configurations(configurations)}{_definitions()}</main>'
        f'<script type="application/json" id="data">{data}</script><script type="module">{script}</script></body></html>\n'
    )


def _text(names: Sequence[str]) -> str:
    """Return files of the page as one: names in its modules differ, so that imports and exports can be left out."""
    return "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    """Return the source expression of a Content-Security-Policy that allows this inline text and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _measures(comparison: Comparison, seeds: int) -> str:
    names = list(comparison.outcomes)
    heads = "".join(f'<th scope="col" class="number">{escape(name)}</th>' for name in names)
    rows = "".join(
        f'<tr><td class="name">{escape(title)}</td>'
        + "".join(
            f'<td class="number" data-label="{escape(name)}">{escape(cell)}</td>'
            for name, cell in zip(names, cells, strict=True)
        )
        + "</tr>"
        for title, *cells in comparison.rows(timed=False)
    )
    result = "".join(f"<p>{escape(line)}</p>" for line in comparison.summary())
    note = '<p class="dim">Means over the seeds with 95 % confidence intervals.</p>' if seeds > 1 else ""
    return (
        f'<section class="card" aria-label="Measures"><h2>Measures</h2>{result}<div class="scroll"><table>'
        f'<thead><tr><th scope="col">Measure</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{note}</section>'
    )


def _configurations(texts: Mapping[str, str]) -> str:
    return "".join(
        f'<details class="card"><summary>Configuration {escape(name)}</summary><pre>{escape(text)}</pre></details>'
        for name, text in texts.items()
    )


def _definitions() -> str:
    text = "".join(f"<dt>{escape(term)}</dt><dd>{escape(meaning)}</dd>" for term, meaning in _DEFINITIONS.items())
    return f'<section class="card" aria-label="Definitions"><h2>Definitions</h2><dl>{text}</dl></section>'
