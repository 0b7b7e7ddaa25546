"""Random worlds with gangs, trees of queues, priorities, topology, quotas and user limits, and a check of all answers."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from random import Random
from typing import Any

import yaml

from tests.whatif.asking import Json, batch_job, bodies, engine, find, loaded
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.whatif.answer import JobAnswer, Limits, answer
from volcanopy.whatif.engine import Budget
from volcanopy.whatif.search import Remedy
from volcanopy.whatif.starts import Start
from volcanopy.whatif.target import jobs_and_pods

CONFIGURATIONS = (
    "actions: enqueue, allocate, backfill\n"
    "tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: overcommit}, {name: predicates},"
    " {name: proportion}, {name: nodeorder}]}]",
    "actions: enqueue, allocate, backfill, reclaim, preempt\n"
    "tiers: [{plugins: [{name: priority}, {name: gang}, {name: conformance}]}, {plugins: [{name: predicates},"
    " {name: capacity, enableHierarchy: true}, {name: binpack}]}]",
    "actions: enqueue, allocate, preempt\n"
    "tiers: [{plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: drf}, {name: resourcequota},"
    " {name: network-topology-aware}]}]",
    "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity}]}]",
)


def random_world(rng: Random) -> tuple[list[Json], str]:
    """The manifests and the configuration of a random world."""
    lines = ["class c1 value=1", "class c9 value=9", *_nodes(rng), *_queues(rng)]
    queues = [line.split()[1] for line in lines if line.startswith("queue ")] + ["default", "nowhere"]
    free = {line.split()[1]: int(line.split("cpu=")[1].split()[0]) for line in lines if line.startswith("node ")}
    lines += _running(rng, queues, free)
    manifests = []
    for number in range(rng.randint(1, 3)):
        if rng.randint(0, 2):
            lines.append(_waiting(rng, f"w{number}", rng.choice(queues)))
        else:
            manifests.append(_submitted(rng, f"b{number}", rng.choice(queues)))
    if not rng.randint(0, 2):
        lines.append(f"quota z hard.cpu={rng.randint(1, 8)} used.cpu=0 hard.pods={rng.randint(1, 6)} used.pods=0")
    return [*bodies("\n".join(lines)), *manifests], rng.choice(CONFIGURATIONS)


def _nodes(rng: Random) -> Iterator[str]:
    count = rng.randint(1, 4)
    for number in range(count):
        flag = rng.choice(["", "", "", "", " unschedulable", " taint=t:NoSchedule", " zone=a"])
        yield f"node n{number} cpu={rng.randint(1, 6)} memory=16Gi pods={rng.choice([3, 20])}{flag}"
    if count > 1 and rng.randint(0, 1):
        half = count // 2
        yield f"hypernode s0 tier=1: {' '.join(f'n{number}' for number in range(half))}"
        yield f"hypernode s1 tier=1: {' '.join(f'n{number}' for number in range(half, count))}"
        yield "hypernode top tier=2: s0 s1"


def _queues(rng: Random) -> Iterator[str]:
    yield "queue root"
    parents = ["root"]
    for number in range(rng.randint(1, 3)):
        tokens = [f"queue q{number} weight={rng.randint(1, 3)} parent={rng.choice(parents)}"]
        tokens += [f"deserved.cpu={rng.randint(1, 6)}"] if not rng.randint(0, 2) else []
        tokens += [f"capability.cpu={rng.randint(1, 8)}"] if not rng.randint(0, 2) else []
        tokens += [f"maxrunning={rng.randint(0, 2)}"] if not rng.randint(0, 5) else []
        tokens += [f"limit.user.ana.cpu={rng.randint(0, 4)}"] if not rng.randint(0, 3) else []
        tokens += rng.choice([[], [], [], [], ["closed"], ["stop=Hold"], ["fifo"]])
        yield " ".join(tokens)
        if rng.randint(0, 1):
            parents.append(f"q{number}")


def _running(rng: Random, queues: list[str], free: dict[str, int]) -> Iterator[str]:
    for number in range(rng.randint(0, 3)):
        cpu = rng.randint(1, 2)
        nodes = [name for name, units in free.items() if units >= cpu]
        if nodes:
            node = rng.choice(nodes)
            free[node] -= cpu
            queue, priority = rng.choice(queues[:-1]), rng.choice(["", " priority=c1"])
            yield f"job r{number} queue={queue}{priority} phase=Running user=bo: 1 x cpu={cpu} on={node}"


def _waiting(rng: Random, name: str, queue: str) -> str:
    count, cpu = rng.randint(1, 4), rng.randint(1, 4)
    tokens = [f"job {name} queue={queue}", rng.choice(["", "user=ana", "user=bo"]), rng.choice(["", "priority=c9"])]
    if rng.randint(0, 1):
        tokens.append(f"phase=Pending minres.cpu={count * cpu}")
    tokens.append(f"min={rng.randint(1, count + (not rng.randint(0, 4)))}")
    if not rng.randint(0, 3):
        tokens.append(f"topology=hard:{rng.randint(1, 2)}")
    pod = rng.choice(["", "", "", " selector.disk=ssd", " gated", " pvc=data", " tolerates=t"])
    return f"{' '.join(filter(None, tokens))}: {count} x cpu={cpu}{pod}"


def _submitted(rng: Random, name: str, queue: str) -> Json:
    pod: dict[str, Any] = rng.choice([{}, {}, {}, {"priorityClassName": "c9"}, {"priorityClassName": "gold"}])
    fields: dict[str, Any] = {} if rng.randint(0, 7) else {"schedulerName": "other"}
    return batch_job(name, rng.randint(1, 4), str(rng.randint(1, 4)), pod=pod, queue=queue, **fields)


# Checks


def check(manifests: list[Json], document: str, cycles: int = 3000) -> tuple[Counter[str], list[str]]:
    """Return how many answers of each kind there are, and what is untrue."""
    config, counts, untrue = parse(document, builtin()), Counter[str](), []
    stored = _stored(manifests)
    made = engine(loaded(stored).cluster, config)
    result = answer(made, Limits(Budget(100), Budget(cycles)))
    for job in result.jobs:
        counts[job.start.value] += 1
        if job.start is Start.NOW and not _starts(stored, config, job):
            untrue.append(f"{job.target.name} does not start now")
        if job.start is Start.NEVER and _starts(_alone(stored, job), config, job):
            untrue.append(f"{job.target.name} starts alone")
        if job.start is Start.AFTER and not _starts(_alone(stored, job), config, job):
            untrue.append(f"{job.target.name} does not start alone")
        blocking = (*job.after, *(job.explanation.blocked_by if job.explanation is not None else ()))
        if any(re.match(rf'job "?(default/)?{re.escape(job.target.name)}\b', entry) for entry in blocking):
            untrue.append(f"{job.target.name} is blocked by itself: {', '.join(blocking)}")
        if job.start is not Start.NOW:
            counts["with remedy" if job.remedies else "without remedy"] += 1
            if not job.gate or not job.message:
                untrue.append(f"{job.target.name} has no headline")
            lifted = list(_lifted(stored, job))
            if (
                "is FIFO" in job.message
            ):  # what lets the head start lets the next one start: the head stays without a node
                head = find(result, job.message.rpartition('head job "')[2].rstrip('"'))
                if head is None or head.queue != job.queue or head.target == job.target:
                    untrue.append(f"{job.target.name} is not behind a head: {job.message}")
                    continue
                lifted = [_without_node(body, head) for body in lifted]
            # A changed limit may change which job is first: then this job starts in the place of another that starts now.
            first = {other.target.group: other.nodes for other in result.jobs if other.start is Start.NOW}
            placed = _placed(lifted, config, {job.target.group, *first})
            if job.target.group in placed and any(len(placed.get(name, ())) < len(first[name]) for name in first):
                counts["started in another's place"] += 1
            elif job.target.group in placed:
                untrue.append(f"{job.target.name} is not held back by {job.gate}: {job.message}")
        for remedy in job.remedies:
            counts["remedies"] += 1
            counts[f"remedy {remedy.kind}"] += 1
            if not _starts(_with(stored, remedy), _configured(document, remedy), job):
                untrue.append(f"{job.target.name} does not start with: {remedy.text}")
    return counts, untrue


def _without_node(body: Json, job: JobAnswer) -> Json:
    """A manifest; if it is of a job or of its pods, with a selector that no node has, and without what refuses its pods."""
    name, spec = _name(body), body.get("spec") or {}
    never = {"nodeSelector": {"never": "true"}}
    if name == f"BatchJob {job.target.job}":
        tasks = []
        for task in spec["tasks"]:
            pod = {key: value for key, value in task["template"]["spec"].items() if key != "priorityClassName"}
            tasks.append(task | {"template": task["template"] | {"spec": pod | never}})
        return body | {"spec": spec | {"tasks": tasks}}
    group = (body["metadata"].get("annotations") or {}).get("scheduling.k8s.io/group-name")
    if body["kind"] == "Pod" and f"{body['metadata']['namespace']}/{group}" == job.target.group:
        return body | {"spec": spec | never}
    return body


def _stored(manifests: list[Json]) -> list[Json]:
    """The manifests as an API server stores them once the controllers have handled them."""
    cluster = engine(loaded(manifests).cluster).cluster
    return [cluster.body(*key) for key in cluster.objects]


def _starts(manifests: Iterable[Json], config: SchedulerConfig, job: JobAnswer) -> bool:
    """Whether a job starts in a cluster of these manifests, or is there at all."""
    return job.target.group in _placed(manifests, config, {job.target.group})


def _placed(manifests: Iterable[Json], config: SchedulerConfig, groups: AbstractSet[str]) -> dict[str, tuple[str, ...]]:
    """The nodes of those of the PodGroups that start in a cluster of these manifests."""
    run = engine(loaded(manifests).cluster, config).run(Budget(100), frozenset(groups))
    return {name: run.nodes.get(name, ()) for name in run.started}


def _with(manifests: list[Json], remedy: Remedy) -> list[Json]:
    deleted = set(remedy.change.delete) | {_name(body) for body in remedy.change.apply}
    return [body for body in manifests if _name(body) not in deleted] + list(remedy.change.apply)


def _name(body: Json) -> str:
    metadata = body["metadata"]
    namespace = metadata.get("namespace")
    return f"{body['kind']} {namespace + '/' if namespace else ''}{metadata['name']}"


def _alone(manifests: list[Json], job: JobAnswer) -> list[Json]:
    """The manifests without other jobs and pods."""
    cluster = loaded(manifests).cluster
    others = (steps for group, *_, steps in jobs_and_pods(cluster) if group != job.target.group)
    for steps in others:
        for step in steps:
            cluster.remove(step.kind, step.key)
    return [cluster.body(*key) for key in cluster.objects]


_CAPACITY = frozenset({"overcommit", "share", "capability", "topology", "nodes"})
"""Gates that more nodes may open."""


def _lifted(manifests: list[Json], job: JobAnswer) -> Iterator[Json]:
    """The manifests without the constraints of all other gates; other jobs keep theirs, which say where they are placed."""
    gate = job.gate
    for body in manifests:
        spec = dict(body.get("spec") or {})
        changed = body | {"spec": spec}
        match body["kind"]:
            case "ResourceQuota" if gate not in {"quota", "gang"}:
                continue
            case "Queue":
                if gate != "queue":
                    spec |= {"stopPolicy": "None", "dequeueStrategy": "traverse"}
                    changed["status"] = {"state": "Open"}
                for of, fields in (("limits", ("limits", "maxRunningJobs")), ("capability", ("capability",))):
                    if gate != of:
                        spec = {key: value for key, value in spec.items() if key not in fields}
                changed["spec"] = spec
            case "Node" if gate not in _CAPACITY:
                for number in range(3):
                    metadata = {"name": f"{body['metadata']['name']}-{number}", "labels": {"disk": "ssd", "zone": "a"}}
                    yield body | {"metadata": metadata, "spec": {}}
            case "PodGroup" if gate != "topology" and _name(body) == f"PodGroup {job.target.group}":
                spec.pop("networkTopology", None)
            case "Pod" if gate != "gang":
                spec.pop("schedulingGates", None)
        yield changed


def _configured(document: str, remedy: Remedy) -> SchedulerConfig:
    return parse(json.dumps(yaml.safe_load(document) | remedy.change.configuration), builtin())
