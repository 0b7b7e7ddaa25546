"""Pods that both servers must reject, at the same fields: by the name of the case, the fields of the pod that are wrong."""

from typing import Any

from contract.objects import pod

LONG = "a" * 64
OBJECT = {"name": "x"}
ITEM = {"key": "k", "path": "p"}
FIELD = {"fieldRef": {"fieldPath": "metadata.name"}}
BAD_PATHS = {
    "absolute": "/x",
    "with two dots": "a/../b",
    "up": "..",
    "up and down": "../x",
    "that begins with two dots": "..x",
    "that is empty": "",
}
"""Paths of files in a volume."""


def with_volumes(*volumes: dict[str, Any]) -> dict[str, Any]:
    return pod(volumes=list(volumes))


def volume(**source: Any) -> dict[str, Any]:
    return with_volumes({"name": "v", **source})


def container(**fields: Any) -> dict[str, Any]:
    return pod(container={"name": "c", "image": "i", **fields})


def mounts(*all_mounts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A container with mounts of the volumes `v` and `w`."""
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]
    return pod(container={"name": "c", "image": "i", "volumeMounts": list(all_mounts), **fields}, volumes=volumes)


def mount(**fields: Any) -> dict[str, Any]:
    return mounts({"name": "v", "mountPath": "/v", **fields})


def of_objects() -> dict[str, dict[str, Any]]:
    """Volumes whose files come from objects, alone and projected."""
    cases: dict[str, dict[str, Any]] = {}
    kinds = {"configMap": {"name": "x"}, "secret": {"secretName": "x"}}
    for kind, reference in kinds.items():
        cases[f"{kind} without a name"] = volume(**{kind: {}})
        cases[f"{kind} with a mode of 01000"] = volume(**{kind: {**reference, "defaultMode": 0o1000}})
        cases[f"{kind} with a negative mode"] = volume(**{kind: {**reference, "defaultMode": -1}})
        cases[f"{kind} with an item without a key"] = volume(
            **{kind: {**reference, "items": [{"key": "", "path": "p"}]}}
        )
        cases[f"{kind} with an item with a wrong mode"] = volume(
            **{kind: {**reference, "items": [{**ITEM, "mode": 0o1000}]}}
        )
        for what, path in BAD_PATHS.items():
            items = [ITEM, {"key": "k", "path": path}]
            cases[f"{kind} with an item's path {what}"] = volume(**{kind: {**reference, "items": items}})
    for kind in ("configMap", "secret"):
        cases[f"projected {kind} without a name"] = projected({kind: {}})
        for what, path in BAD_PATHS.items():
            cases[f"projected {kind} with a path {what}"] = projected(
                {kind: {**OBJECT, "items": [{"key": "k", "path": path}]}}
            )
    for what, path in BAD_PATHS.items():
        cases[f"downwardAPI with a path {what}"] = volume(downwardAPI={"items": [{"path": path, **FIELD}]})
        cases[f"projected downwardAPI with a path {what}"] = projected(
            {"downwardAPI": {"items": [{"path": path, **FIELD}]}}
        )
        cases[f"projected token with a path {what}"] = projected({"serviceAccountToken": {"path": path}})
    return cases


def projected(*sources: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return pod(
        volumes=[{"name": "v", "projected": {"sources": list(sources), **fields}}],
        serviceAccountName="default",
        automountServiceAccountToken=False,
    )


def downward(**item: Any) -> dict[str, Any]:
    return volume(downwardAPI={"items": [{"path": "p", **item}]})


VOLUMES: dict[str, dict[str, Any]] = {
    "a volume without a name": with_volumes({"emptyDir": {}}),
    "a volume with an empty name": with_volumes({"name": "", "emptyDir": {}}),
    "a volume with capitals": with_volumes({"name": "V", "emptyDir": {}}),
    "a volume with a dot": with_volumes({"name": "a.b", "emptyDir": {}}),
    "a volume with a slash": with_volumes({"name": "../x", "emptyDir": {}}),
    "a volume with a long name": with_volumes({"name": LONG, "emptyDir": {}}),
    "two volumes of one name": with_volumes({"name": "v"}, {"name": "v"}),
    "three volumes of one name": with_volumes({"name": "v"}, {"name": "v"}, {"name": "v", "hostPath": {"path": "/x"}}),
    "a volume with two sources": volume(emptyDir={}, hostPath={"path": "/x"}),
    "a volume with two sources of objects": volume(secret={"secretName": "x"}, configMap=OBJECT),
    "a volume with three sources": volume(emptyDir={}, configMap=OBJECT, persistentVolumeClaim={"claimName": "x"}),
    "a volume with a projected and another source": volume(projected={"sources": []}, downwardAPI={}),
    "emptyDir with a negative limit": volume(emptyDir={"sizeLimit": "-1"}),
    "hostPath without a path": volume(hostPath={}),
    "hostPath with an empty path": volume(hostPath={"path": ""}),
    "hostPath with two dots": volume(hostPath={"path": "/a/../b"}),
    "hostPath up": volume(hostPath={"path": ".."}),
    "hostPath of an unknown type": volume(hostPath={"path": "/x", "type": "Folder"}),
    "a claim without a name": volume(persistentVolumeClaim={}),
    "a claim with an empty name": volume(persistentVolumeClaim={"claimName": ""}),
    "nfs without a server": volume(nfs={"path": "/x"}),
    "nfs without a path": volume(nfs={"server": "s"}),
    "nfs with a relative path": volume(nfs={"server": "s", "path": "x"}),
    "csi without a driver": volume(csi={}),
    "csi with a wrong driver": volume(csi={"driver": "a_b"}),
    "an ephemeral volume without a template": volume(ephemeral={}),
    "downwardAPI without a reference": downward(),
    "downwardAPI with two references": downward(
        **FIELD, resourceFieldRef={"containerName": "c", "resource": "limits.cpu"}
    ),
    "downwardAPI of an unknown field": downward(fieldRef={"fieldPath": "metadata.nothing"}),
    "downwardAPI of a field for variables": downward(fieldRef={"fieldPath": "status.podIP"}),
    "downwardAPI without a field": downward(fieldRef={"fieldPath": ""}),
    "downwardAPI of an unknown version": downward(fieldRef={"apiVersion": "v2", "fieldPath": "metadata.name"}),
    "downwardAPI of a wrong label": downward(fieldRef={"fieldPath": "metadata.labels['a b']"}),
    "downwardAPI of a container without a name": downward(resourceFieldRef={"resource": "limits.cpu"}),
    "downwardAPI of no resource": downward(resourceFieldRef={"containerName": "c", "resource": ""}),
    "downwardAPI of an unknown resource": downward(resourceFieldRef={"containerName": "c", "resource": "limits.gpu"}),
    "downwardAPI with a wrong divisor": downward(
        resourceFieldRef={"containerName": "c", "resource": "limits.cpu", "divisor": "3"}
    ),
    "downwardAPI with a wrong divisor of memory": downward(
        resourceFieldRef={"containerName": "c", "resource": "requests.memory", "divisor": "1m"}
    ),
    "downwardAPI with a wrong mode": volume(downwardAPI={"defaultMode": 0o1000}),
    "downwardAPI with an item with a wrong mode": downward(**FIELD, mode=-1),
    "projected with a wrong mode": projected(defaultMode=0o1000),
    "projected with two kinds in one source": projected({"configMap": OBJECT, "secret": OBJECT}),
    "projected with the same path twice": projected(
        {"configMap": {**OBJECT, "items": [ITEM]}}, {"secret": {**OBJECT, "items": [ITEM]}}
    ),
    "projected with the same path twice in one source": projected({"configMap": {**OBJECT, "items": [ITEM, ITEM]}}),
    "a projected token without a path": projected({"serviceAccountToken": {}}),
    "a projected token of nine minutes": projected({"serviceAccountToken": {"path": "p", "expirationSeconds": 540}}),
    "a projected token of centuries": projected({"serviceAccountToken": {"path": "p", "expirationSeconds": 1 << 33}}),
    **of_objects(),
}

MOUNTS: dict[str, dict[str, Any]] = {
    "a mount without a name": mounts({"mountPath": "/v"}),
    "a mount with an empty name": mounts({"name": "", "mountPath": "/v"}),
    "a mount without a path": mounts({"name": "v"}),
    "a mount with an empty path": mount(mountPath=""),
    "a mount of an unknown volume": mounts({"name": "x", "mountPath": "/x"}),
    "a mount without name and path": mounts({}),
    "a mount of a volume that is wrong": pod(
        container={"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        volumes=[{"name": "v", "hostPath": {"path": "/.."}}],
    ),
    "a mount in a pod without volumes": container(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
    "two mounts at one path": mounts({"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/v"}),
    "three mounts at one path": mounts(*[{"name": "v", "mountPath": "/v"}] * 3),
    "an absolute subPath": mount(subPath="/x"),
    "a subPath up": mount(subPath=".."),
    "a subPath with two dots": mount(subPath="a/../b"),
    "a subPath up to another pod": mount(subPath="../../../x"),
    "a subPath that ends with two dots": mount(subPath="a/.."),
    "an absolute subPathExpr": mount(subPathExpr="/x"),
    "a subPathExpr up": mount(subPathExpr=".."),
    "a subPathExpr with two dots": mount(subPathExpr="a/../$(B)"),
    "subPath and subPathExpr": mount(subPath="a", subPathExpr="b"),
    "a wrong subPath and subPathExpr": mount(subPath="..", subPathExpr="/b"),
    "an unknown propagation": mount(mountPropagation="Sideways"),
    "a bidirectional propagation without privileges": mount(mountPropagation="Bidirectional"),
    "a recursively read-only mount that is writable": mount(recursiveReadOnly="Enabled"),
    "an unknown recursive mode": mount(readOnly=True, recursiveReadOnly="Sometimes"),
    "a recursively read-only mount with propagation": mount(
        readOnly=True, recursiveReadOnly="Enabled", mountPropagation="HostToContainer"
    ),
    "a mount of an init container of an unknown volume": pod(
        initContainers=[{"name": "i", "image": "i", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}]
    ),
    "a subPath with two dots of an init container": pod(
        initContainers=[
            {"name": "i", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": ".."}]}
        ],
        volumes=[{"name": "v"}],
    ),
    "a device without a path": container(volumeDevices=[{"name": "v"}]),
    "a device of an unknown volume": container(volumeDevices=[{"name": "v", "devicePath": "/v"}]),
    "a device of a volume that is no claim": mounts(volumeDevices=[{"name": "v", "devicePath": "/d"}]),
    "a device with two dots": mounts(volumeDevices=[{"name": "v", "devicePath": "/a/../d"}]),
}

NAMES: dict[str, dict[str, Any]] = {
    "no containers": pod(containers=[]),
    "a container without a name": pod(container={"image": "i"}),
    "a container with capitals": pod(container={"name": "C", "image": "i"}),
    "a container with a dot": pod(container={"name": "a.b", "image": "i"}),
    "a container with a slash": pod(container={"name": "../c", "image": "i"}),
    "a container with a line": pod(container={"name": "c\n", "image": "i"}),
    "a container with a hyphen at the end": pod(container={"name": "c-", "image": "i"}),
    "a container with a long name": pod(container={"name": LONG, "image": "i"}),
    "a container without an image": pod(container={"name": "c"}),
    "an image with a space": pod(container={"name": "c", "image": " i"}),
    "two containers of one name": pod(containers=[{"name": "c", "image": "i"}] * 2),
    "an init container with the name of a container": pod(initContainers=[{"name": "c", "image": "i"}]),
    "an init container without a name": pod(initContainers=[{"image": "i"}]),
    "an init container with a wrong restartPolicy": pod(
        initContainers=[{"name": "i", "image": "i", "restartPolicy": "Maybe"}]
    ),
    "a pod with capitals": pod("P"),
    "a pod with a slash": pod("a/b"),
    "a pod with two dots": pod(".."),
    "a pod with a long name": pod("a" * 254),
    "a pod with an underscore": pod("a_b"),
    "a host name with capitals": pod(hostname="H"),
    "a host name with a dot": pod(hostname="a.b"),
    "a long host name": pod(hostname=LONG),
    "a host name with a line": pod(hostname="a\nb"),
    "a subdomain with a dot": pod(subdomain="a.b"),
    "a subdomain with capitals": pod(subdomain="S"),
    "a wrong service account": pod(serviceAccountName="../default", automountServiceAccountToken=False),
    "a wrong node": pod(nodeName="../n"),
    "a wrong label": pod(labels={"a b": "c"}),
    "a wrong label value": pod(labels={"a": "c d"}),
    "an alias without an address": pod(hostAliases=[{"ip": "x", "hostnames": ["a"]}]),
    "an alias with a wrong name": pod(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a b"]}]),
    "an alias with a name with a line": pod(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a\n10.0.0.2 b"]}]),
    "a secret without a name": pod(imagePullSecrets=[{"name": ""}], volumes=[{"name": "v", "secret": {}}]),
    "an unknown operating system": pod(os={"name": "plan9"}),
    "a deadline of zero": pod(activeDeadlineSeconds=0),
    "an unknown restartPolicy": pod(restartPolicy="Sometimes"),
    "an unknown dnsPolicy": pod(dnsPolicy="Sometimes"),
}

CONTAINERS: dict[str, dict[str, Any]] = {
    "a port of zero": container(ports=[{"containerPort": 0}]),
    "a port that is too large": container(ports=[{"containerPort": 65536}]),
    "a negative port": container(ports=[{"containerPort": -1}]),
    "a port without a number": container(ports=[{"name": "p"}]),
    "a host port that is too large": container(ports=[{"containerPort": 80, "hostPort": 65536}]),
    "an unknown protocol": container(ports=[{"containerPort": 80, "protocol": "ICMP"}]),
    "a port name with capitals": container(ports=[{"containerPort": 80, "name": "P"}]),
    "a port name with digits only": container(ports=[{"containerPort": 80, "name": "80"}]),
    "a port name that is too long": container(ports=[{"containerPort": 80, "name": "a" * 16}]),
    "a port name with two hyphens": container(ports=[{"containerPort": 80, "name": "a--b"}]),
    "a port name with a hyphen at the end": container(ports=[{"containerPort": 80, "name": "a-"}]),
    "two ports of one name": container(ports=[{"containerPort": 80, "name": "p"}, {"containerPort": 81, "name": "p"}]),
    "two host ports of one number": container(
        ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]
    ),
    "a variable without a name": container(env=[{"value": "x"}]),
    "a variable with an equals sign": container(env=[{"name": "A=B"}]),
    "a variable with value and source": container(env=[{"name": "A", "value": "x", "valueFrom": FIELD}]),
    "a variable with an empty source": container(env=[{"name": "A", "valueFrom": {}}]),
    "a variable with two sources": container(
        env=[{"name": "A", "valueFrom": {**FIELD, "configMapKeyRef": {"name": "x", "key": "k"}}}]
    ),
    "a variable of an unknown field": container(
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nothing"}}}]
    ),
    "a variable of all labels": container(
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]
    ),
    "a variable of no field": container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": ""}}}]),
    "a variable of an unknown resource": container(
        env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]
    ),
    "a variable of no resource": container(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": ""}}}]),
    "a variable with a wrong divisor": container(
        env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "7"}}}]
    ),
    "a variable of a key without an object": container(
        env=[{"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}}]
    ),
    "a variable of an object without a key": container(
        env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x"}}}]
    ),
    "a variable of a wrong key": container(
        env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "../k"}}}]
    ),
    "a variable of the key '..'": container(
        env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x", "key": ".."}}}]
    ),
    "variables of nothing": container(envFrom=[{}]),
    "variables of two objects": container(envFrom=[{"configMapRef": OBJECT, "secretRef": OBJECT}]),
    "variables of an object without a name": container(envFrom=[{"secretRef": {}}]),
    "variables with a wrong prefix": container(envFrom=[{"prefix": "A=", "configMapRef": OBJECT}]),
    "an unknown pull policy": container(imagePullPolicy="Sometimes"),
    "an unknown message policy": container(terminationMessagePolicy="Sometimes"),
    "a negative limit": container(resources={"limits": {"cpu": "-1"}}),
    "a request above its limit": container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
    "a part of a device": container(resources={"limits": {"example.com/gpu": "500m"}}),
    "an unknown resource": container(resources={"limits": {"gpu": "1"}}),
    "a limit of storage below its request": container(
        resources={"limits": {"ephemeral-storage": "1"}, "requests": {"ephemeral-storage": "2"}}
    ),
    "a probe without a handler": container(livenessProbe={}),
    "a probe with two handlers": container(livenessProbe={"exec": {"command": ["a"]}, "tcpSocket": {"port": 80}}),
    "a probe without a command": container(livenessProbe={"exec": {}}),
    "a probe with a negative period": container(livenessProbe={"exec": {"command": ["a"]}, "periodSeconds": -1}),
    "a probe of a wrong port": container(livenessProbe={"tcpSocket": {"port": 70000}}),
    "a probe of a wrong port name": container(livenessProbe={"tcpSocket": {"port": "A_B"}}),
    "a probe of a wrong scheme": container(livenessProbe={"httpGet": {"port": 80, "scheme": "FTP"}}),
    "a liveness probe with two successes": container(livenessProbe={"exec": {"command": ["a"]}, "successThreshold": 2}),
    "a hook without a handler": container(lifecycle={"postStart": {}}),
    "a hook without a command": container(lifecycle={"preStop": {"exec": {}}}),
    "a negative user": container(securityContext={"runAsUser": -1}),
    "a negative group": container(securityContext={"runAsGroup": -1}),
    "a negative user of the pod": pod(securityContext={"runAsUser": -1}),
    "a negative group of files": pod(securityContext={"fsGroup": -1}),
    "privileged without escalation": container(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
}

SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
SPREADS: dict[str, dict[str, Any]] = {
    "a spread without a skew": pod(topologySpreadConstraints=[{**SPREAD, "maxSkew": 0}]),
    "a spread of a negative skew": pod(topologySpreadConstraints=[{**SPREAD, "maxSkew": -1}]),
    "a spread over no key": pod(topologySpreadConstraints=[{**SPREAD, "topologyKey": ""}]),
    "a spread with an unknown action": pod(topologySpreadConstraints=[{**SPREAD, "whenUnsatisfiable": "Wait"}]),
    "two equal spreads": pod(topologySpreadConstraints=[SPREAD, {**SPREAD, "maxSkew": 2}]),
}

REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def nodes(**requirement: Any) -> dict[str, Any]:
    """A pod whose nodes have to match a requirement."""
    terms = [{"matchExpressions": [requirement]}]
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def beside(**term: Any) -> dict[str, Any]:
    """A pod that has to run apart from other pods."""
    return pod(affinity={"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}})


def weighted(weight: int) -> dict[str, Any]:
    term = {"podAffinityTerm": {"topologyKey": "zone"}}
    return pod(affinity={"podAffinity": {PREFERRED: [{"weight": weight, **term}]}})


AFFINITIES: dict[str, dict[str, Any]] = {
    "no node selector term": pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}),
    "nodes in no values": nodes(key="zone", operator="In"),
    "nodes with values that exist": nodes(key="zone", operator="Exists", values=["a"]),
    "nodes above two numbers": nodes(key="cores", operator="Gt", values=["1", "2"]),
    "nodes of an unknown operator": nodes(key="zone", operator="Near", values=["a"]),
    "nodes of an invalid label": nodes(key="a b", operator="Exists"),
    "nodes preferred without weight": pod(affinity={"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {}}]}}),
    "pods preferred too much": weighted(101),
    "pods without a topology": beside(topologyKey=""),
    "pods above a number": beside(
        labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}
    ),
    "pods not in any values": beside(labelSelector={"matchExpressions": [{"key": "a", "operator": "NotIn"}]}),
}

REJECTED: dict[str, dict[str, Any]] = {**VOLUMES, **MOUNTS, **NAMES, **CONTAINERS, **SPREADS, **AFFINITIES}
