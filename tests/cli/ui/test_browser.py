"""The web page in a real browser: what it shows, live changes, hostile names, keys, states, and small and large windows."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run_commands import Outcome, Run
from tests.cli.ui.chromium import browser, needs_browser
from tests.cli.ui.conftest import GANG
from tests.cli.ui.test_server import get, page
from tests.e2e.world import EXAMPLES
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import default
from volcanopy_lab.reports.comparison import Comparison
from volcanopy_lab.reports.report import write_report
from volcanopy_lab.simulate.cluster_description import equal_nodes, queues, with_default_queue
from volcanopy_lab.simulate.engine import Simulator
from volcanopy_lab.simulate.generators import ML_QUEUES, ml_mix

pytestmark = needs_browser
WIDTHS = (390, 1280, 2560)
UNNAMED = """() => [...document.querySelectorAll("a, button, input, select, textarea, canvas:not(.plot *), [role=application], [role=img]")]
  .filter((element) => element.checkVisibility())
  .filter((element) => !(element.getAttribute("aria-label") || element.labels?.length || element.textContent.trim()))
  .map((element) => element.outerHTML)"""
PAGES = (
    *("", "queues", "jobs", "flows", "nodes", "whatif", "decisions"),
    *("queues/default", "jobs/test-browser/waits", "flows/test-browser/pipeline"),
)


@pytest.fixture
def pipeline(gangs: Run) -> Iterator[Run]:
    """The command, with the flow of the examples."""
    file = EXAMPLES / "10-flow"
    gangs("jobflow", "create", "-f", str(file))
    yield gangs
    gangs("jobflow", "delete", "-f", str(file))


async def command(run: Run, *words: str, stdin: str = "") -> Outcome:
    return await asyncio.to_thread(run, *words, stdin=stdin)


async def test_the_table_of_jobs_follows_the_cluster(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser() as tab:
        await tab.goto(f"{url}#/jobs")
        await tab.get_by_role("link", name="waits", exact=True).wait_for()
        await command(gangs, "job", "submit", "-f", "-", stdin=GANG.format(name="later", pods=1, cpu=1))
        await tab.get_by_role("link", name="later", exact=True).wait_for()
        await tab.get_by_label("Filter").fill("later")
        await tab.get_by_text("1 of").wait_for()
    await command(gangs, "job", "delete", "later")


async def test_the_way_back_from_a_job_leads_to_the_same_jobs(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser() as tab:
        await tab.goto(f"{url}#/jobs")
        await tab.get_by_label("Filter").fill("browser/wa")
        await tab.get_by_text("1 of").wait_for()
        await tab.get_by_role("button", name="NAME", exact=True).click()
        await tab.get_by_role("link", name="waits", exact=True).click()
        await tab.get_by_role("heading", name="test-browser/waits").wait_for()
        await tab.go_back()
        await tab.get_by_role("button", name="NAME ▲").wait_for()
        await tab.get_by_text("1 of").wait_for()
        assert await tab.get_by_label("Filter").input_value() == "browser/wa"
        await tab.get_by_role("navigation").get_by_role("link", name="Jobs").click()
        await tab.get_by_role("button", name="NAME", exact=True).wait_for()
        assert await tab.get_by_label("Filter").input_value() == ""


async def test_the_tables_show_what_kubectl_prints(gangs: Run, kubeconfig: Path, kubectl_program: Path) -> None:
    columns = "NAME:.metadata.name,PHASE:.status.state.phase,QUEUE:.spec.queue"

    async def printed(*words: str) -> list[list[str]]:
        command = [str(kubectl_program), "get", *words, "--no-headers", "--kubeconfig", str(kubeconfig)]
        program = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        return [line.split() for line in (await program.communicate())[0].decode().splitlines()]

    async with page(kubeconfig) as (url, _), browser() as tab:
        await tab.goto(f"{url}#/jobs")
        await tab.get_by_label("Filter").fill("test-browser/")
        await tab.get_by_text("2 of").wait_for()
        await tab.get_by_role("button", name="NAME", exact=True).click()
        await tab.get_by_role("button", name="NAME ▲").wait_for()
        titles = ("NAME", "PHASE", "QUEUE")
        shown = [
            await tab.locator(f"tbody td:nth-child({await column(tab, title)})").all_inner_texts() for title in titles
        ]
        await tab.goto(f"{url}#/nodes")
        nodes = await tab.locator("canvas").get_attribute("aria-label")
    assert list(map(list, zip(*shown, strict=True))) == await printed("batchjobs", "-o", f"custom-columns={columns}")
    assert nodes.startswith(f"{len(await printed('nodes'))} nodes, ")


async def column(tab: Any, title: str) -> int:
    """The number of a column of the table, from 1."""
    headings: list[str] = await tab.locator("thead th").all_text_contents()
    return [heading.removesuffix(" ▲") for heading in headings].index(title) + 1


async def test_jobs_that_wait_come_first_and_the_page_of_a_queue_has_its_users(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, session), browser() as tab:
        document = await get(session, f"{url}api/jobs?text=test-browser/")
        names = [key.rpartition("/")[2] for key in document["keys"]]
        assert names.index("waits") < names.index("runs")
        await tab.goto(f"{url}#/queues")
        await tab.get_by_role("link", name="default").first.click()
        await tab.get_by_role("heading", name="Queue default").wait_for()
        jobs = tab.get_by_role("region", name="Jobs")
        row = jobs.get_by_role("row").filter(has_text="waits").first
        await row.wait_for()
        assert "Pending" in await row.inner_text()
        assert "kubernetes-admin" in await tab.get_by_role("region", name="Users").inner_text()
        missing = await session.get(f"{url}api/queue?name=missing")
        assert (missing.status, (await missing.json())["error"]) == (404, 'queue "missing" not found')


async def test_a_job_is_deleted_after_a_question_that_names_what_is_lost(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser() as tab:
        await tab.goto(f"{url}#/jobs/test-browser/runs")
        await tab.get_by_role("button", name="Delete").click()
        dialog = tab.get_by_role("dialog", name="Delete job test-browser/runs?")
        assert "running pods are killed" in await dialog.inner_text()
        await dialog.get_by_role("button", name="Cancel").click()
        await dialog.wait_for(state="detached")


async def test_a_new_job_is_a_form(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser() as tab:
        await tab.goto(f"{url}#/whatif")
        await tab.get_by_label("Pods that start together").fill("200")
        await tab.get_by_role("button", name="Ask the scheduler").click()
        row = tab.get_by_role("row").filter(has_text="new-job")
        await row.wait_for(timeout=60_000)
        assert "never" in await row.inner_text()


WRONG_INPUTS = [
    ("Count", "-1", "Count: "),
    ("Count", "1.5", "Count: "),
    ("Remove", "no-such-node", 'remove: node "no-such-node" not found'),
    ("Pods that start together", "-2", "Pods that start together: "),
    ("CPUs of each", "lots", "lots"),
    ("Memory of each", "4GB", "4GB"),
    ("GPUs of each", "-1", "GPUs of each: "),
    ("Weight", "0", "Weight: "),
    ("Capability", "cpu", "capability: cpu is not RESOURCE=AMOUNT"),
    ("Capability", "cpu=lots", "choose the queue to change"),
]


async def test_a_wrong_input_of_the_form_is_named_and_nothing_else_is_answered(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser() as tab:
        for label, text, message in WRONG_INPUTS:
            await tab.goto("about:blank")
            await tab.goto(f"{url}#/whatif")
            await tab.locator("main [data-ready]").wait_for()
            if label.endswith("of each"):
                await tab.get_by_label("Pods that start together").fill("1")
            await tab.get_by_label(label, exact=True).fill(text)
            await tab.get_by_role("button", name="Ask the scheduler").click()
            await tab.locator("main .error").first.wait_for()
            assert message in await tab.locator("main .error").first.inner_text(), (label, text)


async def test_the_page_of_a_waiting_job_shows_what_explain_prints(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser() as tab:
        await tab.goto(f"{url}#/jobs/test-browser/waits")
        await tab.get_by_text("more nodes like").first.wait_for(timeout=120_000)
        text = await tab.inner_text("main")
    explained = (await command(gangs, "explain", "job", "waits")).out
    assert 'job "waits" is pending' in text
    assert text.count("more nodes like") == explained.count("more nodes like")


async def test_the_first_changes_are_shown_while_the_scheduler_is_asked_for_all(gangs: Run, kubeconfig: Path) -> None:
    asked = asyncio.Event()

    async def ended(route: Any) -> None:
        document = await (await route.fetch()).json()
        document["report"]["searchEnded"] = "budget ended"
        await route.fulfill(json=document)

    async def held(route: Any) -> None:
        await asked.wait()
        await route.continue_()

    async with page(kubeconfig) as (url, _), browser() as tab:
        await tab.route("**/*remedies=first", ended)
        await tab.route("**/*remedies=all", held)
        await tab.goto(f"{url}#/jobs/test-browser/waits")
        await tab.get_by_text("more nodes like").first.wait_for()
        searching = tab.get_by_text("The search goes on.")
        await searching.wait_for()
        asked.set()
        await searching.wait_for(state="detached")
        assert await tab.get_by_text("more nodes like").count() >= 1


async def test_the_picture_of_a_flow_shows_its_jobs_by_level_and_the_critical_path(
    pipeline: Run, kubeconfig: Path
) -> None:
    async with page(kubeconfig) as (url, session), browser() as tab:
        document = await get(session, f"{url}api/flows/test-browser/pipeline")
        await tab.goto(f"{url}#/flows")
        await tab.get_by_role("link", name="pipeline").click()
        fetch, clean = (tab.get_by_role("group", name=re.compile(f"^{name}: ")) for name in ("fetch", "clean"))
        await fetch.wait_for()
        left, right = [await box.bounding_box() for box in (fetch, clean)]
        assert left
        assert right
        assert left["x"] + left["width"] < right["x"]
        edges = sum(len(job["dependsOn"]) for job in document["jobs"])
        assert await tab.locator(".flow path").count() == edges
        assert await tab.locator(".step.critical").count() >= 2
        assert await tab.get_by_text("Critical path: fetch -> ").count() == 1


async def test_on_phones_the_picture_of_a_flow_fits_and_charts_end_with_now(pipeline: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser(390) as tab:
        await tab.goto(f"{url}#/flows/test-browser/pipeline")
        fetch, clean = (tab.get_by_role("group", name=re.compile(f"^{name}: ")) for name in ("fetch", "clean"))
        await fetch.wait_for()
        upper, lower = [await box.bounding_box() for box in (fetch, clean)]
        assert upper
        assert lower
        assert upper["y"] + upper["height"] < lower["y"]
        picture = tab.get_by_role("region", name="Picture of the flow")
        assert await picture.evaluate("element => element.scrollWidth <= element.clientWidth")
        await tab.goto(f"{url}#/decisions")
        await tab.locator(".bars .ticks").get_by_text("now", exact=True).wait_for()


async def test_a_large_screen_is_used_and_a_phone_has_a_pod_name_in_one_line(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser(2560) as large, browser(390) as phone:
        await large.goto(f"{url}#/")
        await large.locator("main [data-ready]").wait_for()
        cards = [await card.bounding_box() for card in await large.locator("main .card").all()]
        assert max(box["x"] + box["width"] for box in cards) > 2500
        assert len({box["y"] for box in cards}) == 1
        await phone.goto(f"{url}#/jobs/test-browser/runs")
        pod = await phone.get_by_role("button", name="runs-worker-0").bounding_box()
        assert pod
        assert pod["height"] < 32


async def test_a_question_is_answered_on_the_page(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser() as tab:
        await tab.goto(f"{url}#/whatif")
        await tab.get_by_label("Add nodes like").wait_for()
        await tab.get_by_label("Count").fill("9")
        await tab.get_by_role("button", name="Ask the scheduler").click()
        row = tab.get_by_role("row").filter(has_text="test-browser/waits")
        await row.wait_for(timeout=60_000)
        assert "starts now" in await row.inner_text()
        await tab.locator("canvas").focus()
        await tab.keyboard.press("End")
        await tab.get_by_role("tooltip").filter(has_text="would start here: test-browser/waits").wait_for()


async def test_a_weight_and_a_manifest_are_part_of_the_question(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser() as tab:
        await tab.goto(f"{url}#/whatif")
        await tab.get_by_role("combobox", name=re.compile("^Queue")).select_option("default")
        await tab.get_by_label("Weight").fill("3")
        await tab.get_by_text("Manifests").click()
        await tab.get_by_label("Manifests").fill(GANG.format(name="asked", pods=1, cpu=1))
        await tab.get_by_role("button", name="Ask the scheduler").click()
        row = tab.get_by_role("row").filter(has_text="test-browser/asked")
        await row.wait_for(timeout=60_000)
        assert "starts now" in await row.inner_text()


async def test_the_map_is_used_with_keys(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser() as tab:
        await tab.goto(f"{url}#/nodes")
        await tab.locator("canvas").focus()
        for key in ("ArrowRight", "End", "Home", "Enter"):
            await tab.keyboard.press(key)
        await tab.get_by_role("heading", name="node-1", exact=True).wait_for()


async def test_every_control_has_a_name_for_screen_readers(pipeline: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser() as tab:
        for name in PAGES:
            await tab.goto(f"{url}#/{name}")
            await tab.locator("main [data-ready]").wait_for()
            unnamed = await tab.evaluate(UNNAMED)
            assert unnamed == [], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_page_breaks_a_rule_of_accessibility(pipeline: Run, kubeconfig: Path, scheme: str) -> None:
    """Those of axe-core for WCAG 2.2 AA and its best practices, on each page as it is shown."""
    axe = pytest.importorskip("axe_playwright_python.async_playwright").Axe()
    broken: list[tuple[str, str, str]] = []
    async with page(kubeconfig) as (url, _), browser(1280, scheme) as tab:
        for name in PAGES:
            await tab.goto(f"{url}#/{name}")
            await tab.locator("main [data-ready]").wait_for()
            violations = (await axe.run(tab)).response["violations"]
            broken += [(name, rule["id"], node["html"]) for rule in violations for node in rule["nodes"]]
    assert not broken, "\n".join(map(str, broken))


async def test_names_that_look_like_html_are_shown_as_text(gangs: Run, kubeconfig: Path) -> None:
    async with page(kubeconfig) as (url, _), browser() as tab:
        await tab.goto(f"{url}#/jobs/test-browser/runs")
        await tab.get_by_text("Manifest").click()
        await tab.get_by_text('<img src=x onerror="alert(1)">').wait_for()
        assert await tab.locator("main img").count() == 0
        await tab.goto(f"{url}#/jobs/a/%3Cimg%20src%3Dx%3E")
        await tab.get_by_role("alert").filter(has_text="not found").wait_for()
        assert await tab.locator("main img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
async def test_no_page_scrolls_sideways(pipeline: Run, kubeconfig: Path, width: int, scheme: str) -> None:
    async with page(kubeconfig) as (url, _), browser(width, scheme) as tab:
        for name in PAGES:
            await tab.goto(f"{url}#/{name}")
            await tab.locator("main [data-ready]").wait_for()
            assert not await tab.evaluate("document.documentElement.scrollWidth > innerWidth"), name


async def test_the_longest_queue_name_does_not_widen_a_narrow_page(gangs: Run, kubeconfig: Path) -> None:
    name = "-".join(["department"] * 9)
    await command(gangs, "queue", "create", name)
    await command(gangs, "job", "run", "--name", "far", "--image", "none", "--queue", name)
    async with page(kubeconfig) as (url, _), browser(390) as tab:
        await tab.goto(f"{url}#/jobs")
        await tab.locator("option", has_text=name).wait_for(state="attached")
        assert await tab.evaluate("document.documentElement.scrollWidth") == 390
    await command(gangs, "job", "delete", "far")
    await command(gangs, "queue", "delete", name)


async def test_the_page_says_that_its_server_is_gone(kubeconfig: Path) -> None:
    async with browser() as tab:
        async with page(kubeconfig) as (url, _):
            await tab.goto(url)
            await tab.get_by_role("status").filter(has_text="live").wait_for()
            await tab.evaluate("window.onerror = null")
        await tab.get_by_text("disconnected").wait_for()
        assert "Cluster" in await tab.inner_text("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_report_of_a_simulation_fits_a_phone(scheme: str, tmp_path: Path) -> None:
    jobs = ml_mix(12, gpus=16, days=0.1)
    nodes = equal_nodes(2, {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"})
    outcome = Simulator(with_default_queue([*nodes, *queues(ML_QUEUES)]), jobs, default(builtin())).run()
    names = ("a-very-long-name-of-a-configuration", "b")
    comparison = Comparison({name: [outcome] for name in names})
    write_report(tmp_path / "report.html", comparison, "ml", {name: f"# of {name}\n" for name in names})
    async with browser(390, scheme) as tab:
        await tab.goto((tmp_path / "report.html").as_uri())
        assert await tab.evaluate("document.documentElement.scrollWidth") == 390
        assert await tab.get_by_role("heading", name="CPU utilisation").is_visible()
        assert await tab.locator("canvas").count() >= 5
        drawn = "canvas => new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer).some(Boolean)"
        assert await tab.locator("canvas").first.evaluate(drawn)
        plot = tab.locator(".plot").first
        await plot.focus()
        await tab.keyboard.press("End")
        last = await tab.get_by_role("tooltip").inner_text()
        assert last.split() == (await tab.locator(".spoken").inner_text()).split()
        box = await plot.bounding_box()
        assert box
        for press, part in ((tab.mouse.move, 0.4), (None, 0.6)):
            await tab.mouse.move(box["x"] + part * box["width"], box["y"] + 50)
            await (tab.mouse.down() if press else tab.mouse.up())
        await plot.focus()
        await tab.keyboard.press("Home")
        assert await tab.get_by_role("tooltip").inner_text() != last
        assert await tab.locator(".lane i").count() == sum(len(run.placements) for run in (outcome, outcome))
        assert await tab.evaluate("[...document.querySelectorAll('[role=img]')].every((each) => each.ariaLabel)")
