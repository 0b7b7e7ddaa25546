"""Amounts of queues over hours and days, from a Prometheus server that scrapes the scheduler."""

import asyncio
import re
from datetime import datetime, timedelta

import aiohttp

from volcanopy.api.model import Json

PERIODS = {"6h": timedelta(hours=6), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
"""The periods that a page may request, besides that of the page's own memory."""
_POINTS = 300
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_SERIES = {"allocated": "allocated", "fairShare": "fair_share", "capability": "capacity"}
"""The part of the name of the metric, by the key of the document."""
_PREFIX = "volcanopy_queue"
_Values = dict[str, dict[int, int]]
"""Amounts in base units by queue and time."""


class HistoryError(Exception):
    """Why there is no history, for the user."""


async def history(url: str, resource: str, period: timedelta, now: datetime) -> Json:
    """Return the amounts of a resource, as :meth:`volcanopy.cli.ui.samples.Samples.document` does. Raises HistoryError."""
    step = max(1, round(period.total_seconds() / _POINTS))
    end = int(now.timestamp()) // step * step
    times = range(end - _POINTS * step, end + 1, step)
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:

        async def of(kind: str) -> _Values:
            span = {"start": str(times[0]), "end": str(end), "step": str(step)}
            return await _range(session, url, {"query": _query(kind, resource), **span})

        results = dict(zip(_SERIES, await asyncio.gather(*map(of, _SERIES.values())), strict=True))
    seen = {time for values in results.values() for points in values.values() for time in points}
    shown = [time for time in times if seen and time >= min(seen)]
    queues = sorted({name for values in results.values() for name in values})
    return {
        "resource": resource,
        "times": shown,
        "queues": {
            name: {
                key: [values.get(name, {}).get(time, None if key == "capability" else 0) for time in shown]
                for key, values in results.items()
            }
            for name in queues
        },
    }


def _query(kind: str, resource: str) -> str:
    """Return the PromQL of a kind of amount. The leader alone has it; after a change of leaders two may overlap."""
    match resource:
        case "cpu":
            metric = f"1000 * {_PREFIX}_{kind}_cpu_cores"
        case "memory":
            metric = f"{_PREFIX}_{kind}_memory_bytes"
        case _:
            quoted = re.sub(r'(["\\])', r"\\\1", resource)
            metric = f'{_PREFIX}_{kind}_scalar_resources{{resource="{quoted}"}}'
    return f"max by (queue_name) ({metric})"


async def _range(session: aiohttp.ClientSession, url: str, parameters: dict[str, str]) -> _Values:
    try:
        async with session.get(f"{url.rstrip('/')}/api/v1/query_range", params=parameters) as response:
            body = await response.json(content_type=None)
            if response.status != 200 or body.get("status") != "success":
                raise HistoryError(f"Prometheus rejects the query: {body.get('error') or response.status}")
            return {
                str(series["metric"].get("queue_name", "")): {
                    round(float(time)): round(float(value)) for time, value in series["values"]
                }
                for series in body["data"]["result"]
            }
    except (aiohttp.ClientError, TimeoutError) as error:
        raise HistoryError(f"Prometheus does not answer: {error or type(error).__name__}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise HistoryError("this is not the answer of a Prometheus server") from None
