"""One job through every reader: rejected by the first with a sentence, or processed by all.

``python -m tests.security.one_object FIRST LAST`` tries the objects of these seeds.
"""

import sys
from collections import Counter
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec

from embedded_apiserver.schema.structural import Structural
from tests.jobcontroller.world import START
from tests.jobcontroller.world import World as JobWorld
from tests.security.extremes import BASES, Schemas, values
from volcanopy.admission.annotation_values import FORMS
from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import review
from volcanopy.api import batch_read, core
from volcanopy.api.bindings import VOLCANOPY
from volcanopy.api.crd import crds
from volcanopy.api.decoding import convert
from volcanopy.cli.framework.description import Description
from volcanopy.cli.jobs import views
from volcanopy.cli.ui import documents
from volcanopy.client.jobs import status
from volcanopy.jobcontroller.plugins.registry import plugin_problems
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.policy.config import default

Json = dict[str, Any]
MORE_QUANTITIES = (
    "1e99999",
    "1e-99999",
    "9" * 999,
    "9" * 1001,
    " 1",
    "1 ",
    "\uff11",
    "1e3Ki",
    ".",
    "1.",
    "+1",
    "NaN",
    True,
    1.5,
)
MORE_TEXTS = (
    "\x00",
    "\U0001f600" * 20,
    "a" * 64,
    "A_b",
    "a.b",
    "-a",
    "9" * 5000 + "h",
    "0x10",
    "1_000",
    "*",
    "[",
    "a\nb",
)
DURATIONS = ("1h", "0", "-1h", "1.5h", "9999999h", "9" * 30 + "h", "1d", "1h ", "h", "P1D", "1\u00b5s", "\uff11h")
NOTES = ("batch.example.com/x", *FORMS, "volcanopy.io/task-topology-affinity", "volcanopy.io/task-topology-task-order")
SIZES = (0, 100, 60_000, 130_000, 240_000, 262_000)
QUEUE = msgspec.convert({"metadata": {"name": "default"}, "spec": {"capability": {"cpu": "8"}}}, core.Queue)
CONTEXT = Context(
    queues={"root": msgspec.convert({"metadata": {"name": "root"}}, core.Queue), "default": QUEUE},
    check_plugins=plugin_problems,
    policy=AdmissionPolicy(),
    pod_groups={},
)
"""Without dry runs, which find what the API server would reject in pods."""


@cache
def definition(kind: str) -> Json:
    for each in crds():
        if each["spec"]["names"]["kind"] == kind:
            return dict(each["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    raise KeyError(kind)


@cache
def schema(kind: str) -> Structural:
    return Structural.compile(definition(kind))


@cache
def _leaves() -> tuple[Schemas, Json, tuple[Any, ...]]:
    named = {"x-kubernetes-group-version-kind": [{"kind": "BatchJob"}]}
    schemas = Schemas({"BatchJob": definition("BatchJob") | named})
    schema = schemas.of_kind("BatchJob")
    return schemas, schema, tuple(schemas.leaves(schema))


def made(seed: int) -> Json:
    """The job of a seed: one to three fields have extreme values, and its annotations, labels and name may."""
    random, (schemas, schema, leaves) = Random(seed), _leaves()
    job = next(base for base in BASES if base["kind"] == "BatchJob")
    for path, leaf in random.sample(leaves, random.choice((0, 1, 1, 2, 3))):
        pool = values(leaf)
        if leaf.get("type") == "string":
            pool = (*pool, *MORE_TEXTS, *DURATIONS)
        elif leaf.get("x-kubernetes-int-or-string"):
            pool = (*pool, *MORE_QUANTITIES)
        job = schemas.with_value(job, schema, path, random.choice(pool))
    metadata: Json = {"name": random.choice(("job", "job", "a" * 58, "a" * 70, "0", "a.b")), "namespace": "ns"}
    notes = {
        key: random.choice((*DURATIONS, *MORE_TEXTS, "1", "true"))
        for key in random.sample(NOTES, random.choice((0, 0, 1, 2)))
    }
    if size := random.choice(SIZES) if random.random() < 0.1 else 0:
        notes["x"] = "a" * size
    metadata |= {"annotations": notes, "labels": random.choice(({}, {}, {"a": "b"}))}
    metadata |= {"uid": "u1", "resourceVersion": "1", "generation": 1, "creationTimestamp": START.isoformat()}
    return {**job, "metadata": metadata}


def outcome(job: Json) -> str:
    """``schema`` or ``admission`` for a job that one of these rejects with a sentence, else ``processed``. Raises otherwise."""
    if errors := schema("BatchJob").validate(job):
        assert all(str(error) for error in errors)
        return "schema"
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "batch.volcanopy.io", "version": "v1alpha1", "kind": "BatchJob"},
        "namespace": "ns",
        "name": job["metadata"]["name"],
        "userInfo": {"username": "eve"},
        "object": job,
    }
    response = review({"request": request}, CONTEXT)["response"]
    if not response["allowed"]:
        assert ": " in response["status"]["message"]
        return "admission"
    _shown(job, None)
    _run(job)
    return "processed"


def _run(job: Json) -> None:
    """Let the controller and the scheduler process the job."""
    world = JobWorld(job)
    world.step()
    group = world.pod_group
    if group is not None:
        assert schema("PodGroup").validate(group) == [], "the PodGroup is rejected"
        notes = group["metadata"].get("annotations") or {}
        assert sum(len(f"{key}{value}".encode()) for key, value in notes.items()) <= 256 * 1024, (
            "annotations of the PodGroup"
        )
        group.setdefault("status", {})["phase"] = "Inqueue"
    world.step()
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
    state = State()
    state.upsert(QUEUE)
    state.upsert(convert(node, core.Node))
    if world.pod_group is not None:
        state.upsert(convert(world.pod_group, core.PodGroup))
    for pod in world.pods.values():
        notes = pod["metadata"].get("annotations") or {}
        assert sum(len(f"{key}{value}".encode()) for key, value in notes.items()) <= 256 * 1024, "annotations of a pod"
        state.upsert(convert(pod, core.Pod))
    snapshot = state.snapshot(START)
    plan = schedule(snapshot, default(builtin()))
    assert violations(snapshot, plan) == []
    assert isinstance(str(plan), str)
    _shown(world.job or job, world.pod_group)


def _shown(job: Json, group: Json | None) -> None:
    """Show the job as the command line and the web page do."""
    read = convert(job, batch_read.BatchJob)
    assert status.summary(read) is not None
    lines = Description(read.metadata)
    views._tasks(lines, read)
    views._policies(lines, read)
    assert lines.text()
    groups = {} if group is None else {"ns/x": convert(group, core.PodGroup)}
    view: Any = SimpleNamespace(jobs=[(VOLCANOPY, read)], groups=groups, revision=1, unknown=[])
    assert documents.jobs(view, {}, START)["total"] == 1


def main(first: int, last: int) -> None:
    """Try the objects of these seeds, and print what failed."""
    counts: Counter[str] = Counter()
    for seed in range(first, last):
        try:
            counts[outcome(made(seed))] += 1
        except Exception as fault:
            counts["failed"] += 1
            print(seed, type(fault).__name__, str(fault)[:300].replace("\n", " "), flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
