"""A step of a reconcile makes at most so many writes, whatever mix of objects there is, and the others follow in further steps."""

import contextlib
from collections import Counter
from contextvars import ContextVar
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.nightly import nightly
from tests.services.service_cluster import CRDS, Cluster, controller, task
from tests.services.test_flows import flow, template
from tests.services.test_gangs import GANGS, LABEL, definition
from tests.services.test_pod_groups import REPLICA_SETS, create, group_of, pod, workload
from tests.services.test_steps import admit
from volcanopy.kube.client.errors import AlreadyExists
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import COMMANDS, CRON_JOBS, JOBS, NODES, QUEUES
from volcanopy.kube.client.transport import Transport
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy.services.controllers.steps import FIRST_WRITES, MOST_WRITES
from volcanopy.services.controllers.user_kinds import wait_for_kinds
from volcanopy.services.controllers.worker import Worker

BOUNDS = {"BatchJob": MOST_WRITES, "PodGroup": MOST_WRITES, "gang": MOST_WRITES + 1}
"""By kind: the writes of a step; of the others :data:`FIRST_WRITES`. A gang has one more, its status."""
KINDS = {*BOUNDS, "JobFlow", "CronBatchJob", "Queue", "HyperNode"}
RACK = "example.com/rack"
CONFIG = f"""
networkTopologyDiscovery:
  - source: label
    enabled: true
    config: {{networkTopologyTypes: {{plain: [{{nodeLabel: {RACK}}}, {{nodeLabel: kubernetes.io/hostname}}]}}}}
"""
_step: ContextVar[list[str] | None] = ContextVar("step", default=None)
"""The writes of the step that runs in this context."""


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """By kind: the most writes of a step."""
    counts: Counter[str] = Counter()
    reconcile, send = Worker._reconcile, Transport.send

    async def counted(self: Worker, key: str) -> str:
        writes: list[str] = []
        _step.set(writes)
        try:
            return await reconcile(self, key)
        finally:
            counts[self.noun] = max(counts[self.noun], len(writes))

    async def sent(self: Transport, method: str, path: str, *args: Any, **more: Any) -> bytes:
        if method != "GET" and (writes := _step.get()) is not None:
            writes.append(path)
        return await send(self, method, path, *args, **more)

    monkeypatch.setattr(Worker, "_reconcile", counted)
    monkeypatch.setattr(Transport, "send", sent)
    return counts


async def cron_job(cluster: Cluster, completed: int) -> None:
    """A cron job with completed jobs, of which it keeps none."""
    spec = {"schedule": "@yearly", "suspend": True, "successfulJobsHistoryLimit": 0}
    spec["jobTemplate"] = {"spec": {"tasks": [task()]}}
    of_kind = {"apiVersion": CRON_JOBS.api_version, "kind": CRON_JOBS.kind}
    body = {**of_kind, "metadata": {"name": "cron"}, "spec": spec}
    made = await cluster.client.create(CRON_JOBS, cluster.namespace, body)
    owner = {**of_kind, "name": "cron", "uid": made["metadata"]["uid"], "controller": True}
    for number in range(completed):
        name = f"cron-{number}"
        await cluster.submit(name, task())
        patch: Json = {"metadata": {"ownerReferences": [owner]}}
        await cluster.client.patch(JOBS, cluster.namespace, name, patch)
        patch = {"status": {"state": {"phase": "Completed"}}}
        await cluster.client.patch_status(JOBS, cluster.namespace, name, patch)


async def commands(cluster: Cluster, count: int) -> None:
    """Commands for one queue."""
    of_kind = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind}
    queue = await cluster.client.create(QUEUES, None, {**of_kind, "metadata": {"name": "commanded"}, "spec": {}})
    target = {**of_kind, "name": "commanded", "uid": queue["metadata"]["uid"]}
    of_kind = {"apiVersion": COMMANDS.api_version, "kind": COMMANDS.kind}
    for number in range(count):
        body = {**of_kind, "metadata": {"name": f"command-{number}"}, "action": "OpenQueue", "target": target}
        await cluster.client.create(COMMANDS, cluster.namespace, body)


async def racks(cluster: Cluster, count: int) -> None:
    """Nodes, each in a rack of its own."""
    for number in range(count):
        metadata = {"name": f"node-{number}", "labels": {RACK: f"rack-{number}"}}
        await cluster.client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})


@pytest.mark.parametrize("seed", [1, *(pytest.param(number, marks=nightly) for number in range(2, 12))])
async def test_a_step_makes_few_writes_and_is_continued(
    embedded: Cluster, tmp_path: Path, most: Counter[str], seed: int
) -> None:
    random, cluster = Random(seed), embedded
    cluster.plays = False
    few = {kind: random.randint(FIRST_WRITES + 1, 3 * FIRST_WRITES) for kind in sorted(KINDS - set(BOUNDS))}
    pods = {kind: random.randint(MOST_WRITES + 1, MOST_WRITES + 200) for kind in sorted(BOUNDS)}
    with contextlib.suppress(AlreadyExists):
        await cluster.client.create(CRDS, None, definition())
    await wait_for_kinds(cluster.client, (GANGS,))
    (config := tmp_path / "controller.yaml").write_text(CONFIG)
    steps = [{"name": f"s{number}", "template": f"t{number % 60}"} for number in range(few["JobFlow"])]
    for name in sorted({step["template"] for step in steps}):
        await template(cluster, name)
    await flow(cluster, "flow", *steps)
    await cron_job(cluster, few["CronBatchJob"])
    await commands(cluster, few["Queue"])
    await racks(cluster, few["HyperNode"])
    gang = {"apiVersion": GANGS.api_version, "kind": GANGS.kind, "metadata": {"name": "train"}}
    await cluster.client.create(GANGS, cluster.namespace, gang | {"spec": {"minMember": 2}})
    members = [pod(f"member-{number}") for number in range(pods["gang"])]
    for member in members:
        member["metadata"]["labels"] = {LABEL: "train"}
    owner = await workload(cluster, REPLICA_SETS, "set")
    await create(cluster, *members, *(pod(f"set-{number}", owner) for number in range(pods["PodGroup"])))
    await cluster.submit("large", task(replicas=pods["BatchJob"]), minAvailable=pods["BatchJob"])
    async with controller(cluster, JobControllerSettings(gang_apis=("coscheduling",), config=config)):
        await admit(cluster, "large")
        await cluster.until(lambda: sum(name.startswith("large-") for name in cluster.pods) == pods["BatchJob"])
        await cluster.until(lambda: all(map(group_of, cluster.pods.values())))
        await cluster.until(lambda: sum(name.startswith("flow-") for name in cluster.jobs) == few["JobFlow"])
        await cluster.until(lambda: not any(name.startswith("cron-") for name in cluster.jobs))
        await cluster.all_of(COMMANDS, lambda items: not items)
    assert set(most) == KINDS
    assert not {kind: count for kind, count in most.items() if count > BOUNDS.get(kind, FIRST_WRITES)}
