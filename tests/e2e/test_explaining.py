"""Explanations of waiting jobs: equal messages in all objects, ``explain`` and ``plan`` of a snapshot."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.world import EVENTS, JOBS, POD_GROUPS, QUEUES, World, batch_job, condition
from volcanopy.cli.explain.text import job_lines, plain, queue_lines
from volcanopy.cli.framework.options import ClusterOptions
from volcanopy.cli.plan import PlanOptions, plan_with
from volcanopy.cli.snapshot import snapshot
from volcanopy.client.access import is_allowed
from volcanopy.client.explain.cluster_reads import job_facts
from volcanopy.client.explain.job import job_report
from volcanopy.client.explain.queue import queue_report
from volcanopy.client.explain.queue_reads import queue_facts
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.kubeconfig import load_connection

QUEUE = "scheduling.volcanopy.io/v1beta1"


def queue(name: str, **spec: Any) -> Json:
    return {"apiVersion": QUEUE, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


async def explained(cluster: World, job: str) -> tuple[Json, Json]:
    """Wait until a job's group explains itself and the job says the same; gives the job and the group."""

    def has(groups: list[Json]) -> bool:
        return any(of(group) == job and (group.get("status") or {}).get("explanation") for group in groups)

    groups = await cluster.all_of(POD_GROUPS, has)
    group = next(item for item in groups if of(item) == job)
    said = group["status"]["explanation"]["message"]
    jobs = await cluster.all_of(
        JOBS,
        lambda result: any(item["status"]["state"].get("message") == said for item in result if item.get("status")),
        fields=f"metadata.name={job}",
    )
    return jobs[0], group


def of(group: Json) -> str:
    return str(group["metadata"]["ownerReferences"][0]["name"])


async def events_of(client: Client, group: Json) -> list[Json]:
    """The warnings about a group, once there is one."""
    uid = group["metadata"]["uid"]
    async with asyncio.timeout(60):
        while True:
            listing = await client.list(
                EVENTS, group["metadata"]["namespace"], field_selector=f"involvedObject.uid={uid}"
            )
            if objects := [obj for obj in listing.items if obj["type"] == "Warning"]:
                return objects
            async with client.watch(EVENTS, resource_version=listing.resource_version) as stream:
                await stream.readline()


CASES: dict[str, tuple[Json, str, str]] = {
    "held": (batch_job("held", 1, "1", queue="ex-held"), "queue", "✗ queue"),
    "huge": (batch_job("huge", 1, "90"), "capability", "✗ capability"),
    "capped": (batch_job("capped", 2, "1", queue="ex-capped"), "capability", "✗ capability"),
    "broad": (batch_job("broad", 2, "9"), "nodes", "✗ nodes"),
}


async def create_waiting_jobs(cluster: World) -> None:
    """A queue that is held, one that is all but full, and a job for each gate."""
    await cluster.create(queue("ex-held", stopPolicy="Hold"), queue("ex-capped", capability={"cpu": "4"}))
    await cluster.create(batch_job("fills", 1, "3", queue="ex-capped", duration="forever"))
    await cluster.job("fills", "Running")
    await cluster.create(*(body for body, _, _ in CASES.values()))


async def test_job_pod_group_and_event_have_the_same_message(cluster: World) -> None:
    await create_waiting_jobs(cluster)
    for name, (_, gate, mark) in CASES.items():
        job, group = await explained(cluster, name)
        said = group["status"]["explanation"]
        assert (name, said["gate"]) == (name, gate)
        assert condition(group, "Unschedulable")["message"] == said["message"]
        assert condition(job, "Pending")["message"] == said["message"]
        events = await events_of(cluster.client, group)
        assert [event["message"] for event in events][-1:] == [said["message"]], name
        report = job_report(await job_facts(cluster.client, cluster.namespace, name, "volcanopy-system"))
        assert report.summary == f'job "{name}" is pending: {said["message"]}'
        assert mark in plain(job_lines(report))
        assert report.unblocked_by


async def test_a_scheduled_job_has_no_explanation(cluster: World) -> None:
    await cluster.create(batch_job("first", 3, "8", duration="forever"))
    await cluster.job("first", "Running")
    await cluster.create(batch_job("second", 1, "8", duration="forever"))
    await explained(cluster, "second")
    await cluster.client.delete(JOBS, cluster.namespace, "first")
    await cluster.job("second", "Running")
    await cluster.all_of(
        POD_GROUPS,
        lambda groups: [group["status"].get("explanation") for group in groups if of(group) == "second"] == [None],
    )
    report = job_report(await job_facts(cluster.client, cluster.namespace, "second", "volcanopy-system"))
    assert report.summary == 'job "second" is running: 1/1 pods running'
    assert "✓ nodes" in plain(job_lines(report))


