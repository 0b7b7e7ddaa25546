"""Request sequences about pods that both servers must answer equally."""

from contract.objects import PODS, binding, demanding, pod
from contract.servers import MERGE, STRATEGIC, Step

RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
SANDBOX = {
    "metadata": {"name": "sandbox"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
}

POD_STORIES: dict[str, list[Step]] = {
    "pods are completed": [
        Step("POST", PODS, pod()),
        Step("POST", PODS, pod("limits", container=demanding(limits={"cpu": "1", "memory": "1Gi"}))),
        Step("POST", PODS, pod("burst", container=demanding(requests={"cpu": 1, "memory": "0.5Gi"}))),
        Step("POST", PODS, pod("gated", schedulingGates=[{"name": "example.com/hold"}])),
        Step("POST", PODS, pod("high", priorityClassName="system-cluster-critical")),
        Step(
            "POST",
            PODS,
            pod(
                "rich",
                container={
                    "name": "c",
                    "image": "repo:5000/i:v1",
                    "ports": [{"containerPort": 80}],
                    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    "livenessProbe": {"httpGet": {"port": 80}},
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                },
                volumes=[
                    {"name": "v"},
                    {"name": "s", "secret": {"secretName": "x"}},
                    {"name": "c", "configMap": {"name": "x"}},
                    {"name": "h", "hostPath": {"path": "/x"}},
                ],
                tolerations=[{"operator": "Exists"}],
                restartPolicy="OnFailure",
            ),
        ),
    ],
    "pods are judged": [
        Step("POST", PODS, pod(containers=[])),
        Step("POST", PODS, pod(container={"name": "c"})),
        Step("POST", PODS, pod(container={"image": "i"})),
        Step("POST", PODS, pod(container={"name": "Bad", "image": "i"})),
        Step("POST", PODS, pod(containers=[{"name": "c", "image": "i"}, {"name": "c", "image": "i"}])),
        Step("POST", PODS, pod(restartPolicy="Sometimes")),
        Step("POST", PODS, pod(dnsPolicy="Sometimes")),
        Step("POST", PODS, pod(container={"name": "c", "image": "i", "imagePullPolicy": "Sometimes"})),
        Step("POST", PODS, pod(container=demanding(requests={"cpu": "2"}, limits={"cpu": "1"}))),
        Step("POST", PODS, pod(container=demanding(requests={"cpu": "-1"}))),
        Step("POST", PODS, pod(container=demanding(requests={"foo": "1"}))),
        Step("POST", PODS, pod(container=demanding(requests={"example.com/gpu": "1"}))),
        Step(
            "POST", PODS, pod(container=demanding(limits={"example.com/gpu": "2"}, requests={"example.com/gpu": "1"}))
        ),
        Step("POST", PODS, pod(activeDeadlineSeconds=0)),
        Step("POST", PODS, pod(priorityClassName="nobody")),
        Step("POST", PODS, pod(priority=5)),
        Step("POST", PODS, pod(nodeName="Bad Name")),
        Step("POST", PODS, pod(hostname="Bad_Name")),
        Step("POST", PODS, pod(nodeSelector={"a b": "c"})),
        Step("POST", PODS, pod(tolerations=[{"operator": "Equal"}])),
        Step("POST", PODS, pod(tolerations=[{"key": "a", "operator": "Likes"}])),
        Step("POST", PODS, pod(tolerations=[{"key": "a", "operator": "Exists", "effect": "Never"}])),
        Step("POST", PODS, pod(schedulingGates=[{"name": "a/b"}], nodeName="contract-n1")),
        Step("POST", PODS, pod(volumes=[{"name": "v"}, {"name": "v"}])),
        Step(
            "POST", PODS, pod(container={"name": "c", "image": "i", "volumeMounts": [{"name": "x", "mountPath": "/x"}]})
        ),
    ],
    "a pod is bound once": [
        Step("POST", PODS, pod()),
        Step("POST", f"{PODS}/p/binding", {**binding("p", "contract-n1"), "target": {"kind": "Node"}}),
        Step("POST", f"{PODS}/p/binding", binding("p", "contract-n1", annotations={"a": "b"}), drop=("generation",)),
        Step("GET", f"{PODS}/p"),
        Step("POST", f"{PODS}/p/binding", binding("p", "n2")),
        Step("POST", f"{PODS}/absent/binding", binding("absent", "n2")),
        Step("POST", PODS, pod("gated", schedulingGates=[{"name": "example.com/hold"}])),
        Step("POST", f"{PODS}/gated/binding", binding("gated", "contract-n1")),
        Step("PATCH", f"{PODS}/gated", {"spec": {"schedulingGates": None}}, MERGE),
        Step("POST", PODS, pod("exact")),
        Step("POST", f"{PODS}/exact/binding", binding("exact", "contract-n1", uid="nope")),
    ],
    "a pod's spec is fixed": [
        Step("POST", PODS, pod()),
        Step("PATCH", f"{PODS}/p", {"spec": {"nodeName": "contract-n1"}}, MERGE, drop=("message",)),
        Step("PATCH", f"{PODS}/p", {"spec": {"containers": [{"name": "c", "image": "new"}]}}, STRATEGIC),
        Step("PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, STRATEGIC),
        Step("PATCH", f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 5}}, STRATEGIC),
        Step("PATCH", f"{PODS}/p", {"status": {"phase": "Running"}}, MERGE),
        Step("PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}, "spec": {"nodeName": "contract-n1"}}, MERGE),
        Step("PATCH", f"{PODS}/p/status", {"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}}, MERGE),
        Step(
            "PATCH",
            f"{PODS}/p/status",
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            STRATEGIC,
        ),
        Step("GET", f"{PODS}/p"),
    ],
    "a bound pod ends with grace": [
        Step("POST", PODS, pod()),
        Step("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 5}),
        Step("GET", f"{PODS}/p"),
        Step("POST", PODS, pod()),
        Step("POST", f"{PODS}/p/binding", binding("p", "contract-n1")),
        Step("DELETE", f"{PODS}/p"),
        Step("GET", f"{PODS}/p"),
        Step("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 5}),
        Step("POST", f"{PODS}/p/binding", binding("p", "contract-n1")),
        Step("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0}),
        Step("GET", f"{PODS}/p"),
    ],
    "a finished pod ends at once": [
        Step("POST", PODS, pod()),
        Step("POST", f"{PODS}/p/binding", binding("p", "contract-n1")),
        Step("PATCH", f"{PODS}/p/status", {"status": {"phase": "Succeeded"}}, MERGE),
        Step("DELETE", f"{PODS}/p"),
        Step("GET", f"{PODS}/p"),
    ],
    "a pod of a runtime class": [
        Step("POST", RUNTIME_CLASSES, {"metadata": {"name": "x"}, "handler": "Ka ta"}),
        Step("POST", RUNTIME_CLASSES, {"metadata": {"name": "x"}}),
        Step("POST", RUNTIME_CLASSES, SANDBOX),
        Step("PATCH", f"{RUNTIME_CLASSES}/sandbox", {"handler": "runc"}, MERGE),
        Step("POST", PODS, pod(runtimeClassName="sandbox", nodeSelector={"disk": "fast"})),
        Step("POST", PODS, pod("other", runtimeClassName="other")),
        Step("POST", PODS, pod("more", runtimeClassName="sandbox", overhead={"cpu": "1"})),
        Step("POST", PODS, pod("bare", overhead={"cpu": "1"})),
        Step("POST", PODS, pod("elsewhere", runtimeClassName="sandbox", nodeSelector={"sandbox": "no"})),
    ],
}
