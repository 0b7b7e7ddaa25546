"""The server of the web page on a cluster: its documents equal those of the commands, and foreign requests get nothing."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.cli.run_commands import Outcome, Run
from tests.cli.ui.conftest import GANG
from tests.e2e.world import EXAMPLES
from volcanopy.cli.ui.server import ASSETS, TOKEN_HEADER, UiSettings, page_served
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kubeconfig import load_connection


@asynccontextmanager
async def page(kubeconfig: Path, *, changes: bool = True) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    connection = load_connection(kubeconfig)
    settings = UiSettings(port=0, allow_changes=changes)
    async with Client(connection) as client, page_served(client, settings) as url, aiohttp.ClientSession() as session:
        yield url, session


async def get(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def told(command: Run, *words: str) -> Outcome:
    """The outcome of a command, which has an event loop of its own."""
    return await asyncio.to_thread(command, *words)


async def test_the_table_of_jobs_equals_the_command(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        document = await get(session, f"{url}api/jobs?text=test-server&sort=NAME")
    listed = (await told(gangs, "job", "list", "-o", "wide")).out.splitlines()
    assert document["headings"][1:-2] == re.split(r"\s{2,}", listed[0].strip())
    assert document["headings"][-2:] == ["RUN TIME", "USER"]
    assert [row[:7] for row in document["rows"]] == [["test-server", *line.split()[:6]] for line in listed[1:]]


@pytest.mark.parametrize(
    ("text", "number"), [("0", 1), ("2", 1), ("9" * 5000, 1), ("-1", 1), ("x", 1), ("", 1), ("00001", 1)]
)
async def test_a_page_of_the_table_that_does_not_exist_is_the_nearest(kubeconfig: Path, text: str, number: int) -> None:
    async with page(kubeconfig) as (url, session):
        assert (await get(session, f"{url}api/jobs?page={text}"))["page"] == number


async def test_the_tree_of_queues_equals_the_command(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        document = await get(session, f"{url}api/queues?resource=cpu")
    tree = json.loads((await told(gangs, "queue", "tree", "-o", "json")).out)
    assert [queue["name"] for queue in document["tree"]["queues"]] == [queue["name"] for queue in tree["queues"]]
    assert document["history"]["resource"] == "cpu"
    assert document["amounts"].keys() >= {"root", "default"}


async def test_the_page_of_a_flow_has_its_jobs_in_levels_and_the_critical_path_of_the_command(
    gangs: Run, kubeconfig: Path
) -> None:
    await told(gangs, "jobflow", "create", "-f", str(EXAMPLES / "10-flow"))
    try:
        async with page(kubeconfig) as (url, session):
            listed = await get(session, f"{url}api/flows")
            assert [(flow["namespace"], flow["name"], flow["total"]) for flow in listed["flows"]] == [
                ("test-server", "pipeline", 5)
            ]
            document = await get(session, f"{url}api/flows/test-server/pipeline")
            async with session.get(f"{url}api/flows/test-server/none") as missing:
                assert missing.status == 404
        jobs = {job["name"]: job for job in document["jobs"]}
        assert jobs["fetch"]["level"] == 1 < jobs["clean-more"]["level"]
        described = (await told(gangs, "jobflow", "describe", "pipeline")).out
        assert f"Critical Path:     {' -> '.join(document['criticalPath'])} (" in described
    finally:
        await told(gangs, "jobflow", "delete", "-f", str(EXAMPLES / "10-flow"))


async def test_the_page_of_a_job_equals_explain_with_its_remedies(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        document = await get(session, f"{url}api/jobs/test-server/waits?remedies=all")
    explained = json.loads((await told(gangs, "explain", "job", "waits", "-o", "json")).out)
    for field in ("state", "gate", "result"):
        assert document["report"][field] == explained[field]
    assert {remedy["text"] for remedy in document["report"]["remedies"]} == {
        remedy["text"] for remedy in explained["remedies"]
    }
    assert document["actions"] == ["suspend", "delete"]


async def test_the_page_of_a_queue_has_its_limits_its_users_and_its_jobs_in_their_order(
    gangs: Run, kubeconfig: Path
) -> None:
    async with page(kubeconfig) as (url, session):
        document = await get(session, f"{url}api/queue?name=default&resource=cpu")
        decisions = await get(session, f"{url}api/decisions")
        async with session.get(f"{url}api/queue?name=none") as missing:
            assert (await missing.json())["error"] == 'queue "none" not found'
    assert [row[1] for row in document["jobs"]["rows"] if row[0] == "test-server"] == ["waits", "runs"]
    assert (document["queue"], document["state"], document["weight"]) == ("default", "Open", 1)
    limits = {limit["resource"]: limit for limit in document["limits"]}
    assert limits["cpu"].keys() == {"resource", "allocated", "fairShare", "waiting", "capability", "guarantee"}
    assert sum(pods for *_, pods in document["users"]) >= 2
    assert decisions["perMinute"].keys() == {"admitted", "placed", "evicted"}


async def test_the_map_shows_each_pod_on_its_node(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        document = await get(session, f"{url}api/nodes")
    job = document["jobs"].index("test-server/runs")
    place = document["resources"].index("cpu")
    uses = [use for node in document["nodes"] for use in node[4] if use[0] == job]
    assert [use[2][place] for use in uses] == [1000, 1000]


async def test_a_question_is_answered_and_nothing_is_written(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        token = (await get(session, f"{url}api/session"))["token"]
        body = {"like": "node-1", "count": 9, "manifest": GANG.format(name="new", pods=1, cpu=1)}
        async with session.post(f"{url}api/whatif", json=body, headers={TOKEN_HEADER: token}) as response:
            answer = await response.json()
    starts = {job["job"]: (job["before"], job["after"]) for job in answer["jobs"] if job["changed"]}
    assert starts["test-server/waits"][1] == "starts now"
    assert starts["test-server/new"] == ("new", "starts now")
    assert any("whatif" in node for node in answer["placements"])
    placed = [pod for pods in answer["placements"].values() for pod in pods if pod["job"] == "test-server/waits"]
    assert [pod["amounts"] for pod in placed] == [{"cpu": 8000}] * 9, "also of pods that are not created yet"
    assert (await told(gangs, "job", "list", "-o", "name")).out.split() == [
        "batchjob.batch.volcanopy.io/runs",
        "batchjob.batch.volcanopy.io/waits",
    ]


EXPANDING = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nx0: &x0 [a, a, a, a, a, a, a, a, a, a]\n" + "".join(
    f"x{number}: &x{number} [{', '.join([f'*x{number - 1}'] * 10)}]\n" for number in range(1, 8)
)
"""A manifest of 500 characters with a hundred million values."""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"count": -1}, "count: -1 is not a number from 0 to 1000"),
        ({"like": "none", "count": 1}, 'like: node "none" not found'),
        ({"remove": ["none"]}, 'remove: node "none" not found'),
        ({"queues": {"none": {"weight": 2}}}, 'queues: queue "none" not found'),
        ({"manifest": "a: [b"}, "manifest: line 1: invalid YAML"),
        ({"manifest": "a: b"}, "manifest, document 1: apiVersion is missing"),
        ({"manifest": "apiVersion: v1\nkind: Pod"}, "manifest: every object needs metadata.name"),
        ({"manifest": EXPANDING}, "manifest: line 10: invalid YAML: more than 2000000 values, with aliases expanded"),
        ([], "the question must be a JSON object"),
    ],
)
async def test_a_wrong_question_gets_one_sentence(kubeconfig: Path, body: Any, message: str) -> None:
    async with page(kubeconfig) as (url, session):
        token = (await get(session, f"{url}api/session"))["token"]
        async with session.post(f"{url}api/whatif", json=body, headers={TOKEN_HEADER: token}) as response:
            assert response.status == 400
            assert (await response.json())["error"].startswith(message)


async def test_a_change_needs_the_token_the_own_origin_and_the_option(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        path = f"{url}api/jobs/test-server/runs/delete"
        token = (await get(session, f"{url}api/session"))["token"]
        refused: list[dict[str, str]] = [{}, {TOKEN_HEADER: "x"}, {TOKEN_HEADER: token, "Origin": "http://other:1"}]
        for headers in refused:
            async with session.post(path, headers=headers) as response:
                assert response.status == 403
        async with session.get(path) as response:
            assert response.status == 405
    async with page(kubeconfig, changes=False) as (url, session):
        document = await get(session, f"{url}api/session")
        assert document["readOnly"] is True
        assert document["changes"] == []
        headers = {TOKEN_HEADER: document["token"]}
        async with session.post(f"{url}api/jobs/test-server/runs/delete", headers=headers) as response:
            assert response.status == 403
            assert "--allow-changes" in (await response.json())["error"]
    assert (await told(gangs, "job", "list", "-o", "name")).out.count("runs") == 1


async def test_a_job_is_suspended_and_resumed(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        headers = {TOKEN_HEADER: (await get(session, f"{url}api/session?namespace=test-server"))["token"]}
        async with session.post(f"{url}api/jobs/test-server/waits/suspend", headers=headers) as response:
            assert await response.json() == {"message": 'job "waits" suspended'}
        await told(gangs, "job", "wait", "waits", "--for", "phase=Aborted", "--timeout", "60s")
        async with session.post(f"{url}api/jobs/test-server/waits/suspend", headers=headers) as response:
            sentence = 'job "waits" is Aborted: only jobs in phase Pending, Running or Restarting can be suspended'
            assert (await response.json())["error"] == sentence
        async with session.post(f"{url}api/jobs/test-server/waits/resume", headers=headers) as response:
            assert await response.json() == {"message": 'job "waits" resumed'}


async def test_a_foreign_host_name_gets_nothing(kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        for path in ("", "api/session", "api/overview"):
            async with session.get(f"{url}{path}", headers={"Host": "evil.example:80"}) as response:
                assert response.status == 421
                assert "token" not in await response.text()


async def test_every_answer_has_the_headers_of_protection(kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        for path in ("", "assets/app.js", "api/overview", "api/none", "assets/..%2fserver.py"):
            async with session.get(f"{url}{path}") as response:
                assert "script-src 'self'" in response.headers["Content-Security-Policy"]
                assert "unsafe" not in response.headers["Content-Security-Policy"]
                assert response.headers["X-Content-Type-Options"] == "nosniff"
        async with session.get(f"{url}assets/..%2fserver.py") as response:
            assert response.status == 404


async def test_a_change_is_announced_within_two_seconds(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session), session.get(f"{url}api/changes") as stream:
        first = json.loads((await stream.content.readuntil(b"\n\n")).removeprefix(b"data: "))
        assert first["missing"] == []
        await told(gangs, "queue", "create", "announced")
        while True:
            event = json.loads((await stream.content.readuntil(b"\n\n")).removeprefix(b"data: "))
            if event["revision"] > first["revision"]:
                break
        assert "announced" in (await get(session, f"{url}api/queues"))["amounts"]
    await told(gangs, "queue", "delete", "announced")


async def test_a_document_is_not_sent_again_while_nothing_changes(kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        status, tag = 0, ""
        while status != 304:  # the cluster of all tests may change meanwhile
            async with session.get(f"{url}api/nodes", headers={"If-None-Match": tag}) as response:
                status, tag = response.status, response.headers["ETag"]
                body = await response.read()
        assert body == b""


async def test_the_snapshot_of_the_page_is_read_by_plan(gangs: Run, kubeconfig: Path, tmp_path: Path) -> None:
    async with page(kubeconfig) as (url, session), session.get(f"{url}api/snapshot") as response:
        assert response.headers["Content-Disposition"].startswith("attachment")
        (tmp_path / "snapshot.json").write_bytes(await response.read())
    planned = await told(gangs, "plan", "-f", str(tmp_path / "snapshot.json"), "--budget", "0")
    assert planned.status == 0, planned
    assert "test-server/waits" in planned.out


async def test_the_history_of_a_job_has_the_earlier_ones_of_its_name(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        history = (await get(session, f"{url}api/jobs/test-server/runs"))["history"]
    assert [(entry["name"], entry["phase"], entry["evictedPods"]) for entry in history] == [("runs", "Running", 0)]


async def test_a_missing_job_and_a_missing_pod_are_404(kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session):
        for path in ("api/jobs/test-server/none", "api/jobs/test-server/runs/logs/none"):
            async with session.get(f"{url}{path}") as response:
                assert response.status == 404, await response.text()


def test_the_assets_are_small_and_load_nothing_from_elsewhere() -> None:
    files = {file.name: file.read_text() for file in ASSETS.iterdir()}
    assert sum(map(len, files.values())) < 500_000
    files["uPlot.min.js"] = files["uPlot.min.js"].removeprefix("/*! https://github.com/leeoniya/uPlot (v1.6.32) */")
    for name, text in files.items():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text), name
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=", files["index.html"])
