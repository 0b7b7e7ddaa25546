"""Admission in a what-if question: new manifests are reviewed as the webhook would, and changed queues must stay valid."""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import jsonpatch

from volcanopy.admission.access import lineage
from volcanopy.admission.context import Context
from volcanopy.admission.feasibility import maximal
from volcanopy.admission.queue_tree import amounts_of
from volcanopy.admission.request import User
from volcanopy.admission.review import review
from volcanopy.api.flow import JobTemplate
from volcanopy.api.model import Json
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, Registry, plugin_problems
from volcanopy.whatif import kinds
from volcanopy.whatif.cluster import Cluster

SUPERUSER = User("", ("system:masters",))
"""The submitter of manifests where none is known."""
_AMOUNT = re.compile(r"\d[\w.]*")
_REVIEWED = frozenset({"BatchJob", "CronBatchJob", "JobFlow", "JobTemplate", "PodGroup", "Queue", "HyperNode", "Pod"})


@dataclass(frozen=True)
class Admitted:
    """The response of admission to a new object: the object as it is stored, its problems and warnings."""

    body: Json
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def admit(cluster: Cluster, body: Json, user: User = SUPERUSER, registry: Registry = JOB_PLUGINS) -> Admitted:
    """Review a manifest that is created, or replaces an object."""
    if body.get("kind") not in _REVIEWED:
        return Admitted(body)
    current = cluster.objects.get((str(body["kind"]), kinds.key_of(body)))
    old = None if current is None else cluster.body(str(body["kind"]), kinds.key_of(body))
    context = context_of(cluster, registry)
    if body["kind"] == "JobFlow":
        context = replace(
            context, job_templates=templates_of(cluster, str(body["metadata"].get("namespace") or "default"))
        )
    response = _review(body, old, context, user)
    patched = body
    if patch := response.get("patch"):
        patched = jsonpatch.apply_patch(body, json.loads(base64.b64decode(patch)))
    return Admitted(patched, _problems(response), tuple(response.get("warnings", ())))


def problems_of_new(cluster: Cluster, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the problems for which admission rejects the creation of objects that a cluster has, by kind and key.

    Queues are created one after the other, each after those above it; a rejected one is unknown to the next.
    """
    keys = list(keys)
    if not keys:
        return {}
    context, queues = context_of(cluster), cluster.state.queues
    new = sorted((name for kind, name in keys if kind == "Queue"), key=lambda name: (len(lineage(name, queues)), name))
    created = {name: queue for name, queue in queues.items() if name not in set(new)}
    result: dict[tuple[str, str], tuple[str, ...]] = {}
    for kind, key in [*(("Queue", name) for name in new), *(key for key in keys if key[0] != "Queue")]:
        response = _review(cluster.body(kind, key), None, replace(context, queues=created), SUPERUSER)
        if problems := _problems(response):
            result[kind, key] = problems
        elif kind == "Queue":
            created[key] = queues[key]
    return result


def new_problems(cluster: Cluster, mark: int) -> list[str]:
    """Return the problems of queues that changed since a point, without those that they had before."""
    queue_bodies = cluster.bodies_since(mark, "Queue")
    if not queue_bodies:
        return []
    context = _queue_context(cluster)
    problems: list[str] = []
    for (kind, name), old in queue_bodies.items():
        if (kind, name) not in cluster.objects:
            continue
        body = cluster.body(kind, name)
        before = () if old is None else _problems(_review(old, old, context, SUPERUSER))
        earlier_texts = {_without_amounts(text) for text in before}
        after = _problems(_review(body, old, context, SUPERUSER))
        problems += [text for text in after if _without_amounts(text) not in earlier_texts]
    return problems


def _without_amounts(problem: str) -> str:
    """Return the text of a problem without amounts, which a change of a queue changes."""
    return _AMOUNT.sub("#", problem)


def context_of(cluster: Cluster, registry: Registry = JOB_PLUGINS) -> Context:
    """Return the context of a review: the objects of the cluster."""
    state = cluster.state
    nodes = cluster.of_kind("Node").values()
    return replace(
        _queue_context(cluster),
        check_plugins=lambda job: plugin_problems(job, registry),
        namespaces=state.namespaces or None,
        largest_nodes=maximal(amounts_of(node.status.allocatable) for node in nodes),
        priority_classes=state.priority_classes,
        hyper_nodes=state.hypernodes or None,
    )


def _queue_context(cluster: Cluster) -> Context:
    """Return the context of a review of a queue."""
    groups, default_queue = cluster.of_kind("PodGroup"), cluster.state.default_queue
    unfinished = Counter(
        group.spec.queue or default_queue for group in groups.values() if group.status.phase != "Completed"
    )
    return Context(queues=cluster.state.queues, pod_groups=groups, unfinished=unfinished)


def templates_of(cluster: Cluster, namespace: str) -> dict[str, JobTemplate]:
    """Return the job templates of a namespace by name."""
    return {
        key.rpartition("/")[2]: JobTemplate.read(template, unknown="ignore")
        for key, template in cluster.of_kind("JobTemplate").items()
        if key.startswith(f"{namespace}/")
    }


def _review(body: Json, old: Json | None, context: Context, user: User) -> Json:
    group, _, version = str(body.get("apiVersion", "")).rpartition("/")
    metadata = body.get("metadata") or {}
    request = {
        "uid": "whatif",
        "kind": {"group": group, "version": version, "kind": body.get("kind")},
        "operation": "CREATE" if old is None else "UPDATE",
        "name": metadata.get("name"),
        "namespace": metadata.get("namespace", ""),
        "userInfo": {"username": user.name, "groups": list(user.groups)},
        "object": body,
        "oldObject": old,
    }
    response: Json = review({"request": request}, context)["response"]
    return response


def _problems(response: Json) -> tuple[str, ...]:
    if response["allowed"]:
        return ()
    return tuple(str(response["status"]["message"]).split("; "))
