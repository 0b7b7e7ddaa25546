"""The page in a browser while the API server is gone, for users with few rights, and with hostile names."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cli.ui.api_server import USERS, connection, create_namespace, grant, install, serving, submit
from tests.cli.ui.chromium import browser, needs_browser
from tests.cli.ui.test_large_cluster import NOW, insert, opened, served
from volcanopy.api import core
from volcanopy.api.batch_read import BatchJob, BatchJobSpec, BatchJobStatus, JobState, TaskSpec
from volcanopy.cli.ui.decisions import Decision
from volcanopy.cli.ui.server import UiSettings, page_served
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection

pytestmark = needs_browser
HOSTILE = '<img src=x onerror="document.title=1">'
ATTEMPTS = 20


@asynccontextmanager
async def page(api: Connection, namespace: str | None = None) -> AsyncIterator[str]:
    async with Client(api) as client, page_served(client, UiSettings(port=0, namespace=namespace)) as url:
        yield url


async def test_the_page_recovers_from_a_restart_of_the_api_server_without_being_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "objects"
    async with serving(persist=file) as server:
        await install(server)
        await submit(server, "before")
        api, port = connection(server), int(server.url.rpartition(":")[2])
        async with page(api) as url, browser() as tab:
            await tab.goto(f"{url}#/jobs")
            await tab.get_by_role("link", name="before").wait_for()
            await tab.evaluate("window.loaded = 'once'")
            await server.stop()
            await tab.get_by_role("status").filter(has_text="not up to date").wait_for()
            await tab.get_by_role("alert").filter(has_text="batchjobs").wait_for()
            assert await tab.get_by_role("link", name="before").is_visible(), "the last known state stays"
            async with serving(persist=file, port=port) as again:
                await submit(again, "after")
                await tab.get_by_role("link", name="after").wait_for(timeout=60_000)
                await tab.get_by_role("status").filter(has_text="live").wait_for()
                assert await tab.locator("#problem").is_hidden()
                assert await tab.evaluate("window.loaded") == "once"


async def test_a_user_of_one_namespace_sees_its_jobs_and_what_is_forbidden() -> None:
    async with serving(rbac=True, users=USERS) as server:
        await install(server)
        for namespace in ("team", "secret"):
            await create_namespace(server, namespace)
            await submit(server, f"job-of-{namespace}", namespace)
        rights = {"batch.volcanopy.io": ["batchjobs"], "scheduling.volcanopy.io": ["podgroups"], "": ["pods"]}
        await grant(server, "ada", "team", rights)
        async with page(connection(server, "token-of-ada"), "team") as url, browser() as tab:
            await opened(tab, url, "jobs")
            await tab.get_by_role("link", name="job-of-team").wait_for()
            assert await tab.get_by_role("alert").inner_text() == "you may not list queues, nodes"
            assert await tab.locator("#live").inner_text() == "live"
            for name in ("nodes", "queues", ""):
                await opened(tab, url, name)
                assert "cannot be read" in await tab.inner_text("main"), name
            await opened(tab, url, "jobs/team/job-of-team")
            assert "you may not list events" in await tab.inner_text("main")
            await tab.goto(f"{url}#/jobs/secret/job-of-secret")
            await tab.locator("main [role=alert]").filter(has_text="forbidden").wait_for()
            assert "job-of-secret" not in await (await tab.request.get(f"{url}api/jobs")).text()


async def test_a_user_without_rights_is_told_so_on_every_page() -> None:
    async with serving(rbac=True, users=USERS) as server:
        await install(server)
        await submit(server, "unseen")
        async with page(connection(server, "token-of-eve")) as url, browser() as tab:
            for name in ("", "jobs", "nodes", "queues"):
                await opened(tab, url, name)
                assert "cannot be read" in await tab.inner_text("main"), name
                assert "unseen" not in await tab.inner_text("main")
            for kind in ("queues", "podgroups", "batchjobs", "nodes", "pods"):
                assert kind in await tab.get_by_role("alert").inner_text()


async def test_a_change_is_on_the_page_within_two_seconds() -> None:
    """From the answer of the API server to the changed document, by one clock; the fastest of several changes counts.

    Other programs can only delay a change, so that one within the limit shows that the page waits for nothing longer.
    """
    async with serving() as server:
        await install(server)
        async with page(connection(server)) as url, browser() as tab:
            await tab.goto(f"{url}#/jobs")
            await tab.get_by_role("status").filter(has_text="live").wait_for()
            delays: list[float] = []
            while not delays or (min(delays) >= 2 and len(delays) < ATTEMPTS):
                name = f"new-{len(delays)}"
                await tab.evaluate(
                    """(name) => { window.shown = new Promise((done) => new MutationObserver(() => {
                        if (document.body.innerText.includes(name)) done(Date.now() / 1000);
                    }).observe(document.body, { childList: true, subtree: true, characterData: true })) }""",
                    name,
                )
                await submit(server, name)
                answered = await tab.evaluate("Date.now() / 1000")
                delays.append(await tab.evaluate("window.shown") - answered)
            assert min(delays) < 2, delays


async def test_focus_selection_and_open_parts_survive_a_change() -> None:
    async with served(filled=False) as (url, view), browser() as tab:
        view.decisions.items += [Decision(NOW, action, "default/folded") for action in ("waits", "admitted")]
        await opened(tab, url, "decisions")
        await tab.locator("summary").click()
        await tab.locator("summary").focus()
        await _change(view, "first")
        await tab.get_by_role("cell", name="default/first").first.wait_for()
        opened_row = tab.get_by_role("row").filter(has=tab.locator("details[open]"))
        assert await opened_row.get_by_role("link", name="default/folded").count() == 1
        assert await tab.locator("details[open]").count() == 1
        assert await tab.evaluate("document.activeElement.localName") == "summary"
        await tab.get_by_role("link", name="default/first").first.focus()
        await _change(view, "second")
        await tab.get_by_role("cell", name="default/second").first.wait_for()
        assert await tab.evaluate("document.activeElement.textContent") == "default/first"


async def _change(view: Any, job: str) -> None:
    """Place a pod of a job."""
    meta = core.Meta(name=job, namespace="default", uid=job)
    pod = core.Pod(metadata=meta, spec=core.PodSpec(node_name="node"))
    view._pods.synced.set()
    view._take_pods([Change(ChangeType.ADDED, pod)])
    await asyncio.sleep(0)


async def test_hostile_names_are_text_on_every_page() -> None:
    async with served(filled=False) as (url, view), browser() as tab:
        await tab.add_init_script(
            "window.attacks = []; addEventListener('securitypolicyviolation', (event) => window.attacks.push(event.violatedDirective))"
        )
        meta = core.Meta(name=HOSTILE, namespace=HOSTILE, uid="1", creation_timestamp=datetime(2026, 3, 1, tzinfo=UTC))
        alone = core.Meta(name=HOSTILE, uid="2")
        amounts: dict[str, str | int | float] = {"cpu": "4", HOSTILE: "2"}
        insert(view._queues[0], core.Queue(metadata=alone, status=core.QueueStatus(allocated=amounts)))
        insert(view._nodes, core.Node(metadata=alone, status=core.NodeStatus(allocatable=amounts)))
        state = JobState(phase="Pending", message=HOSTILE)
        spec = BatchJobSpec(queue=HOSTILE, tasks=(TaskSpec(name=HOSTILE, replicas=1),))
        job = BatchJob(metadata=meta, spec=spec, status=BatchJobStatus(state=state))
        insert(view._jobs[0], job)
        reason = core.Explanation(gate=HOSTILE, message=HOSTILE)
        group = core.PodGroup(
            metadata=meta,
            spec=core.PodGroupSpec(queue=HOSTILE),
            status=core.PodGroupStatus(phase="Pending", explanation=reason),
        )
        insert(view._groups[0], group)
        view._groups[0].synced.set()
        view._take_groups(view._groups[0].synced, [Change(ChangeType.ADDED, group)])
        for name in ("", "queues", "jobs", "nodes", "whatif", "decisions"):
            await opened(tab, url, name)
            whole = await tab.inner_text("main") + await tab.inner_html("main")
            assert "onerror" in whole, name
            assert await tab.locator("main img").count() == 0, name
        assert await tab.evaluate("window.attacks") == []
