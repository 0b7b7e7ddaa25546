"""A cluster written out object by object, and a session over it."""

from collections.abc import Iterable
from typing import Any

import msgspec

from tests.scheduler.nodes.random_clusters import HOSTNAME, NOW
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.reads import Scope
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.policy.dispatch import Hooks
from volcanopy.scheduler.policy.plugin import Plugin


def node(name: str, cpu: str = "4", memory: str = "8Gi", **said: Any) -> core.Node:
    """A node with labels, taints, unschedulable and images as ``said``."""
    labels = {HOSTNAME: name, **said.get("labels", {})}
    room: core.Quantities = {"cpu": cpu, "memory": memory, "pods": "110", **said.get("more", {})}
    return core.Node(
        metadata=core.Meta(name=name, labels=labels),
        spec=core.NodeSpec(taints=said.get("taints", ()), unschedulable=said.get("unschedulable", False)),
        status=core.NodeStatus(allocatable=room, images=said.get("images", ())),
    )


def pod(name: str, on: str = "", cpu: str = "", memory: str = "", **said: Any) -> core.Pod:
    """A pod of one container; ``on`` a node it runs. ``app`` is its label, ``leaving`` means terminating."""
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value} | said.get("more", {})
    container = core.Container(
        name="main",
        image=said.get("image", "busybox"),
        resources=core.ResourceRequirements(requests=requests),
        ports=tuple(core.ContainerPort(host_port=number) for number in said.get("ports", ())),
    )
    return core.Pod(
        metadata=core.Meta(
            name=name,
            namespace="default",
            labels={"app": said["app"]} if "app" in said else {},
            annotations={"scheduling.k8s.io/group-name": "group"},
            deletion_timestamp=NOW if said.get("leaving") else None,
        ),
        spec=core.PodSpec(
            scheduler_name="volcanopy",
            node_name=on,
            containers=(container,),
            **{key: said[key] for key in ("node_selector", "affinity", "tolerations") if key in said},
            topology_spread_constraints=said.get("spread", ()),
        ),
        status=core.PodStatus(phase="Running" if on else "Pending"),
    )


def of_app(app: str) -> core.LabelSelector:
    """The pods of an app."""
    return core.LabelSelector(match_labels={"app": app})


def term(app: str, topology: str = HOSTNAME) -> core.PodAffinityTerm:
    """About the pods of an app in a topology."""
    return core.PodAffinityTerm(topology_key=topology, label_selector=of_app(app))


def near(*terms: core.PodAffinityTerm) -> core.Affinity:
    """Required affinity."""
    return core.Affinity(pod_affinity=core.PodAffinity(required=terms))


def away(*terms: core.PodAffinityTerm) -> core.Affinity:
    """Required anti-affinity."""
    return core.Affinity(pod_anti_affinity=core.PodAffinity(required=terms))


def spread(app: str, topology: str = "zone", skew: int = 1, **said: Any) -> core.TopologySpreadConstraint:
    """One required constraint on the pods of an app."""
    constraint = core.TopologySpreadConstraint(
        max_skew=skew, topology_key=topology, when_unsatisfiable="DoNotSchedule", label_selector=of_app(app)
    )
    return msgspec.structs.replace(constraint, **said)


class Stage:
    """A session over these objects."""

    def __init__(self, things: Iterable[core.Node | core.Pod]) -> None:
        state = State()
        for obj in things:
            state.upsert(obj)
        self.snapshot = state.snapshot(NOW)
        self.ledger = Ledger(self.snapshot)
        self.cluster = Cluster(self.ledger)

    def task(self, name: str) -> TaskView:
        """A pod's view."""
        return self.cluster.task(self.snapshot.task_rows[f"default/{name}"])


def scope_of(plugin: Plugin[Any], task: TaskView) -> Scope:
    """Which answers of one plugin for a task a placement changes."""
    return Hooks((((plugin, frozenset()),),), plugin.cluster.reads).scope(task)
