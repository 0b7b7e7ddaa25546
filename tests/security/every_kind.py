"""One object of each kind that users write through every reader: rejected by the first with a sentence, or processed by all.

BatchJobs are those of :mod:`.one_object`. What a flow, a template or a cron job creates must be admitted in its turn.
``python -m tests.security.every_kind FIRST LAST [KIND ...]`` tries the objects of these seeds.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.jobcontroller.flow_world import START, CronWorld, FlowWorld, job_spec
from tests.security import one_object
from tests.security.extremes import BASES, Schemas, values
from volcanopy.admission.review import review
from volcanopy.api import core, flow_read, scheduling, topology_read
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.decoding import convert
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.lifecycle import Command
from volcanopy.cli.framework.tables import View
from volcanopy.cli.queues import tree
from volcanopy.cli.queues import views as queue_views
from volcanopy.cli.ui import documents
from volcanopy.cli.views import flows, templates
from volcanopy.jobcontroller.plan import CreateJob
from volcanopy.jobcontroller.queues import QueueObserved, reconcile_queue
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.policy.config import default
from volcanopy_testing.notation import world

Json = dict[str, Any]
NAMES = ("x", "x", "x", "a" * 58, "a" * 70, "0", "a.b")


@cache
def _schemas(kind: str) -> tuple[Schemas, Json, tuple[Any, ...]]:
    definition = one_object.definition(kind) | {"x-kubernetes-group-version-kind": [{"kind": kind}]}
    schemas = Schemas({kind: definition})
    return schemas, definition, tuple(schemas.leaves(definition))


def made(kind: str, seed: int) -> Json:
    """The object of a seed: one to three fields have extreme values, and its annotations and name may."""
    if kind == "BatchJob":
        return one_object.made(seed)
    random, (schemas, schema, leaves) = Random(f"{kind} {seed}"), _schemas(kind)
    body = next(base for base in BASES if base["kind"] == kind)
    for path, leaf in random.sample(leaves, min(len(leaves), random.choice((0, 1, 1, 2, 3)))):
        pool = values(leaf)
        if leaf.get("type") == "string":
            pool = (*pool, *one_object.MORE_TEXTS, *one_object.DURATIONS)
        elif leaf.get("x-kubernetes-int-or-string"):
            pool = (*pool, *one_object.MORE_QUANTITIES)
        body = schemas.with_value(body, schema, path, random.choice(pool))
    notes = {
        key: random.choice((*one_object.DURATIONS, *one_object.MORE_TEXTS, "1", "true"))
        for key in random.sample(one_object.NOTES, random.choice((0, 0, 1, 2)))
    }
    metadata: Json = {"name": random.choice(NAMES), "uid": "u1", "resourceVersion": "1", "generation": 1}
    metadata |= {"annotations": notes, "creationTimestamp": START.isoformat()}
    if kind not in {"Queue", "HyperNode"}:
        metadata["namespace"] = "ns"
    return {**body, "metadata": metadata}


def outcome(body: Json) -> str:
    """``schema`` or ``admission`` for an object that one of these rejects with a sentence, else ``processed``. Raises otherwise."""
    kind = body["kind"]
    if kind == "BatchJob":
        return one_object.outcome(body)
    if errors := one_object.schema(kind).validate(body):
        assert all(str(error) for error in errors)
        return "schema"
    group, _, version = body["apiVersion"].partition("/")
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": group, "version": version, "kind": kind},
        "namespace": body["metadata"].get("namespace", ""),
        "name": body["metadata"]["name"],
        "userInfo": {"username": "eve"},
        "object": body,
    }
    response = review({"request": request}, one_object.CONTEXT)["response"]
    if not response["allowed"]:
        assert ": " in response["status"]["message"]
        return "admission"
    READERS[kind](body)
    return "processed"


def _listed(view: View, item: Any) -> None:
    """Show an object in the lists of the command line."""
    assert all(isinstance(column.cell(item, START), str) for column in view.columns)


def _scheduled(*objects: Any) -> None:
    state = State()
    for item in (*world("node node-1 cpu=4\nqueue default\njob j: 1 x cpu=1"), *objects):
        state.upsert(item)
    snapshot = state.snapshot(START)
    plan = schedule(snapshot, default(builtin()))
    assert violations(snapshot, plan) == []
    assert isinstance(str(plan), str)


def _queue(body: Json) -> None:
    queue = convert(body, core.Queue)
    group = core.PodGroup(
        metadata=core.Meta(name="g", namespace="ns", uid="g"),
        spec=core.PodGroupSpec(min_member=1, queue=queue.metadata.name, min_resources={"cpu": "1"}),
        status=core.PodGroupStatus(phase="Pending"),
    )
    _scheduled(queue, group)
    assert isinstance(str(reconcile_queue(scheduling.Queue.read(body, unknown="forbid"), QueueObserved())), str)
    _listed(queue_views.VIEW, queue)
    assert isinstance(queue_views._settings(queue), dict)
    assert all(map(queue_views._limit, queue.spec.limits))
    assert list(tree.lines(tree.branches([queue]), "cpu"))
    view: Any = SimpleNamespace(queues=[queue], revision=1, unknown=[])
    assert documents.queues(view, "cpu", history=False)["tree"]


def _pod_group(body: Json) -> None:
    group = convert(body, core.PodGroup)
    _scheduled(group)
    scheduling.PodGroup.read(body, unknown="forbid")


def _hyper_node(body: Json) -> None:
    hyper_node = convert(body, topology_read.HyperNode)
    pods = world("job t topology=hard:1: 2 x cpu=1")
    _scheduled(hyper_node, *pods)


def _created(effects: Iterator[Any]) -> None:
    """Jobs that a controller creates are admitted, if their queue exists by then."""
    for effect in effects:
        if isinstance(effect, CreateJob) and (effect.manifest["spec"].get("queue") or "default") == "default":
            metadata = effect.manifest["metadata"] | {"namespace": "ns", "uid": "u2"}
            metadata |= {"creationTimestamp": START.isoformat(), "resourceVersion": "1"}
            assert one_object.outcome({**effect.manifest, "metadata": metadata}) == "processed", effect.manifest


def _flow(body: Json) -> None:
    flow = FlowWorld({"name": "s"})
    flow.flow = JobFlow.read(body, unknown="forbid")
    for step in flow.flow.spec.flows:
        flow.template(step.template or step.name, job_spec())
    _created(iter(flow.look().effects))
    _listed(flows.VIEW, convert(body, flow_read.JobFlow))


def _template(body: Json) -> None:
    flow = FlowWorld({"name": "s", "template": body["metadata"]["name"]}, templates={})
    flow.templates[body["metadata"]["name"]] = JobTemplate.read(body, unknown="forbid")
    _created(iter(flow.look().effects))
    _listed(templates.VIEW, convert(body, flow_read.JobTemplate))


def _cron(body: Json) -> None:
    cron = CronWorld("@yearly")
    cron.cron = CronBatchJob.read(body, unknown="forbid")
    cron.now += timedelta(days=400)
    _created(iter(cron.look().effects))


def _command(body: Json) -> None:
    command = Command.read(body, unknown="forbid")
    queue = scheduling.Queue.read({"metadata": {"name": "x", "uid": "x"}})
    assert isinstance(str(reconcile_queue(queue, QueueObserved(commands=(command,)))), str)


READERS: dict[str, Callable[[Json], None]] = {
    "Queue": _queue,
    "PodGroup": _pod_group,
    "HyperNode": _hyper_node,
    "JobFlow": _flow,
    "JobTemplate": _template,
    "CronBatchJob": _cron,
    "Command": _command,
}
KINDS = ("BatchJob", *READERS)


def main(first: int, last: int, kinds: tuple[str, ...]) -> None:
    """Try the objects of these seeds, and print what failed."""
    for kind in kinds or KINDS:
        counts: Counter[str] = Counter()
        for seed in range(first, last):
            try:
                counts[outcome(made(kind, seed))] += 1
            except Exception as fault:
                counts["failed"] += 1
                print(kind, seed, type(fault).__name__, str(fault)[:300].replace("\n", " "), flush=True)
        print(kind, dict(counts), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), tuple(sys.argv[3:]))
