"""The admission compiled into every API server that matters to a batch system: priorities, lost nodes,
service accounts, runtime classes, default storage classes, LimitRanges."""

from collections.abc import Iterable, Iterator, Mapping

from embedded_apiserver import quantities
from embedded_apiserver.context import Context
from embedded_apiserver.kinds.builtin import SYSTEM_PRIORITIES
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.kinds.pods import tolerate_lost_nodes
from embedded_apiserver.schema.metadata_validation import subdomain_faults
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


RUNTIME_CLASSES = "runtimeclasses.node.k8s.io"
CLASSES = "priorityclasses.scheduling.k8s.io"
STORAGE_CLASSES = "storageclasses.storage.k8s.io"
IS_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
"""Annotation of the storage class of claims that name none."""


def admit_create(ctx: Context, kind: Kind, body: Body) -> None:
    """Complete a new object as the built-in admission plugins do."""
    if kind.bucket == "pods":
        _priority(ctx, body)
        spec = body["spec"]
        tolerate_lost_nodes(spec)
        _runtime_class(ctx, body)
        if ctx.default_scheduler and spec.get("schedulerName") == "default-scheduler":
            spec["schedulerName"] = ctx.default_scheduler
        _service_account(ctx, body)
    elif kind.bucket == "persistentvolumeclaims":
        _storage_class(ctx, body)


def _service_account(ctx: Context, pod: Body) -> None:
    """A pod runs as the account `default` of its namespace if it names none. One that does not exist is an error."""
    spec, namespace = pod["spec"], pod["metadata"].get("namespace", "")
    name = spec.get("serviceAccountName")
    if not name:
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    elif not subdomain_faults(name) and ctx.store.bucket("serviceaccounts").get(namespace, name) is None:
        # Validation, which comes later, rejects a name that is invalid.
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden("pods", "", _name(pod), why)


def _storage_class(ctx: Context, claim: Body) -> None:
    """A claim without a storage class gets the default one, the newest of several."""
    if "storageClassName" in claim["spec"]:
        return
    metadata = [entry.body["metadata"] for entry in ctx.store.bucket(STORAGE_CLASSES).entries()]
    defaults = [each for each in metadata if (each.get("annotations") or {}).get(IS_DEFAULT_CLASS) == "true"]
    if defaults:
        newest = max(each["creationTimestamp"] for each in defaults)
        claim["spec"]["storageClassName"] = min(
            each["name"] for each in defaults if each["creationTimestamp"] == newest
        )


def _runtime_class(ctx: Context, body: Body) -> None:
    """A pod of a RuntimeClass gets its overhead and runs on its nodes only."""
    spec, pod = body["spec"], _name(body)
    name, given = spec.get("runtimeClassName"), spec.get("overhead")
    entry = ctx.store.bucket(RUNTIME_CLASSES).get("", name) if name else None
    if name and entry is None:
        raise forbidden("pods", "", pod, f'pod rejected: RuntimeClass "{name}" not found')
    chosen_class = entry.body if entry is not None else {}
    overhead = (chosen_class.get("overhead") or {}).get("podFixed")
    if given and not overhead:
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden("pods", "", pod, why)
    if given and given != overhead:
        raise forbidden("pods", "", pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if overhead:
        spec["overhead"] = dict(overhead)
    scheduling = chosen_class.get("scheduling") or {}
    required, chosen = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    for key, value in required.items():
        if chosen.get(key, value) != value:
            why = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {chosen[key]}"
            raise forbidden("pods", "", pod, why)
    if required:
        spec["nodeSelector"] = chosen | required
    tolerations = [each for each in scheduling.get("tolerations") or () if each not in (spec.get("tolerations") or ())]
    if tolerations:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *tolerations]


def _priority(ctx: Context, body: Body) -> None:
    spec = body["spec"]
    classes = ctx.store.bucket(CLASSES)
    name = spec.get("priorityClassName")
    priority_class: Body | None = None
    if name:
        entry = classes.get("", name)
        if entry is None:
            pod = _name(body)
            raise forbidden("pods", "", pod, f"no PriorityClass with name {name} was found")
        priority_class = entry.body
    else:
        everywhere = classes.objects.get("", {}).values()
        chosen = [entry.body for entry in everywhere if entry.body.get("globalDefault")]
        if chosen:
            priority_class = min(
                chosen, key=lambda body: body["value"]
            )  # the lowest of several, as the real server does
            spec["priorityClassName"] = priority_class["metadata"]["name"]
    priority = priority_class["value"] if priority_class is not None else SYSTEM_PRIORITIES.get(name or "", 0)
    policy = priority_class["preemptionPolicy"] if priority_class is not None else "PreemptLowerPriority"
    if spec.get("priority") not in {None, priority}:
        pod = _name(body)
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name"
        )
        raise forbidden("pods", "", pod, why)
    spec["priority"] = priority
    spec.setdefault("preemptionPolicy", policy)


def _name(body: Body) -> str:
    """The name of an object, or the prefix of the one that it gets when it is admitted."""
    metadata = body["metadata"]
    return str(metadata.get("name") or metadata.get("generateName") or "")
