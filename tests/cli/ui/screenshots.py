"""Pictures of the web page for the documentation, of a simulated cluster under load.

``python -m tests.cli.ui.screenshots [FOLDER]`` writes each page in three sizes as WebP, by default to docs/images, and prints how
long it takes a user to get answers. Needs ``playwright`` and Chromium, as test_browser.py does.
"""

import asyncio
import base64
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from tests.cli.run_commands import COMMAND
from tests.cli.ui.chromium import browser
from tests.e2e.world import EXAMPLES

PAGES = {
    "overview": "",
    "queues": "queues",
    "queue": "queues/language",
    "jobs": "jobs",
    "job": "jobs/default/large",
    "running-job": "jobs/default/training",
    "flows": "flows",
    "flow": "flows/default/pipeline",
    "nodes": "nodes",
    "whatif": "whatif",
    "decisions": "decisions",
}
SIZES = ((390, "light"), (1280, "light"), (2560, "dark"))
_TO_WEBP = """async (png) => {
  const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  const blob = await canvas.convertToBlob({ type: "image/webp", quality: 0.8 });
  return Array.from(new Uint8Array(await blob.arrayBuffer()));
}"""
TRAINING = """
import time
weights = bytearray(150 << 20)
for step in range(1, 100_000):
    end = time.process_time() + 0.6
    while time.process_time() < end: pass
    print(f"step {step}: loss {2.5 / step ** 0.3:.4f}", flush=True)
    time.sleep(0.4)
"""
"""What runs as processes of this machine for the picture of a running job, which has usage and a log of it."""
NODES = 12
SAMPLES = 25
"""Samples of the queues in the chart, one each 2 seconds."""
QUEUE = """
---
apiVersion: scheduling.volcanopy.io/v1beta1
kind: Queue
metadata: {{name: {name}}}
spec: {{weight: {weight}, parent: {parent}}}
"""
JOB = """
---
apiVersion: batch.volcanopy.io/v1alpha1
kind: BatchJob
metadata: {{name: {name}}}
spec:
  queue: {queue}
  minAvailable: {pods}
  runningEstimate: {duration}
  tasks:
  - name: worker
    replicas: {pods}
    template:
      metadata: {{annotations: {{sim.volcanopy.io/duration: {duration}}}}}
      spec:
        containers: [{{name: main, image: busybox, resources: {{requests: {{cpu: {cpu}, memory: {cpu}Gi}}}}}}]
"""


def manifests(seed: int = 7) -> tuple[str, str]:
    """Two departments, one with two groups: a job on each of 12 nodes, then jobs of several sizes.

    The last one waits for two whole nodes, of which there is none.
    """
    rng = Random(seed)
    tree = [("research", 2, "root"), ("vision", 1, "research"), ("language", 3, "research"), ("production", 1, "root")]
    first = [QUEUE.format(name=name, weight=weight, parent=parent) for name, weight, parent in tree]
    queues = ["vision", "language", "production"]
    for number in range(NODES):
        queue = queues[number % 3]
        first.append(JOB.format(name=f"{queue}-{number}", queue=queue, pods=1, cpu=5, duration="20m"))
    second = [JOB.format(name="vision-gang", queue="vision", pods=4, cpu=1, duration="20m")]
    for number in range(NODES, NODES + 24):
        queue = rng.choice(queues)
        pods, cpu, duration = rng.choice([1, 2, 4]), rng.choice([1, 2]), rng.choice([*["15s", "30s"] * 4, "20m"])
        second.append(JOB.format(name=f"{queue}-{number}", queue=queue, pods=pods, cpu=cpu, duration=duration))
    second.append(JOB.format(name="large", queue="language", pods=2, cpu=8, duration="10m"))
    return "".join(first), "".join(second)


