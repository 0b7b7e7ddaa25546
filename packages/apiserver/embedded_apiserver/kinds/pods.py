"""Pods: what the server fills in, what an update may change, and how they end.

The defaults are those of the API's decoding, plus the tolerations that admission adds in every cluster.
"""

import re
from functools import lru_cache
from typing import Any

from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.kinds.pod_validation import USUAL_TOLERATIONS, pod_faults
from embedded_apiserver.kinds.strategy import Strategy, keep
from embedded_apiserver.quantities import settle
from embedded_apiserver.schema.metadata_validation import forbidden_field
from embedded_apiserver.store.object_store import Body

_LOST_NODE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_IMAGE = re.compile(r"(?:.*/)?[^/:@]+(?::(?P<tag>[^@]+))?(?P<digest>@.+)?")


def default_pod_spec(spec: Body) -> None:
    """Fill in a pod's or a pod template's spec as decoding does."""
    spec.setdefault("restartPolicy", "Always")
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    spec.setdefault("dnsPolicy", "ClusterFirst")
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    spec.setdefault("schedulerName", "default-scheduler")
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for container in spec.get("containers") or ():
        _default_container(container, spec)
    for container in spec.get("initContainers") or ():
        _default_container(container, spec)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def _default_container(container: Body, spec: Body) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image") or "")
    resources = container.get("resources")
    if resources is None:
        resources = container["resources"] = {}
    limits = resources.get("limits")
    settle(limits)
    settle(resources.get("requests"))
    if limits:
        requests = resources.get("requests")
        if requests is None:
            requests = resources["requests"] = {}
        for name, amount in limits.items():
            requests.setdefault(name, amount)
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if spec.get("hostNetwork") and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort")
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            field = (variable["valueFrom"] or {}).get("fieldRef")
            if field is not None:
                field.setdefault("apiVersion", "v1")
    for key in _PROBES:
        if key in container:
            probe = container[key]
            if probe:
                _default_probe(probe)


@lru_cache(maxsize=4096)
def _pull_policy(image: str) -> str:
    """An image that may change behind its name is always pulled."""
    match = _IMAGE.fullmatch(image)
    tag = match.group("tag") if match else None
    fixed = match is not None and (match.group("digest") or (tag and tag != "latest"))
    return "IfNotPresent" if fixed else "Always"


def _default_probe(probe: Body) -> None:
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(key):
            probe[key] = value
    http = probe.get("httpGet")
    if http:
        http.setdefault("path", "/")
        http.setdefault("scheme", "HTTP")


