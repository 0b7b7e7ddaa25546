"""The metrics of API requests: their number and latency by verb and resource."""

from functools import lru_cache

from prometheus_client import Counter, Histogram

from volcanopy.kube.client import request_counts
from volcanopy.kube.metrics import registry


def measure_requests() -> None:
    """Count the requests of this process in its metrics, from now on."""
    request_counts.observers.add(_observe)


def _observe(verb: str, resource: str, code: str, seconds: float) -> None:
    _latency(verb, resource).observe(seconds)
    _number(verb, resource, code).inc()


@lru_cache(maxsize=1024)
def _number(verb: str, resource: str, code: str) -> Counter:
    return registry.REQUESTS.labels(verb, resource, code)


@lru_cache(maxsize=1024)
def _latency(verb: str, resource: str) -> Histogram:
    return registry.REQUEST_SECONDS.labels(verb, resource)
