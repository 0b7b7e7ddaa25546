"""Screenshots of the web page for the documentation, of a simulated cluster under load.

``python -m tests.cli.ui.screenshots [FOLDER] [WIDTH ...]`` writes them, by default to docs/images at 1280 pixels. Needs
``playwright`` and Chromium, as test_browser.py does.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import aiohttp

from tests.cli.run_commands import COMMAND
from tests.cli.ui.chromium import browser

PAGES = {"queues": "queues", "job": "jobs/default/large", "nodes": "nodes", "queue": "queues/language"}
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
  tasks:
  - name: worker
    replicas: {pods}
    template:
      metadata: {{annotations: {{sim.volcanopy.io/duration: {duration}}}}}
      spec:
        containers: [{{name: main, image: busybox, resources: {{requests: {{cpu: {cpu}}}}}}}]
"""


def manifests(seed: int = 7) -> str:
    """Two departments, one with two groups, and jobs of several sizes, of which the last is larger than the cluster."""
    rng = Random(seed)
    tree = [("research", 2, "root"), ("vision", 1, "research"), ("language", 3, "research"), ("production", 1, "root")]
    text = [QUEUE.format(name=name, weight=weight, parent=parent) for name, weight, parent in tree]
    for number in range(24):
        queue = rng.choice(["vision", "language", "production"])
        pods, cpu, duration = rng.choice([1, 2, 4]), rng.choice([1, 2, 4]), rng.choice(["15s", "30s", "10m"])
        text.append(JOB.format(name=f"{queue}-{number}", queue=queue, pods=pods, cpu=cpu, duration=duration))
    return "".join([*text, JOB.format(name="large", queue="language", pods=16, cpu=8, duration="10m")])


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run a cluster under load; yield the address of its page."""
    kubeconfig = folder / "kubeconfig"
    words = [*COMMAND, "local", "up", "--simulate", "12", "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = next(line for line in process.stdout if line.startswith("Web page: ")).split()[-1]
        environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
        submit = [*COMMAND, "job", "submit", "-f", "-"]
        subprocess.run(submit, input=manifests(), text=True, env=environment, check=True, stdout=subprocess.DEVNULL)
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


async def shoot(address: str, folder: Path, width: int, scheme: str) -> None:
    """Save a screenshot of each page, once its chart has something to show."""
    async with aiohttp.ClientSession() as session, browser(width, scheme) as tab:
        while True:
            async with session.get(f"{address}api/queues?resource=cpu") as response:
                if len((await response.json())["history"]["times"]) >= SAMPLES:
                    break
            await asyncio.sleep(1)
        for name, path in PAGES.items():
            await tab.goto(f"{address}#/{path}")
            await tab.locator("main [data-ready]").wait_for()
            if name == "job":
                await tab.get_by_text("more nodes like").first.wait_for()
            await tab.wait_for_function("document.getAnimations().length === 0")
            suffix = "" if (width, scheme) == (1280, "light") else f"-{width}-{scheme}"
            await tab.screenshot(path=folder / f"web-{name}{suffix}.png")


def main(folder: Path, widths: list[int]) -> None:
    """Write the screenshots; with several widths also in dark colours."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, cluster(Path(temporary)) as address:
        for width in widths:
            for scheme in ("light", "dark") if len(widths) > 1 else ("light",):
                asyncio.run(shoot(address, folder, width, scheme))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"), [int(word) for word in sys.argv[2:]] or [1280])
