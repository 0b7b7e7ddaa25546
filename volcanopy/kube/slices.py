"""The kinds that services follow in great numbers, each with the slice of it that they read."""

from volcanopy.api import core, names, policy
from volcanopy.kube.kinds import Kind

_SCHEDULING, _, _BETA = names.SCHEDULING_V1BETA1.partition("/")

PODS: Kind[core.Pod] = Kind("", "v1", "Pod", "pods", True, core.Pod)
NODES: Kind[core.Node] = Kind("", "v1", "Node", "nodes", False, core.Node)
NAMESPACES: Kind[core.Namespace] = Kind("", "v1", "Namespace", "namespaces", False, core.Namespace)
PRIORITY_CLASSES: Kind[core.PriorityClass] = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, core.PriorityClass
)
POD_GROUPS: Kind[core.PodGroup] = Kind(_SCHEDULING, _BETA, "PodGroup", "podgroups", True, core.PodGroup)
QUEUES: Kind[core.Queue] = Kind(_SCHEDULING, _BETA, "Queue", "queues", False, core.Queue)
RESOURCE_QUOTAS: Kind[policy.ResourceQuota] = Kind(
    "", "v1", "ResourceQuota", "resourcequotas", True, policy.ResourceQuota
)
DISRUPTION_BUDGETS: Kind[policy.PodDisruptionBudget] = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, policy.PodDisruptionBudget
)
