"""Durations of the scheduler's cycles, actions and plugins, from its metrics."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable

import aiohttp
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from volcanopy.api.model import Json
from volcanopy.kube.metrics.registry import REGISTRY

Source = Callable[[], Awaitable[str]]
"""Reads metrics in Prometheus' text format. Raises aiohttp.ClientError or TimeoutError."""
_WINDOW = 300.0
"""Seconds that the durations cover, once the page has been served for so long."""
_TIMEOUT = aiohttp.ClientTimeout(total=3.0)
_PARTS = {
    "cycle_latency_seconds": ("stages", "stage"),
    "action_scheduling_latency_seconds": ("actions", "action"),
    "plugin_scheduling_latency_seconds": ("plugins", "plugin"),
}
"""The part of the document and the label of its rows, by the name of the histogram without its prefix."""
_Totals = dict[tuple[str, str], tuple[float, float]]
"""Number of observations and sum of seconds, by part and row."""


async def of_this_process() -> str:
    """Read the metrics of a scheduler in this process."""
    return generate_latest(REGISTRY).decode()


def of_url(url: str) -> Source:
    """Return the source of a scheduler's ``/metrics``."""

    async def read() -> str:
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session, session.get(url) as response:
            response.raise_for_status()
            return await response.text()

    return read


class Timings:
    """How long each stage, action and plugin took in the cycles of the last minutes. ``clock`` is in seconds."""

    def __init__(self, source: Source | None, clock: Callable[[], float]) -> None:
        self._source, self._clock = source, clock
        self._samples: deque[tuple[float, _Totals]] = deque()

    async def document(self) -> Json:
        """Return the rows of each part: name, runs, mean and sum in milliseconds; the reason if there are none."""
        if self._source is None:
            return {"message": "start with --scheduler-metrics URL to see them"}
        try:
            totals = _totals(await self._source())
        except (aiohttp.ClientError, TimeoutError) as error:
            return {"message": f"the metrics of the scheduler cannot be read: {error or type(error).__name__}"}
        now = self._clock()
        self._samples.append((now, totals))
        while len(self._samples) > 1 and self._samples[0][0] < now - _WINDOW:
            self._samples.popleft()
        begin, before = self._samples[0]
        # A scheduler that has restarted counts from zero again.
        restarted = any(count < before.get(key, (0, 0))[0] for key, (count, _) in totals.items())
        if restarted or begin == now:
            self._samples.clear()
            self._samples.append((now, totals))
            before, begin = {}, 0.0
        rows = ((part, name, *_since(before, (part, name), totals)) for part, name in totals)
        return {"seconds": round(now - begin) if begin else 0} | _document(rows)


def _since(before: _Totals, key: tuple[str, str], totals: _Totals) -> tuple[float, float]:
    count, seconds = before.get(key, (0.0, 0.0))
    return totals[key][0] - count, totals[key][1] - seconds


def _document(rows: Iterable[tuple[str, str, float, float]]) -> Json:
    result: Json = {part: [] for part, _ in _PARTS.values()}
    for part, name, runs, seconds in rows:
        if runs:
            row = {
                "name": name,
                "runs": int(runs),
                "mean": round(1000 * seconds / runs, 3),
                "sum": round(1000 * seconds, 1),
            }
            result[part].append(row)
    for listed in result.values():
        listed.sort(key=lambda row: -row["sum"])
    return result


def _totals(text: str) -> _Totals:
    """Return counts and sums of the histograms of a scheduler."""
    totals: _Totals = {}
    for family in text_string_to_metric_families(text):
        stage = next((part for name, part in _PARTS.items() if family.name.endswith(name)), None)
        if stage is None:
            continue
        for sample in family.samples:
            key = (stage[0], sample.labels.get(stage[1], ""))
            count, seconds = totals.get(key, (0.0, 0.0))
            if sample.name.endswith("_count"):
                totals[key] = (sample.value, seconds)
            elif sample.name.endswith("_sum"):
                totals[key] = (count, sample.value)
    return totals