async def test_explain_queue_lists_pending_jobs_and_the_limiting_ancestor(cluster: World) -> None:
    await cluster.create(queue("ex-team", capability={"cpu": "4"}), queue("ex-ml", parent="ex-team"))
    await cluster.create(batch_job("runs", 1, "1", queue="ex-ml", duration="forever"))
    await cluster.job("runs", "Running")
    await cluster.create(batch_job("waits", 2, "2", queue="ex-ml"))
    await explained(cluster, "waits")

    def holds(queues: list[Json]) -> bool:
        return all((queue.get("status") or {}).get("allocated", {}).get("cpu") == "1" for queue in queues)

    for name in ("ex-ml", "ex-team"):
        await cluster.all_of(QUEUES, holds, fields=f"metadata.name={name}")
    report = queue_report(await queue_facts(cluster.client, "ex-ml"))
    assert report.ancestors == ("ex-team", "root")
    assert dict(report.gates).keys() <= {"capability", "share", "overcommit"}
    assert [job.name for job in report.waiting] == ["waits"]
    (cpu,) = [resource for resource in report.resources if resource.resource == "cpu"]
    assert (cpu.allocated, cpu.capability, cpu.limited_by, cpu.available) == ("1", "4", "ex-team", "3")
    shown = plain(queue_lines(report))
    assert 'queue "ex-team": cpu available 3' in shown
    assert "1 job pending (by gate: " in report.summary


async def test_plan_of_a_snapshot_equals_the_decisions_of_the_scheduler(
    cluster: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What waits in a cluster at rest is told by the plan for the snapshot as the scheduler has told it."""
    await create_waiting_jobs(cluster)
    for name in CASES:
        await explained(cluster, name)
    capsys.readouterr()
    await snapshot(ClusterOptions(cluster.kubeconfig), None, "", "volcanopy")
    taken = capsys.readouterr()
    assert "replay it with `volcanopy plan -f FILE`" in taken.err
    path = tmp_path / "cluster.json"
    path.write_text(taken.out)
    items = json.loads(taken.out)["items"]
    assert not {item["kind"] for item in items} & {"Secret", "ConfigMap"}
    assert not [item for item in items if "env" in str(item.get("spec", {}).get("containers", ""))]
    await asyncio.to_thread(plan_with, [str(path)], PlanOptions(as_json=True))
    made = json.loads(capsys.readouterr().out)["effects"]
    assert not [entry for entry in made if entry["effect"] in {"Bind", "Evict"}]
    explanations = {entry["podGroup"]: _explanation_fields(entry) for entry in made if entry["effect"] == "Explain"}
    assert len(explanations) == len(CASES)

    def matches_plan(groups: list[Json]) -> bool:
        """Other numbers in a sentence are written a little later than the first sentence."""
        live = {
            f"{cluster.namespace}/{group['metadata']['name']}": group["status"].get("explanation") for group in groups
        }
        return {key: _explanation_fields(said) for key, said in live.items() if said} == explanations

    await cluster.all_of(POD_GROUPS, matches_plan, 60)


def _explanation_fields(said: Json) -> Json:
    return {part: said.get(part) or "" for part in ("gate", "message", "unblockedBy", "nodes")}


async def test_explain_job_works_with_minimal_permissions(
    cluster: World, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Permission to read jobs and pod groups of a namespace is enough for the summary and all gates."""
    await create_waiting_jobs(cluster)
    await explained(cluster, "broad")
    api = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["batch.volcanopy.io"], "resources": ["batchjobs"], "verbs": ["get"]},
        {"apiGroups": ["scheduling.volcanopy.io"], "resources": ["podgroups"], "verbs": ["get"]},
    ]
    reads = {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": {"name": "reads-jobs"}, "rules": rules}
    who = {"apiGroup": api, "kind": "User", "name": "researcher"}
    what = {"apiGroup": api, "kind": "Role", "name": "reads-jobs"}
    bound = {**reads, "kind": "RoleBinding", "subjects": [who], "roleRef": what}
    await cluster.create(reads, {key: value for key, value in bound.items() if key != "rules"})
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "researcher"
    path = tmp_path / "researcher"
    path.write_text(yaml.safe_dump(config))
    async with Client(load_connection(path)) as client:
        if "real" in request.node.name:  # which follows roles and bindings by watches
            async with asyncio.timeout(60):
                while not await is_allowed(client, "get", JOBS, cluster.namespace):
                    pass
        report = job_report(await job_facts(client, cluster.namespace, "broad", "volcanopy-system"))
    assert report.summary == 'job "broad" is pending: 0/3 nodes are available: 3 Insufficient cpu'
    assert "✗ nodes" in plain(job_lines(report))
    assert report.unblocked_by
    if "real" in request.node.name:
        assert list(report.notes) == [
            'you may not read queue "default": not included',
            f'you may not read the pods of namespace "{cluster.namespace}": not included',
        ]
