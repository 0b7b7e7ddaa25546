"""The built-in kinds that the server serves, and the rules of those that have some. Pods have a file of their own."""

import base64
import binascii
from typing import Any

from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.kinds.admission_configuration import PolicyBindingStrategy, PolicyStrategy, WebhookStrategy
from embedded_apiserver.kinds.events import from_core, to_core
from embedded_apiserver.kinds.kinds import FIELDS, Kind
from embedded_apiserver.kinds.pods import PodStrategy, default_pod_spec
from embedded_apiserver.kinds.strategy import Strategy
from embedded_apiserver.quantities import settle
from embedded_apiserver.schema.metadata_validation import (
    forbidden_field,
    label_faults,
    path_segment_faults,
    required,
    service_faults,
    wrong,
)
from embedded_apiserver.store.object_store import Body

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class NamespaceStrategy(Strategy):
    """Namespaces: created Active, with the finalizer `kubernetes`."""

    name_rule = staticmethod(label_faults)

    def default(self, body: Body) -> None:
        """Every namespace carries its name as a label."""
        metadata = body["metadata"]
        if metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}

    def prepare_create(self, body: Body) -> None:
        """Set the phase Active."""
        body["spec"] = {**(body.get("spec") or {}), "finalizers": ["kubernetes"]}
        body["status"] = {"phase": "Active"}

    def prepare_update(self, new: Body, old: Body) -> None:
        """Finalizers of the spec change through the finalize subresource only."""
        super().prepare_update(new, old)
        new["spec"] = {**(new.get("spec") or {}), "finalizers": old["spec"].get("finalizers", [])}


class NodeStrategy(Strategy):
    """Nodes: created with the status that their agent reports."""

    keeps_status = True

    def default(self, body: Body) -> None:
        """Amounts in their canonical spelling."""
        status = body.get("status") or {}
        settle(status.get("capacity"))
        settle(status.get("allocatable"))

    def prepare_status(self, new: Body, old: Body) -> Body:
        """The same, of a reported status."""
        self.default(new)
        return super().prepare_status(new, old)


class SecretStrategy(Strategy):
    """Secrets: plain text is stored as base64."""

    def default(self, body: Body) -> None:
        """Type Opaque; stringData becomes data."""
        body.setdefault("type", "Opaque")
        plain = body.pop("stringData", None)
        if plain:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
            body["data"] = {**(body.get("data") or {}), **encoded}

    def validate(self, body: Body) -> list[FieldError]:
        """Data must be base64."""
        faults: list[FieldError] = []
        for key, value in (body.get("data") or {}).items():
            try:
                base64.b64decode(value or "", validate=True)
            except (binascii.Error, TypeError):
                faults.append(wrong(f"data[{key}]", value, "must be base64 text"))
        return faults


class ConfigMapStrategy(Strategy):
    """ConfigMaps, with the field `immutable`."""

    def validate_update(self, new: Body, old: Body) -> list[FieldError]:
        """An immutable one never changes."""
        if old.get("immutable"):
            for key in ("data", "binaryData"):
                if new.get(key) != old.get(key):
                    return [forbidden_field(key, "field is immutable when `immutable` is set")]
        return []


class ServiceStrategy(Strategy):
    """Services: a cluster address that nothing listens on."""

    name_rule = staticmethod(service_faults)
    _next = 0

    def default(self, body: Body) -> None:
        """Type, affinity, protocols and target ports."""
        spec = body.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))

    def prepare_create(self, body: Body) -> None:
        """Give it an address."""
        body["status"] = {"loadBalancer": {}}
        spec = body["spec"]
        if spec["type"] == "ExternalName":
            return
        if not spec.get("clusterIP"):
            ServiceStrategy._next += 1
            number = ServiceStrategy._next % 65000 + 10
            spec["clusterIP"] = f"10.96.{number // 256}.{number % 256}"
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def prepare_update(self, new: Body, old: Body) -> None:
        """An address stays when the update leaves it out."""
        super().prepare_update(new, old)
        for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if key in old["spec"] and not new["spec"].get(key):
                new["spec"][key] = old["spec"][key]

    def validate(self, body: Body) -> list[FieldError]:
        """A service with an address and no head needs ports."""
        spec = body["spec"]
        if not spec.get("ports") and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
            return [required("spec.ports")]
        return []

    def validate_update(self, new: Body, old: Body) -> list[FieldError]:
        """The address never changes."""
        faults = self.validate(new)
        before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
        if before and before != after and new["spec"]["type"] != "ExternalName":
            faults.append(wrong("spec.clusterIPs[0]", [after], "may not change once set"))
        return faults


