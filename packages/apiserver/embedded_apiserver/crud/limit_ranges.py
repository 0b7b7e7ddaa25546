"""LimitRanges: defaults and bounds of the containers, pods and claims of a namespace."""

from collections.abc import Iterable, Iterator, Mapping

from embedded_apiserver import quantities
from embedded_apiserver.context import Context
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.status_errors import forbidden
from embedded_apiserver.store.object_store import Body

LIMIT_RANGES, PODS, CLAIMS = "limitranges", "pods", "persistentvolumeclaims"
Units = dict[str, int]


def complete_resources(ctx: Context, namespace: str, kind: Kind, body: Body) -> None:
    """Give the containers of a new pod the defaults of the namespace, and check its bounds. Raises ApiError."""
    if kind.bucket not in {PODS, CLAIMS}:
        return
    limits = [
        limit
        for entry in ctx.store.bucket(LIMIT_RANGES).entries(namespace)
        for limit in entry.body.get("spec", {}).get("limits") or ()
    ]
    if not limits:
        return
    if kind.bucket == PODS:
        for key in ("initContainers", "containers"):
            if body["spec"].get(key):
                body["spec"][key] = [_with_defaults(container, limits) for container in body["spec"][key]]
    faults = [fault for limit in limits for fault in _violations(limit, kind, body)]
    if faults:
        text = f"[{', '.join(faults)}]" if len(faults) > 1 else faults[0]
        raise forbidden(kind.plural, "", body["metadata"].get("name", ""), text)


def _with_defaults(container: Body, limits: Iterable[Body]) -> Body:
    resources: Body = container.get("resources") or {}
    most, least = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    for limit in limits:
        if limit.get("type") == "Container":
            most = {**(limit.get("default") or {}), **most}
            least = {**(limit.get("defaultRequest") or {}), **least}
    least = {**most, **least}
    made = {key: value for key, value in (("limits", most), ("requests", least)) if value}
    return {**container, "resources": {**resources, **made}}


def _violations(limit: Body, kind: Kind, body: Body) -> Iterator[str]:
    sort = limit.get("type")
    if kind.bucket == CLAIMS:
        if sort == "PersistentVolumeClaim":
            requests = (body["spec"].get("resources") or {}).get("requests") or {}
            yield from _outside(limit, sort, requests, {})
        return
    containers = body["spec"]["containers"]
    if sort == "Container":
        for container in (*(body["spec"].get("initContainers") or ()), *containers):
            resources = container.get("resources") or {}
            yield from _outside(limit, sort, resources.get("requests") or {}, resources.get("limits") or {})
    elif sort == "Pod":
        sums = [
            quantities.texts(sum_of((container.get("resources") or {}).get(key) or {} for container in containers))
            for key in ("requests", "limits")
        ]
        yield from _outside(limit, sort, *sums)


def _outside(limit: Body, sort: str, requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[str]:
    for name, bound in (limit.get("min") or {}).items():
        given = requests.get(name)
        if given is None:
            yield f"minimum {name} usage per {sort} is {bound}.  No request is specified"
        elif quantities.amount(name, given) < quantities.amount(name, bound):
            yield f"minimum {name} usage per {sort} is {bound}, but request is {given}"
    for name, bound in (limit.get("max") or {}).items():
        given = limits.get(name) if sort != "PersistentVolumeClaim" else requests.get(name)
        what = "limit" if sort != "PersistentVolumeClaim" else "request"
        if given is None:
            yield f"maximum {name} usage per {sort} is {bound}.  No {what} is specified"
        elif quantities.amount(name, given) > quantities.amount(name, bound):
            yield f"maximum {name} usage per {sort} is {bound}, but {what} is {given}"


def sum_of(lists: Iterable[Mapping[str, str]]) -> Units:
    """The sum of resource lists in base units."""
    total: Units = {}
    for amounts in lists:
        for name, units in quantities.amounts(amounts).items():
            total[name] = total.get(name, 0) + units
    return total
