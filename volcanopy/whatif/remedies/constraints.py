"""Constraints of the job's pods that are removed: selectors, affinity, taints not tolerated, gates, network topology."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from volcanopy.api.model import Json
from volcanopy.whatif.changes import Edit, Steps
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.remedies.candidate import Candidate, Part, Question, single
from volcanopy.whatif.target import Target, edit_group, edit_pods, pod_specs, waiting_pods

_AFFINITIES = {
    "nodeAffinity": "required node affinity",
    "podAffinity": "pod affinity",
    "podAntiAffinity": "pod anti-affinity",
}


def node_constraints(question: Question) -> Sequence[Candidate]:
    """Return a candidate that removes node selectors, required affinity and spread, and one that tolerates taints."""
    specs = pod_specs(question.cluster, question.target)
    removals = tuple(_removals(question, specs))
    tolerations = tuple(_tolerations(question))
    candidates = [Candidate("selector", removals)] if removals else []
    return [*candidates, Candidate("toleration", tolerations)] if tolerations else candidates


def _removals(question: Question, specs: list[Json]) -> Iterator[Part]:
    def part(change: Callable[[Json], Json], text: str) -> Part:
        return single(edit_pods(question.cluster, question.target, change), text)

    for key in sorted({key for spec in specs for key in spec.get("nodeSelector") or {}}):
        values = sorted({spec["nodeSelector"][key] for spec in specs if key in (spec.get("nodeSelector") or {})})
        yield part(partial(_without_selector, key), f"remove the node selector {key}={', '.join(values)}")
    for kind, title in _AFFINITIES.items():
        if any((spec.get("affinity") or {}).get(kind) for spec in specs):
            yield part(partial(_without_affinity, kind), f"remove the {title}")
    if any(spec.get("topologySpreadConstraints") for spec in specs):
        yield part(lambda spec: _without(spec, "topologySpreadConstraints"), "remove the topology spread constraints")
    if any(_ports(spec) for spec in specs):
        yield part(_without_ports, "remove the host ports")
    if any(spec.get("resourceClaims") for spec in specs):
        yield part(_without_claims, "remove the resource claims")
    for name in sorted(
        {volume["name"] for spec in specs for volume in spec.get("volumes") or () if _is_claimed(volume)}
    ):
        yield part(partial(_without_volume, name), f'remove the volume "{name}"')


def _without(body: Json, *fields: str) -> Json:
    return {key: value for key, value in body.items() if key not in fields}


def _without_selector(key: str, spec: Json) -> Json:
    return spec | {"nodeSelector": _without(spec.get("nodeSelector") or {}, key)}


def _ports(spec: Json) -> list[Json]:
    """Return the ports of a pod that are also ports of its node."""
    containers = spec.get("containers") or ()
    ports = [port for container in containers for port in container.get("ports") or ()]
    return [port for port in ports if port.get("hostPort") or spec.get("hostNetwork")]


def _without_ports(spec: Json) -> Json:
    return _without(spec, "hostNetwork") | {"containers": [_without(item, "ports") for item in spec["containers"]]}


def _without_claims(spec: Json) -> Json:
    containers = [
        item | {"resources": _without(item.get("resources") or {}, "claims")} for item in spec.get("containers") or ()
    ]
    return _without(spec, "resourceClaims") | {"containers": containers}


def _is_claimed(volume: Json) -> bool:
    return bool(volume.get("persistentVolumeClaim") or "ephemeral" in volume)


def _without_volume(name: str, spec: Json) -> Json:
    containers = [
        item | {"volumeMounts": [mount for mount in item.get("volumeMounts") or () if mount.get("name") != name]}
        for item in spec.get("containers") or ()
    ]
    volumes = [volume for volume in spec.get("volumes") or () if volume["name"] != name]
    return spec | {"volumes": volumes, "containers": containers}


def _without_affinity(kind: str, spec: Json) -> Json:
    return spec | {"affinity": _without(spec.get("affinity") or {}, kind)}


def _tolerations(question: Question) -> Iterator[Part]:
    taints = {
        (taint.key, taint.value, taint.effect)
        for node in question.cluster.of_kind("Node").values()
        for taint in node.spec.taints
        if taint.effect != "PreferNoSchedule" and not taint.key.startswith("node.kubernetes.io/")
    }
    for key, value, effect in sorted(taints):
        toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
        text = f"tolerate the taint {key}{'=' + value if value else ''}:{effect}"
        yield single(edit_pods(question.cluster, question.target, partial(_tolerating, toleration)), text)


def _tolerating(toleration: Json, spec: Json) -> Json:
    return spec | {"tolerations": [*(spec.get("tolerations") or ()), toleration]}


def scheduling_gates(question: Question) -> Sequence[Candidate]:
    """Return a candidate that removes the scheduling gates of pods."""
    cluster, target = question.cluster, question.target
    if target.job:
        if not any(spec.get("schedulingGates") for spec in pod_specs(cluster, target)):
            return []
        steps = edit_pods(cluster, target, lambda spec: _without(spec, "schedulingGates"))
        return [Candidate("gates", (single(steps, "remove the scheduling gates of the pods"),))]
    parts = [
        single((Edit("Pod", pod.metadata.key, _ungated),), f'remove the scheduling gates of pod "{pod.metadata.name}"')
        for pod in waiting_pods(cluster, target)
        if pod.spec.scheduling_gates
    ]
    return [Candidate("gates", tuple(parts))] if parts else []


def _ungated(body: Json) -> Json:
    return body | {"spec": _without(body["spec"], "schedulingGates")}


def network_topology(question: Question) -> Sequence[Candidate]:
    """Return candidates that raise the highest tier, or make the network topology a preference."""
    cluster, target = question.cluster, question.target
    group = cluster.group(target.group)
    spec = cluster.body("PodGroup", target.group).get("spec") or {} if group is not None else {}
    policies = [spec, *(spec.get("subGroupPolicy") or ())]
    hard = [policy["networkTopology"] for policy in policies if _is_hard(policy)]
    if not hard:
        return []
    tiers = sorted({item.spec.tier for item in cluster.of_kind("HyperNode").values()})
    allowed = min((topology.get("highestTierAllowed") or 1 for topology in hard), default=1)
    candidates = []
    if tiers and tiers[-1] > allowed:
        part = Part(
            tiers[-1] - allowed,
            lambda more: _with_topology(
                cluster, target, {"highestTierAllowed": allowed + more, "highestTierName": None}
            ),
            lambda more: f"set highestTierAllowed of networkTopology to {allowed + more} instead of {allowed}",
        )
        candidates.append(Candidate("tier", (part,)))
    soft = _with_topology(cluster, target, {"mode": "soft"})
    return [*candidates, Candidate("topology", (single(soft, "set mode of networkTopology to soft"),))]


def _is_hard(policy: Json) -> bool:
    topology = policy.get("networkTopology") or {}
    return bool(topology) and topology.get("mode", "hard") == "hard"


def _with_topology(cluster: Cluster, target: Target, change: Json) -> Steps:
    def changed(policy: Json) -> Json:
        if not _is_hard(policy):
            return policy
        topology = {key: value for key, value in (policy["networkTopology"] | change).items() if value is not None}
        return policy | {"networkTopology": topology}

    def of_group(spec: Json) -> Json:
        policies = [changed(policy) for policy in spec.get("subGroupPolicy") or ()]
        return changed(spec) | ({"subGroupPolicy": policies} if policies else {})

    def of_job(spec: Json) -> Json:
        tasks = [
            task | {"partitionPolicy": changed(task["partitionPolicy"])} if task.get("partitionPolicy") else task
            for task in spec["tasks"]
        ]
        return changed(spec) | {"tasks": tasks}

    return edit_group(cluster, target, of_job, of_group)
