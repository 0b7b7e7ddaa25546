"""Going back to Volcano: its own controllers continue the jobs that volcanopy has started.

`VOLCANO_SOURCE=folder python -m tests.volcano_e2e.going_back` starts jobs with volcanopy on a real control plane, stops volcanopy, applies
Volcano's definitions and runs Volcano's controllers, built unchanged. No pod may be restarted, and the controllers must end the
jobs. Prints what it has seen; exits with 1 if something differs.
"""

import asyncio
import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import structlog
import yaml

from hack.gobuild import BuildError
from tests.volcano_e2e import world
from tests.volcano_e2e.building import Programs, programs
from volcanopy.api.bindings import VOLCANO
from volcanopy.client.manifests import Creator
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.kubeconfig import read_kubeconfig
from volcanopy.kube.client.raw_kinds import bound
from volcanopy_local.cluster import Components, Parts
from volcanopy_local.simulated.pod_stages import DURATION

JOBS, COMMANDS = bound(raw_kinds.JOBS, VOLCANO), bound(raw_kinds.COMMANDS, VOLCANO)
COUNT = 6
SECONDS = 120.0
PERIOD = 0.5


def main() -> int:
    """Go back once."""
    try:
        built = programs()
    except BuildError as error:
        print(f"going back: skipped: {error}")
        return 0
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    program = built.controllers()
    with world.control_plane() as plane, tempfile.TemporaryDirectory() as folder:
        asyncio.run(_go_back(built, program, plane.kubeconfig, Path(folder)))
    return 0


async def _go_back(built: Programs, program: Path, kubeconfig: Path, folder: Path) -> None:
    file = folder / world.CONFIG
    file.write_text((built.chart / "config" / world.CONFIG).read_text())
    names = [f"train-{number}" for number in range(COUNT)]
    connection = read_kubeconfig((kubeconfig,))
    async with Client(connection) as client:
        async with world.running(kubeconfig, file, world.objects(file.read_text())):
            for name in names:
                await client.create(JOBS, "default", _job(name))
            await _until(lambda jobs: all(_phase(jobs.get(name)) == "Running" for name in names), client)
            before = await _pods(client)
        print(f"volcanopy: {COUNT} jobs run with {len(before)} pods")
        definitions = sorted((built.chart / "crd" / "bases").glob("*.yaml"))
        await Creator(client).create(yaml.safe_load(path.read_text()) for path in definitions)
        parts = Parts(scheduler=None, controller=None, admission=None)
        async with Components(connection, parts):
            process = await _start(program, kubeconfig, folder / "controllers.log")
            try:
                await client.create(JOBS, "default", _job("fresh"))
                await _until(lambda jobs: bool(_phase(jobs.get("fresh"))), client)
                after = await _pods(client)
                if not before.items() <= after.items():
                    raise SystemExit(f"pods were restarted: {before.items() - after.items()}")
                print(f"Volcano: its controllers run; all {len(before)} pods run on")
                await _end(client, names)
            finally:
                process.terminate()
                await process.wait()


async def _end(client: Client, names: list[str]) -> None:
    """Abort one job by a Command, complete another by its pods, and delete a third."""
    aborted, completed, deleted = names[:3]
    job = await client.get(JOBS, "default", aborted)
    target = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": aborted, "uid": job["metadata"]["uid"]}
    reference = target | {"controller": True}
    body = {"metadata": {"name": "abort", "ownerReferences": [reference]}, "action": "AbortJob", "target": target}
    await client.create(COMMANDS, "default", {"apiVersion": COMMANDS.api_version, "kind": "Command"} | body)
    await _until(lambda jobs: _phase(jobs.get(aborted)) == "Aborted", client)
    for pod in (await client.list(raw_kinds.PODS, "default")).items:
        if pod["metadata"]["name"].startswith(f"{completed}-"):
            patch = {"status": {"phase": "Succeeded"}}
            await client.patch_status(raw_kinds.PODS, "default", pod["metadata"]["name"], patch)
    await _until(lambda jobs: _phase(jobs.get(completed)) == "Completed", client)
    await client.delete(JOBS, "default", deleted)
    await _until(lambda jobs: deleted not in jobs, client)
    print("Volcano: one job aborted, one completed, one deleted")


async def _start(program: Path, kubeconfig: Path, log: Path) -> asyncio.subprocess.Process:
    argv = [str(program), f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--kube-api-qps=200"]
    with log.open("wb") as output:
        return await asyncio.create_subprocess_exec(*argv, stdout=output, stderr=output)


async def _until(holds: Callable[[dict[str, Json]], bool], client: Client) -> None:
    """Wait for a state of the jobs by name."""
    jobs: dict[str, Json] = {}
    try:
        async with asyncio.timeout(SECONDS):
            while not holds(jobs):
                await asyncio.sleep(PERIOD)
                jobs = {job["metadata"]["name"]: job for job in (await client.list(JOBS, "default")).items}
    except TimeoutError:
        raise SystemExit(f"not after {SECONDS:g} s: { ({name: _phase(job) for name, job in jobs.items()}) }") from None


async def _pods(client: Client) -> dict[str, str]:
    """The uids of the running pods of jobs by name."""
    pods = (await client.list(raw_kinds.PODS, "default")).items
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Running"}


def _job(name: str) -> Json:
    containers = [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "500m"}}}]
    template = {"metadata": {"annotations": {DURATION: "forever"}}, "spec": {"containers": containers}}
    task = {"name": "worker", "replicas": 2, "template": template}
    spec = {"minAvailable": 2, "schedulerName": "volcano", "queue": "default", "tasks": [task]}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": {"name": name}, "spec": spec}


def _phase(job: Json | None) -> str:
    return str((((job or {}).get("status") or {}).get("state") or {}).get("phase") or "")


if __name__ == "__main__":
    sys.exit(main())
