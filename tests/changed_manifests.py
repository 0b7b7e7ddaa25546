"""Manifests of all kinds that the scheduler and the controllers read, changed at random."""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
VALUES: tuple[Any, ...] = (
    None,
    "",
    -1,
    0,
    1.5,
    2**31,
    10**30,
    True,
    "x",
    "1e400",
    "9999-99-99",
    "(",
    [],
    {},
    [None],
    {"a": None},
    [[1]],
)
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n, labels: {kubernetes.io/hostname: n}}
status: {allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 4}, capacity: {cpu: 8, memory: 32Gi, pods: 110}}
"""
OTHER_KINDS = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota, namespace: default}
spec: {hard: {cpu: 10}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}
status: {hard: {cpu: 10}, used: {cpu: 1}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec: {resources: {requests: {storage: 1Gi}}, storageClassName: local, accessModes: [ReadWriteOnce]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  storageClassName: local
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce]
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n]}]}]}}
---
apiVersion: topology.volcanopy.io/v1alpha1
kind: HyperNode
metadata: {name: rack}
spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "n.*"}}}]}
---
apiVersion: scheduling.volcanopy.io/v1beta1
kind: PodGroup
metadata: {name: gang, creationTimestamp: "2030-01-01T00:00:00Z"}
spec: {minMember: 1, minTaskMember: {a: 1}, minResources: {cpu: 1}, networkTopology: {mode: hard, highestTierAllowed: 1}}
status: {phase: Inqueue, conditions: [{type: Unschedulable, status: "True", lastTransitionTime: "2030-01-01T00:00:00Z"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gang-0, labels: {a: b}, annotations: {scheduling.k8s.io/group-name: gang}}
spec:
  schedulerName: volcanopy
  tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}]
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}
  containers: [{name: main, ports: [{hostPort: 80}], resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {a: c}}}
status: {phase: Pending}
---
apiVersion: scheduling.volcanopy.io/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 2, capability: {cpu: 8}, deserved: {cpu: 4}, guarantee: {resource: {cpu: 2}}, limits: [{resources: {cpu: 4}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec:
  {nodeName: n, driver: d, pool: {name: a, generation: 1, resourceSliceCount: 1}, devices: [{name: g, capacity: {memory: {value: 40Gi}}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: default}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 1, allocationMode: ExactCount}}]}}
"""


def manifests() -> list[Any]:
    """Return the manifests of the examples and those of the other kinds that are read."""
    texts = [OTHER_KINDS, *(path.read_text() for path in sorted(EXAMPLES.rglob("*.yaml")))]
    found = [document for text in texts for document in yaml.safe_load_all(text)]
    return [document for document in found if isinstance(document, dict) and "kind" in document]


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each field and element."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from places(item, (*place, key))


def changed(document: Any, rng: random.Random) -> Any:
    """Return the document with one field renamed, removed, repeated or replaced."""
    document = copy.deepcopy(document)
    place = rng.choice([place for place in places(document) if place not in {("kind",), ("apiVersion",)}])
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    key, chance = place[-1], rng.random()
    if chance < 0.15 and isinstance(parent, dict):
        parent[f"{key}x"] = parent.pop(key)
    elif chance < 0.3:
        del parent[key]
    elif chance < 0.4 and isinstance(parent[key], list):
        parent[key] = 2 * parent[key]
    else:
        parent[key] = copy.deepcopy(rng.choice(VALUES))
    return document
