"""The admission compiled into every API server that matters to a batch system: priorities, lost nodes, service accounts."""

from volcanopy.local.apiserver.context import Context
from volcanopy.local.apiserver.http.status_errors import forbidden
from volcanopy.local.apiserver.kinds.builtin import SYSTEM_PRIORITIES
from volcanopy.local.apiserver.kinds.kinds import Kind
from volcanopy.local.apiserver.kinds.pods import tolerate_lost_nodes
from volcanopy.local.apiserver.store.object_store import Body

CLASSES = "priorityclasses.scheduling.k8s.io"


def admit_create(ctx: Context, kind: Kind, body: Body) -> None:
    """Complete a new object as the built-in admission plugins do."""
    if kind.bucket == "pods":
        _priority(ctx, body)
        spec = body["spec"]
        tolerate_lost_nodes(spec)
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = "default"


def _priority(ctx: Context, body: Body) -> None:
    spec = body["spec"]
    classes = ctx.store.bucket(CLASSES)
    name = spec.get("priorityClassName")
    priority_class: Body | None = None
    if name:
        entry = classes.get("", name)
        if entry is None:
            pod = body["metadata"].get("name", "")
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
        pod = body["metadata"].get("name", "")
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name"
        )
        raise forbidden("pods", "", pod, why)
    spec["priority"] = priority
    spec.setdefault("preemptionPolicy", policy)
