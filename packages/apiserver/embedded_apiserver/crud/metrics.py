"""The API `metrics.k8s.io`: what the containers of pods use now, and with them their nodes."""

from collections.abc import Iterable

from embedded_apiserver.connections import Response
from embedded_apiserver.context import Call, ContainerUsage, Context, Measurement
from embedded_apiserver.crud.selection import Filter
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.kinds.strategy import Strategy
from embedded_apiserver.status_errors import method_not_allowed, not_found
from embedded_apiserver.store.object_store import Body, StoredObject, encode
from embedded_apiserver.wire.representation import object_response, respond

GROUP = "metrics.k8s.io"
_VERSION = "v1beta1"


def metrics_kinds() -> list[Kind]:
    """The kinds of the API; they are computed, not stored."""
    plain, verbs = Strategy(), ("get", "list")
    return [
        Kind(GROUP, _VERSION, "NodeMetrics", "nodes", False, plain, verbs=verbs),
        Kind(GROUP, _VERSION, "PodMetrics", "pods", True, plain, verbs=verbs),
    ]


async def read_metrics(ctx: Context, call: Call) -> Response:
    """Measure, and answer with one object, or with those that a request selects: pods and nodes that run processes."""
    if call.method != "GET" or call.flag("watch"):
        raise method_not_allowed()
    assert ctx.usage is not None  # the server that serves these kinds measures
    measurement = await ctx.usage()
    measured = ctx.registry.at("", "v1", call.kind.plural)
    assert measured is not None
    entries = Filter(call).pick(ctx.bucket(measured))
    make = _of_node if call.kind.kind == "NodeMetrics" else _of_pod
    items = [body for entry in entries if (body := make(entry, measurement, ctx.now())) is not None]
    if not call.name:
        api = {"kind": f"{call.kind.kind}List", "apiVersion": call.kind.api_version, "metadata": {}}
        return respond(encode({**api, "items": items}))
    if not items:
        raise not_found(call.kind.plural, GROUP, call.name)
    return object_response(call, items[0])


def _of_pod(entry: StoredObject, measurement: Measurement, now: str) -> Body | None:
    """The PodMetrics of a pod; None for one that runs nothing."""
    own = [each for each in measurement.containers if (each.namespace, each.pod) == (entry.namespace, entry.name)]
    if not own:
        return None
    containers = [{"name": each.container, "usage": _amounts([each])} for each in own]
    return {**_head("PodMetrics", entry, measurement, now), "containers": containers}


def _of_node(entry: StoredObject, measurement: Measurement, now: str) -> Body | None:
    """The NodeMetrics of a node that runs processes: the sum of its containers."""
    if entry.name not in measurement.nodes:
        return None
    own = [each for each in measurement.containers if each.node == entry.name]
    return {**_head("NodeMetrics", entry, measurement, now), "usage": _amounts(own)}


def _head(kind: str, entry: StoredObject, measurement: Measurement, now: str) -> Body:
    metadata: Body = {"name": entry.name, "creationTimestamp": now}
    if entry.namespace:
        metadata["namespace"] = entry.namespace
    if labels := entry.body["metadata"].get("labels"):
        metadata["labels"] = labels
    return {
        "kind": kind,
        "apiVersion": f"{GROUP}/{_VERSION}",
        "metadata": metadata,
        "timestamp": now,
        "window": f"{measurement.window:.3f}s",
    }


def _amounts(containers: Iterable[ContainerUsage]) -> dict[str, str]:
    own = list(containers)
    nanocores, memory = sum(round(each.cpu * 1e9) for each in own), sum(each.memory for each in own)
    return {"cpu": f"{nanocores}n", "memory": f"{memory // 1024}Ki"}
