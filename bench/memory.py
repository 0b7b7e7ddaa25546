"""Bytes of memory for each pod: in the store of the embedded API server, and in the cache of the scheduler.

60,000 pods of 600 jobs as a real server shows them, of about 3.8 kB each; what Python allocates for them, by tracemalloc.
"""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec

from bench.client import pod
from embedded_apiserver.store.object_store import Store as ObjectStore
from volcanopy.kube.cache.followed_kinds import PODS, slimming
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.decoding import read_page
from volcanopy.services.scheduler.state.store import Store

COUNT = 60_000
PAGE = 500


def bytes_per_pod(fill: Callable[[], Any]) -> float:
    """Return the bytes that are allocated while the result exists, divided by the pods."""
    gc.collect()
    tracemalloc.start()
    filled = fill()
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del filled
    return size / COUNT


def stored() -> ObjectStore:
    """Return the store of the API server after the creation of the pods."""
    store = ObjectStore()
    for number in range(COUNT):
        store.put(store.bucket("pods"), pod(number, number))
    return store


def cached() -> Store:
    """Return the state of the scheduler, from the bytes of the pages of a list."""
    store = Store()
    slim = slimming(PODS, store.bindings)
    for start in range(0, COUNT, PAGE):
        items = [pod(number, number) for number in range(start, start + PAGE)]
        body = msgspec.json.encode({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items})
        store.take([Change(ChangeType.ADDED, slim(item)) for item in read_page(PODS, body, []).items or ()])
    return store


def run() -> dict[str, float]:
    """Return the measures."""
    return {"api_server_bytes_per_pod": bytes_per_pod(stored), "scheduler_bytes_per_pod": bytes_per_pod(cached)}