@contextlib.contextmanager
def local_up(kubeconfig: Path, *options: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Run a cluster; yield the address of its page, and the environment of commands."""
    words = [*COMMAND, "local", "up", *options, "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = next(line for line in process.stdout if line.startswith("Web page: ")).split()[-1]
        yield address, os.environ | {"KUBECONFIG": str(kubeconfig)}
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run a cluster under load; yield the address of its page."""
    with local_up(folder / "kubeconfig", "--simulate", str(NODES)) as (address, environment):
        submit = [*COMMAND, "job", "submit", "-f", "-"]
        wait = [*COMMAND, "job", "wait", "--all", "--for", "phase=Running", "--timeout", "120s"]
        first, second = manifests()
        for words, text in ((submit, first), (wait, ""), (submit, second)):
            subprocess.run(words, input=text, text=True, env=environment, check=True, stdout=subprocess.DEVNULL)
        flow = [*COMMAND, "jobflow", "create", "-f", str(EXAMPLES / "10-flow")]
        subprocess.run(flow, env=environment, check=True, stdout=subprocess.DEVNULL)
        yield address


@contextlib.contextmanager
def training(folder: Path) -> Iterator[str]:
    """Run a gang as processes of this machine; yield the address of the page."""
    with local_up(folder / "processes", *(["--run-as-root"] if os.getuid() == 0 else [])) as (address, environment):
        run = [
            *COMMAND,
            "job",
            "run",
            "--here",
            "--name",
            "training",
            "--replicas",
            "2",
            "--cpu",
            "1",
            "--memory",
            "300Mi",
        ]
        subprocess.run([*run, "--", sys.executable, "-c", TRAINING], env=environment, check=True)
        yield address


async def recorded(address: str) -> None:
    """Wait until charts over time have something to show."""
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{address}api/queues?resource=cpu") as response:
                if len((await response.json())["history"]["times"]) >= SAMPLES:
                    return
            await asyncio.sleep(1)


async def shoot(addresses: Mapping[str, str], folder: Path, width: int, scheme: str) -> None:
    """Save a picture of each page; ``addresses`` has that of a page which is not on the default one."""
    async with browser(width, scheme) as tab, browser() as converter:
        for name, path in PAGES.items():
            await tab.goto(f"{addresses.get(name, addresses[''])}#/{path}")
            await tab.locator("main [data-ready]").wait_for()
            if name == "job":
                await tab.get_by_text("more nodes like").first.wait_for()
            if name == "running-job":
                await tab.get_by_text(re.compile(", cpu 0.* of 1, memory .* of 300Mi")).first.wait_for()
                await tab.get_by_role("button", name="training-main-0").click()
                await tab.get_by_role("region", name="Log of training-main-0").filter(has_text="step 5:").wait_for()
            if name == "whatif":
                await ask(tab)
            await tab.wait_for_function("document.getAnimations().length === 0")
            picture = await converter.evaluate(_TO_WEBP, base64.b64encode(await tab.screenshot()).decode())
            (folder / f"web-{name}-{width}.webp").write_bytes(bytes(picture))


async def ask(tab: Any) -> None:
    """Ask what two more nodes change."""
    await tab.get_by_label("Count").fill("2")
    await tab.get_by_role("button", name="Ask the scheduler").click()
    await tab.get_by_role("region", name="Jobs").scroll_into_view_if_needed()


async def walk(address: str) -> None:
    """Print clicks and seconds from the start page to the answers of three questions."""
    async with browser() as tab:

        async def answered(question: str, *steps: Callable[[], Awaitable[Any]]) -> None:
            await tab.goto("about:blank")
            begin = time.monotonic()
            await tab.goto(address)
            for step in steps:
                await step()
            print(f"{question}: {time.monotonic() - begin:.1f} s")

        def link(name: str) -> Callable[[], Awaitable[Any]]:
            return tab.get_by_role("link", name=name, exact=True).first.click  # type: ignore[no-any-return]

        await answered(
            "why does my job wait (2 clicks)",
            link("Jobs"),
            link("large"),
            tab.get_by_role("region", name="Gates").wait_for,
        )
        await answered(
            "what lets it start (2 clicks)",
            link("Jobs"),
            link("large"),
            tab.get_by_text("more nodes like").first.wait_for,
        )
        await answered(
            "who uses my share (1 click)", link("language"), tab.get_by_role("region", name="Users").wait_for
        )
        await answered(
            "what if I add two nodes (2 clicks, 1 number)",
            link("What if"),
            tab.get_by_label("Count").wait_for,
            lambda: ask(tab),
        )


async def pictures(address: str, job_address: str, folder: Path) -> None:
    """Write all pictures, and walk through the questions."""
    await recorded(address)
    await walk(address)
    addresses = {"": address, "running-job": job_address}
    for width, scheme in SIZES:
        await shoot(addresses, folder, width, scheme)


def main(folder: Path) -> None:
    """Run a cluster, and take its pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as temporary,
        cluster(Path(temporary)) as address,
        training(Path(temporary)) as job,
    ):
        asyncio.run(pictures(address, job, folder))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
