"""The objects that the stories speak of, and why some answers cannot be the same to the letter."""

import copy
from typing import Any

WIDGETS = "/apis/contract.example.io/v1/namespaces/{ns}/widgets"
PODS = "/api/v1/namespaces/{ns}/pods"
MAPS = "/api/v1/namespaces/{ns}/configmaps"

GADGETS = "/apis/more.example.io/v1/namespaces/{ns}/gadgets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OWNED = ("managedFields",)
GHOST = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "00000000-0000-4000-a000-000000000000"}

WIDGET_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.contract.example.io"},
    "spec": {
        "group": "contract.example.io",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "string", "jsonPath": ".spec.size"},
                    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "x-kubernetes-validations": [
                                    {
                                        "rule": "self.least <= self.replicas",
                                        "message": "least must not exceed replicas",
                                    },
                                    {"rule": "self.size == oldSelf.size", "message": "size is fixed"},
                                ],
                                "properties": {
                                    "size": {"type": "string", "enum": ["small", "large"]},
                                    "replicas": {"type": "integer", "default": 1, "minimum": 0, "maximum": 10},
                                    "least": {"type": "integer", "default": 0},
                                    "parts": {
                                        "type": "array",
                                        "maxItems": 3,
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                                                "weight": {"type": "integer"},
                                            },
                                        },
                                    },
                                },
                            },
                            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}


QUOTED = "the message quotes the object, whose order of keys and Go syntax are not copied"
DECODER = "the message quotes the insides of Go's decoder"
TWICE = "the real server names the same cause twice"
SCALE = "the real server reads the replicas of a scalable kind a second time, and reports that as well"


def widget(name: str = "w", **spec: Any) -> dict[str, Any]:
    """A widget; small by default."""
    return {
        "apiVersion": "contract.example.io/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": "small", **spec},
    }


def pod(name: str = "p", labels: dict[str, str] | None = None, container: Any = None, **spec: Any) -> dict[str, Any]:
    """A pod with one container; without the token that the real server would mount."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "spec": {
            "containers": [container or {"name": "c", "image": "busybox"}],
            **spec,
        },
    }


def map_of(name: str = "m", labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"k": "v"}}


def binding(name: str, node: str, **metadata: Any) -> dict[str, Any]:
    """A Binding of the pod to the node."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}


def gadget_definition(group: str = "more.example.io", approval: str = "") -> dict[str, Any]:
    """The definition of a kind much like Widget."""
    made = copy.deepcopy(WIDGET_DEFINITION)
    made["metadata"]["name"] = f"gadgets.{group}"
    if approval:
        made["metadata"]["annotations"] = {"api-approved.kubernetes.io": approval}
    made["spec"] |= {"group": group, "names": {"plural": "gadgets", "kind": "Gadget"}}
    return made


def demanding(**resources: Any) -> dict[str, Any]:
    """A container with these resources."""
    return {"name": "c", "image": "i", "resources": resources}
