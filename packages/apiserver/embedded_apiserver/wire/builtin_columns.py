"""The columns of the built-in kinds, as `kubectl get` shows them; pods and nodes have more with `-o wide`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from embedded_apiserver.schema.formats import parse_timestamp
from embedded_apiserver.wire.columns import AGE, NAME, Column, age_since, human_duration
from embedded_apiserver.wire.pod_columns import POD_COLUMNS

Json = Any
Object = Mapping[str, Any]


def builtin_columns(group: str, kind: str) -> list[Column]:
    """The columns of a built-in kind; name and age where it has none of its own."""
    return list(_COLUMNS.get((group, kind), (NAME, AGE)))


def _at(obj: Object, *path: str) -> Json:
    """The value at a path of members, None where there is none."""
    value: Json = obj
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _plain(name: str, *path: str, kind: str = "string", empty: Json = "", priority: int = 0) -> Column:
    """A column that shows one field as it is."""

    def cell(obj: Object, _: datetime) -> Json:
        value = _at(obj, *path)
        return empty if value is None or value == "" else value

    return Column(name, cell, type=kind, priority=priority, description=f"The field {'.'.join(path)}.")


def _count(name: str, *path: str, kind: str = "integer") -> Column:
    """A column that counts the entries of a list or map."""
    about = f"How many entries {'.'.join(path)} has."
    return Column(name, lambda obj, _: len(_at(obj, *path) or ()), type=kind, description=about)


def _ready_of_desired(obj: Object, _: datetime) -> str:
    desired = _at(obj, "spec", "replicas")
    return f"{_at(obj, 'status', 'readyReplicas') or 0}/{1 if desired is None else desired}"


def _node_status(node: Object, _: datetime) -> str:
    states = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in _at(node, "status", "conditions") or ()
        if condition.get("type") == "Ready"
    ] or ["Unknown"]
    return ",".join([*states, "SchedulingDisabled"] if _at(node, "spec", "unschedulable") else states)


def _node_roles(node: Object, _: datetime) -> str:
    roles = set()
    for key, value in (_at(node, "metadata", "labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/") and key != "node-role.kubernetes.io/":
            roles.add(key.removeprefix("node-role.kubernetes.io/"))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(roles)) or "<none>"


def _node_address(kind: str) -> Any:
    def cell(node: Object, _: datetime) -> str:
        for address in _at(node, "status", "addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address", ""))
        return "<none>"

    return cell


def _kernel(node: Object, _: datetime) -> str:
    architecture = _at(node, "status", "nodeInfo", "architecture")
    kernel = _at(node, "status", "nodeInfo", "kernelVersion") or "<unknown>"
    return f"{kernel} ({architecture})" if architecture else kernel


def _event_first(event: Object, now: datetime) -> str:
    return age_since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _event_last(event: Object, now: datetime) -> str:
    series = _at(event, "series", "lastObservedTime")
    last = series or event.get("lastTimestamp")
    return age_since(last, now) if last else _event_first(event, now)


def _event_object(event: Object, _: datetime) -> str:
    kind, name = str(_at(event, "involvedObject", "kind") or "").lower(), _at(event, "involvedObject", "name")
    return f"{kind}/{name}" if name else kind


def _job_status(job: Object, _: datetime) -> str:
    true = {c.get("type") for c in _at(job, "status", "conditions") or () if c.get("status") == "True"}
    for condition, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition in true:
            return word
    if _at(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    for condition, word in (
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if condition in true:
            return word
    return "Running"


def _job_completions(job: Object, _: datetime) -> str:
    done, completions = _at(job, "status", "succeeded") or 0, _at(job, "spec", "completions")
    if completions is not None:
        return f"{done}/{completions}"
    parallel = _at(job, "spec", "parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(job: Object, now: datetime) -> str:
    start = parse_timestamp(_at(job, "status", "startTime") or "")
    if start is None:
        return ""
    end = parse_timestamp(_at(job, "status", "completionTime") or "")
    return human_duration((end or now) - start)


def _service_external(service: Object, _: datetime) -> str:
    spec = service.get("spec") or {}
    external = list(spec.get("externalIPs") or ())
    match spec.get("type", "ClusterIP"):
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case "LoadBalancer":
            ingress = _at(service, "status", "loadBalancer", "ingress") or ()
            addresses = [entry.get("ip") or entry.get("hostname") or "" for entry in ingress]
            return ",".join([*addresses, *external]) or "<pending>"
    return ",".join(external) or "<none>"


def _service_ports(service: Object, _: datetime) -> str:
    parts = []
    for port in _at(service, "spec", "ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        parts.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(parts) or "<none>"


def _service_ip(service: Object, _: datetime) -> str:
    addresses = _at(service, "spec", "clusterIPs") or ()
    return (addresses[0] if addresses else _at(service, "spec", "clusterIP")) or "<none>"


_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _claim_status(claim: Object, _: datetime) -> str:
    return "Terminating" if _at(claim, "metadata", "deletionTimestamp") else _at(claim, "status", "phase") or ""


def _claim_capacity(claim: Object, _: datetime) -> str:
    return str(_at(claim, "status", "capacity", "storage") or "") if _at(claim, "spec", "volumeName") else ""


def _claim_modes(claim: Object, _: datetime) -> str:
    modes = _at(claim, "status", "accessModes") or () if _at(claim, "spec", "volumeName") else ()
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _budget(field: str) -> Any:
    def cell(budget: Object, _: datetime) -> str:
        value = _at(budget, "spec", field)
        return "N/A" if value is None else str(value)

    return cell


def _quota(hard: str, prefix: str, *, limits: bool) -> Any:
    def cell(quota: Object, _: datetime) -> str:
        used = _at(quota, "status", "used") or {}
        entries = sorted((_at(quota, "status", hard) or {}).items())
        matching = [(name, limit) for name, limit in entries if name.startswith(prefix) == limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{limit}" for name, limit in matching)

    return cell


_WEBHOOKS: Final = (NAME, _count("Webhooks", "webhooks"), AGE)
_ROLE: Final = (NAME, Column("Created At", lambda obj, _: _at(obj, "metadata", "creationTimestamp") or "", type="date"))
_BINDING: Final = (
    NAME,
    Column("Role", lambda obj, _: f"{_at(obj, 'roleRef', 'kind')}/{_at(obj, 'roleRef', 'name')}"),
    AGE,
)

_COLUMNS: Final[dict[tuple[str, str], tuple[Column, ...]]] = {
    ("", "Pod"): POD_COLUMNS,
    ("", "Node"): (
        NAME,
        Column("Status", _node_status, description="Whether the node is ready and takes new pods."),
        Column("Roles", _node_roles, description="The roles that the node's labels name."),
        AGE,
        _plain("Version", "status", "nodeInfo", "kubeletVersion"),
        Column("Internal-IP", _node_address("InternalIP"), priority=1),
        Column("External-IP", _node_address("ExternalIP"), priority=1),
        _plain("OS-Image", "status", "nodeInfo", "osImage", empty="<unknown>", priority=1),
        Column("Kernel-Version", _kernel, priority=1),
        _plain("Container-Runtime", "status", "nodeInfo", "containerRuntimeVersion", empty="<unknown>", priority=1),
    ),
    ("", "Namespace"): (NAME, _plain("Status", "status", "phase"), AGE),
    ("", "Event"): (
        Column("Last Seen", _event_last),
        _plain("Type", "type"),
        _plain("Reason", "reason"),
        Column("Object", _event_object),
        Column("Message", lambda event, _: str(event.get("message", "")).strip()),
    ),
    ("", "Service"): (
        NAME,
        _plain("Type", "spec", "type"),
        Column("Cluster-IP", _service_ip),
        Column("External-IP", _service_external),
        Column("Port(s)", _service_ports),
        AGE,
    ),
    ("", "ConfigMap"): (
        NAME,
        Column("Data", lambda obj, _: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())),
        AGE,
    ),
    ("", "Secret"): (NAME, _plain("Type", "type"), _count("Data", "data", kind="string"), AGE),
    ("", "ResourceQuota"): (
        NAME,
        Column("Request", _quota("hard", "limits", limits=False)),
        Column("Limit", _quota("hard", "limits", limits=True)),
        AGE,
    ),
    ("", "PersistentVolumeClaim"): (
        NAME,
        Column("Status", _claim_status),
        _plain("Volume", "spec", "volumeName"),
        Column("Capacity", _claim_capacity),
        Column("Access Modes", _claim_modes),
        _plain("StorageClass", "spec", "storageClassName"),
        _plain("VolumeAttributesClass", "spec", "volumeAttributesClassName", empty="<unset>"),
        AGE,
    ),
    ("apps", "Deployment"): (
        NAME,
        Column("Ready", _ready_of_desired),
        _plain("Up-to-date", "status", "updatedReplicas", kind="integer", empty=0),
        _plain("Available", "status", "availableReplicas", kind="integer", empty=0),
        AGE,
    ),
    ("apps", "ReplicaSet"): (
        NAME,
        _plain("Desired", "spec", "replicas", kind="integer", empty=0),
        _plain("Current", "status", "replicas", kind="integer", empty=0),
        _plain("Ready", "status", "readyReplicas", kind="integer", empty=0),
        AGE,
    ),
    ("apps", "StatefulSet"): (NAME, Column("Ready", _ready_of_desired), AGE),
    ("batch", "Job"): (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
    ),
    ("coordination.k8s.io", "Lease"): (NAME, _plain("Holder", "spec", "holderIdentity"), AGE),
    ("scheduling.k8s.io", "PriorityClass"): (
        NAME,
        _plain("Value", "value", kind="integer", empty=0),
        _plain("Global-Default", "globalDefault", kind="boolean", empty=False),
        AGE,
        _plain("PreemptionPolicy", "preemptionPolicy"),
    ),
    ("policy", "PodDisruptionBudget"): (
        NAME,
        Column("Min Available", _budget("minAvailable")),
        Column("Max Unavailable", _budget("maxUnavailable")),
        _plain("Allowed Disruptions", "status", "disruptionsAllowed", kind="integer", empty=0),
        AGE,
    ),
    ("node.k8s.io", "RuntimeClass"): (NAME, _plain("Handler", "handler"), AGE),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _ROLE,
    ("rbac.authorization.k8s.io", "Role"): _ROLE,
    ("rbac.authorization.k8s.io", "ClusterRole"): _ROLE,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
}