class PriorityClassStrategy(Strategy):
    """PriorityClasses; the value is immutable."""

    def default(self, body: Body) -> None:
        """Default the preemption policy to PreemptLowerPriority."""
        body.setdefault("preemptionPolicy", "PreemptLowerPriority")
        body.setdefault("value", 0)

    def validate(self, body: Body) -> list[FieldError]:
        """Reject reserved names and values."""
        name, value = body["metadata"].get("name", ""), body["value"]
        if name.startswith("system-"):
            if SYSTEM_PRIORITIES.get(name) != value:
                text = f"priority class names with 'system-' prefix are reserved for system use only. error: {name} is not "
                text += "a known system priority class"
                return [forbidden_field("metadata.name", text)]
        elif value > HIGHEST_USER_PRIORITY:
            return [
                forbidden_field("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
            ]
        return []

    def validate_update(self, new: Body, old: Body) -> list[FieldError]:
        """Value and preemption policy are immutable."""
        faults: list[FieldError] = []
        if new["value"] != old["value"]:
            faults.append(forbidden_field("value", "may not be changed in an update."))
        if new["preemptionPolicy"] != old["preemptionPolicy"]:
            faults.append(wrong("preemptionPolicy", new["preemptionPolicy"], "field is immutable"))
        return faults


class RuntimeClassStrategy(Strategy):
    """RuntimeClasses; the handler is immutable."""

    def validate(self, body: Body) -> list[FieldError]:
        """The handler is the name of a setting of nodes."""
        handler = body.get("handler")
        return [wrong("handler", handler, text) for text in label_faults(handler)] if handler else [required("handler")]

    def validate_update(self, new: Body, old: Body) -> list[FieldError]:
        """Reject another handler."""
        same = new.get("handler") == old.get("handler")
        return [] if same else [wrong("handler", new.get("handler"), "field is immutable")]


class DefaultsStrategy(Strategy):
    """Kinds whose only rule is a few defaults."""

    top: dict[str, Any] = {}  # noqa: RUF012 - given per kind at construction
    spec: dict[str, Any] = {}  # noqa: RUF012
    first_status: dict[str, Any] = {}  # noqa: RUF012

    def default(self, body: Body) -> None:
        """Fill in what is missing."""
        for key, value in self.top.items():
            body.setdefault(key, value)
        if self.spec:
            spec = body.setdefault("spec", {})
            for key, value in self.spec.items():
                spec.setdefault(key, value)

    def prepare_create(self, body: Body) -> None:
        """Set the first status."""
        super().prepare_create(body)
        if self.first_status:
            body["status"] = dict(self.first_status)


class TemplateStrategy(DefaultsStrategy):
    """Workloads that hold a pod template: stored for others to act on; no controller of theirs runs here."""

    generation = True

    def default(self, body: Body) -> None:
        """Defaults of the kind and of its pod template."""
        super().default(body)
        template = body.setdefault("spec", {}).get("template")
        if template and isinstance(template.get("spec"), dict):
            template.setdefault("metadata", {})
            default_pod_spec(template["spec"])

    def prepare_create(self, body: Body) -> None:
        """A new one has an empty status."""
        super().prepare_create(body)
        body["status"] = {}


class KubernetesJobStrategy(TemplateStrategy):
    """Kubernetes' Jobs: one completion is the default only of a job that states no parallelism."""

    def default(self, body: Body) -> None:
        """Defaults of the kind and of its pod template."""
        spec = body.setdefault("spec", {})
        if "parallelism" not in spec:
            spec.setdefault("completions", 1)
        super().default(body)


_POD_FIELDS = (
    *FIELDS,
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
_EVENT_FIELDS = (
    *FIELDS,
    *(
        f"involvedObject.{key}"
        for key in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    ),
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_EVENT_ALIASES = {"source": "source.component", "reportingController": "reportingComponent"} | {
    f"regarding.{key}": f"involvedObject.{key}" for key in ("kind", "namespace", "name", "uid")
}


def _core() -> list[Kind]:
    plain = Strategy()
    free = Strategy(create_on_update=True)
    named_freely = Strategy(create_on_update=True, name_rule=path_segment_faults)
    event = Kind("", "v1", "Event", "events", True, named_freely, short_names=("ev",), fields=_EVENT_FIELDS,
                 aliases=_EVENT_ALIASES)  # fmt: skip
    claim = DefaultsStrategy(status=True, spec={"volumeMode": "Filesystem"}, first_status={"phase": "Pending"})
    volume = DefaultsStrategy(
        status=True,
        spec={"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"},
        first_status={"phase": "Available"},
    )
    status = ("status",)
    everywhere = ("all",)
    ns = NamespaceStrategy(status=True)
    node = NodeStrategy(status=True)
    return [
        Kind("", "v1", "Namespace", "namespaces", False, ns, short_names=("ns",), subresources=("finalize", "status"),
             fields=(*FIELDS, "status.phase"), verbs=("create", "delete", "get", "list", "patch", "update", "watch")),
        Kind("", "v1", "Pod", "pods", True, PodStrategy(status=True), short_names=("po",), categories=everywhere,
             subresources=("attach", "binding", "eviction", "exec", "log", "portforward", "status"), fields=_POD_FIELDS),
        Kind("", "v1", "Node", "nodes", False, node, short_names=("no",), subresources=status,
             fields=(*FIELDS, "spec.unschedulable")),
        Kind("", "v1", "Service", "services", True, ServiceStrategy(status=True), short_names=("svc",),
             categories=everywhere, subresources=status, fields=(*FIELDS, "spec.clusterIP", "spec.type")),
        Kind("", "v1", "Endpoints", "endpoints", True, free, short_names=("ep",)),
        Kind("", "v1", "ConfigMap", "configmaps", True, ConfigMapStrategy(), short_names=("cm",)),
        Kind("", "v1", "Secret", "secrets", True, SecretStrategy(), fields=(*FIELDS, "type")),
        event,
        Kind("", "v1", "ServiceAccount", "serviceaccounts", True, plain, short_names=("sa",),
             subresources=("token",)),
        Kind("", "v1", "PersistentVolume", "persistentvolumes", False, volume, short_names=("pv",),
             subresources=status),
        Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, claim, short_names=("pvc",),
             subresources=status),
        Kind("", "v1", "ResourceQuota", "resourcequotas", True, Strategy(status=True), short_names=("quota",),
             subresources=status),
        Kind("", "v1", "LimitRange", "limitranges", True, free, short_names=("limits",)),
        Kind("events.k8s.io", "v1", "Event", "events", True, free, short_names=("ev",), bucket="events",
             stored_version="v1", fields=_EVENT_FIELDS, aliases=_EVENT_ALIASES, incoming=to_core, outgoing=from_core),
    ]  # fmt: skip


def _workloads() -> list[Kind]:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    deployment = TemplateStrategy(status=True, spec={
        "replicas": 1, "strategy": rolling, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})  # fmt: skip
    stateful = TemplateStrategy(status=True, spec={
        "replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}})  # fmt: skip
    job = KubernetesJobStrategy(status=True, propagation="Orphan", spec={
        "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed"})  # fmt: skip
    cron = TemplateStrategy(status=True, spec={
        "concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1})  # fmt: skip
    plain = TemplateStrategy(status=True)
    scaled = ("scale", "status")
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".spec.selector",
    }
    all_category = ("all",)
    return [
        Kind("apps", "v1", "Deployment", "deployments", True, deployment, short_names=("deploy",), categories=all_category,
             subresources=scaled, scale=scale),
        Kind("apps", "v1", "StatefulSet", "statefulsets", True, stateful, short_names=("sts",), categories=all_category,
             subresources=scaled, scale=scale),
        Kind("apps", "v1", "ReplicaSet", "replicasets", True, TemplateStrategy(status=True, spec={"replicas": 1}),
             short_names=("rs",), categories=all_category, subresources=scaled, scale=scale),
        Kind("apps", "v1", "DaemonSet", "daemonsets", True, plain, short_names=("ds",), categories=all_category,
             subresources=("status",)),
        Kind("apps", "v1", "ControllerRevision", "controllerrevisions", True, Strategy()),
        Kind("batch", "v1", "Job", "jobs", True, job, categories=all_category, subresources=("status",),
             fields=(*FIELDS, "status.successful")),
        Kind("batch", "v1", "CronJob", "cronjobs", True, cron, short_names=("cj",), categories=all_category,
             subresources=("status",)),
    ]  # fmt: skip


def _others() -> list[Kind]:
    plain, status = Strategy(), ("status",)
    stated = Strategy(status=True)
    counted = Strategy(generation=True)
    lease = Strategy(create_on_update=True, unconditional_update=False)
    budget = Strategy(status=True, generation=True, unconditional_update=False)
    storage = DefaultsStrategy(top={"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
    driver = DefaultsStrategy(spec={"attachRequired": True, "podInfoOnMount": False, "requiresRepublish": False,
                                    "storageCapacity": False, "fsGroupPolicy": "ReadWriteOnceWithFSType"})  # fmt: skip
    ingress = DefaultsStrategy(status=True, generation=True, first_status={"loadBalancer": {}})
    use = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    autoscaler = DefaultsStrategy(
        status=True,
        spec={"minReplicas": 1, "metrics": [{"type": "Resource", "resource": use}]},
        first_status={"desiredReplicas": 0, "currentMetrics": None},
    )
    rbac, dra, hooks = "rbac.authorization.k8s.io", "resource.k8s.io", "admissionregistration.k8s.io"
    named = Strategy(name_rule=path_segment_faults)
    return [
        Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False,
             PriorityClassStrategy(generation=True), short_names=("pc",)),
        Kind("coordination.k8s.io", "v1", "Lease", "leases", True, lease),
        Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, budget, short_names=("pdb",),
             subresources=status),
        Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, storage, short_names=("sc",)),
        Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False, plain),
        Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False, driver),
        Kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True, plain),
        Kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, stated, subresources=status),
        Kind(dra, "v1", "ResourceClaim", "resourceclaims", True, stated, subresources=status),
        Kind(dra, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", True, plain),
        Kind(dra, "v1", "ResourceSlice", "resourceslices", False, counted,
             fields=(*FIELDS, "spec.nodeName", "spec.driver")),
        Kind(dra, "v1", "DeviceClass", "deviceclasses", False, counted),
        Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, counted, short_names=("netpol",)),
        Kind("networking.k8s.io", "v1", "Ingress", "ingresses", True, ingress, short_names=("ing",),
             subresources=status),
        Kind("networking.k8s.io", "v1", "IngressClass", "ingressclasses", False, counted),
        Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True, counted),
        Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, autoscaler,
             short_names=("hpa",), categories=("all",), subresources=status),
        Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False, RuntimeClassStrategy()),
        Kind(rbac, "v1", "Role", "roles", True, named),
        Kind(rbac, "v1", "RoleBinding", "rolebindings", True, named),
        Kind(rbac, "v1", "ClusterRole", "clusterroles", False, named),
        Kind(rbac, "v1", "ClusterRoleBinding", "clusterrolebindings", False, named),
        Kind(hooks, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False, WebhookStrategy(),
             categories=("api-extensions",)),
        Kind(hooks, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False,
             WebhookStrategy(), categories=("api-extensions",)),
        Kind(hooks, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False, PolicyStrategy(status=True),
             categories=("api-extensions",), subresources=status),
        Kind(hooks, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False,
             PolicyBindingStrategy(), categories=("api-extensions",)),
    ]  # fmt: skip


def _reviews() -> list[Kind]:
    plain, verbs = Strategy(), ("create",)
    authz, authn = "authorization.k8s.io", "authentication.k8s.io"
    return [
        Kind(authz, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, plain, verbs=verbs),
        Kind(authz, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False, plain, verbs=verbs),
        Kind(authz, "v1", "SubjectAccessReview", "subjectaccessreviews", False, plain, verbs=verbs),
        Kind(authz, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", True, plain, verbs=verbs),
        Kind(authn, "v1", "SelfSubjectReview", "selfsubjectreviews", False, plain, verbs=verbs),
        Kind(authn, "v1", "TokenReview", "tokenreviews", False, plain, verbs=verbs),
    ]


def builtin_kinds() -> list[Kind]:
    """All of them, but CustomResourceDefinition, whose strategy needs the registry."""
    return [*_core(), *_workloads(), *_others(), *_reviews()]