def _default_volume(volume: Body) -> None:
    if not any(key != "name" and value is not None for key, value in volume.items()):
        volume["emptyDir"] = {}
    for key in ("secret", "configMap", "downwardAPI", "projected"):
        source = volume.get(key)
        if source is not None:
            source.setdefault("defaultMode", 420)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("serviceAccountToken") is not None:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def quality(spec: Body) -> str:
    """The pod's quality-of-service class: Guaranteed, Burstable or BestEffort."""
    asked, guaranteed = False, True
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            resources = container.get("resources") or {}
            limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
            for name in ("cpu", "memory"):
                limit, request = limits.get(name), requests.get(name)
                limited = limit is not None and limit != "0"
                asked = asked or limited or (request is not None and request != "0")
                if not limited or (request is not None and request != limit):
                    guaranteed = False
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def tolerate_lost_nodes(spec: Body) -> None:
    """Stay five minutes on a node that is not ready or unreachable, unless the pod has its own toleration."""
    tolerations = spec.get("tolerations")
    if not tolerations:
        # Stored bodies are never changed, so the two may be everybody's.
        spec["tolerations"] = [*USUAL_TOLERATIONS]
        return
    tolerations = spec["tolerations"] = [*tolerations]
    for key in _LOST_NODE:
        if not any(t.get("key") in {key, None, ""} and t.get("effect") in {"NoExecute", None, ""} for t in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def stamp(moment: str, type_: str, status: str, reason: str = "", message: str = "") -> Body:
    """A pod condition as of `moment`."""
    condition: Body = {"type": type_, "status": status, "lastProbeTime": None, "lastTransitionTime": moment}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


class PodStrategy(Strategy):
    """Pods."""

    generation = True

    def default(self, body: Body) -> None:
        """Complete the spec."""
        spec = body.get("spec")
        if spec is None:
            spec = body["spec"] = {}
        default_pod_spec(spec)
        if spec.get("enableServiceLinks") is None:
            spec["enableServiceLinks"] = True

    def prepare_create(self, body: Body) -> None:
        """Set the phase Pending, and the condition of a pod with scheduling gates."""
        super().prepare_create(body)
        status: Body = {"phase": "Pending", "qosClass": quality(body["spec"])}
        if body["spec"].get("schedulingGates"):
            text = "Scheduling is blocked due to non-empty scheduling gates"
            moment = body["metadata"]["creationTimestamp"]
            status["conditions"] = [stamp(moment, "PodScheduled", "False", "SchedulingGated", text)]
        body["status"] = status

    def content(self, body: Body) -> Body:
        """The spec is all there is."""
        return body["spec"]  # type: ignore[no-any-return]

    def prepare_status(self, new: Body, old: Body) -> Body:
        """The quality of service is settled at creation. Labels and annotations may change with the status."""
        made = super().prepare_status(new, old)
        for key in ("labels", "annotations"):
            made["metadata"].pop(key, None)
            if key in new["metadata"]:
                made["metadata"][key] = new["metadata"][key]
        settled = old["status"].get("qosClass") or quality(old["spec"])
        made["status"] = {"phase": "Pending", **made.get("status", {}), "qosClass": settled}
        return made

    def validate(self, body: Body) -> list[FieldError]:
        """The rules of a pod's spec."""
        return [*pod_faults(body["spec"], "spec")]

    def validate_update(self, new: Body, old: Body) -> list[FieldError]:
        """A pod's spec is fixed, but for the few fields that the real server lets through."""
        if new["spec"] == old["spec"]:
            return []
        faults = pod_faults(new["spec"], "spec")
        if faults:
            return [*faults]
        if _without_mutable(new["spec"], old["spec"]) != old["spec"]:
            return [forbidden_field("spec", _FIXED)]
        return []

    def grace(self, body: Body, asked: int | None) -> int | None:
        """No grace period for a pod without a node; else that of the request or the spec."""
        spec, status = body["spec"], body.get("status") or {}
        period = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 30)
        if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
            return 0
        return max(int(period), 0) if period >= 0 else 1


def _without_mutable(new: Body, old: Body) -> Body:
    """The new spec with every permitted change taken back."""
    spec = dict(new)
    for key in ("containers", "initContainers"):
        after, before = new.get(key) or [], old.get(key) or []
        if len(after) == len(before) and key in new:
            spec[key] = [{**a, "image": b.get("image")} for a, b in zip(after, before, strict=True)]
    keep(spec, old, "activeDeadlineSeconds")
    if all(toleration in (new.get("tolerations") or []) for toleration in old.get("tolerations") or []):
        keep(spec, old, "tolerations")
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        keep(spec, old, "terminationGracePeriodSeconds")
    if "schedulingGates" in old:
        names = {gate["name"] for gate in old["schedulingGates"] or ()}
        if all(gate["name"] in names for gate in new.get("schedulingGates") or ()):
            keep(spec, old, "schedulingGates")
        if _narrowed(new, old):
            keep(spec, old, "nodeSelector")
    return spec


def _narrowed(new: Body, old: Body) -> bool:
    """A gated pod's node selector may gain terms."""
    after: dict[str, Any] = new.get("nodeSelector") or {}
    return bool(old.get("schedulingGates")) and after.items() >= (old.get("nodeSelector") or {}).items()
