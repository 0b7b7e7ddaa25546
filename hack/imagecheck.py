"""Enters an image's root as a cluster would, and sees whether everything that the chart starts from it comes up."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hack import gobuild
from hack.dockerfile import Stage
from hack.image import enter, product_root
from volcanopy.client.manifests import Creator
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy_local.cluster import LocalCluster, Parts

PODS: Kind[Json] = Kind("", "v1", "Pod", "pods", True, dict)
SUBCOMMANDS = ("scheduler", "controller", "admission")
WITHIN = 60.0
JOB: Json = {
    "apiVersion": "batch.volcanopy.io/v1alpha1",
    "kind": "BatchJob",
    "metadata": {"name": "hello", "namespace": "default"},
    "spec": {
        "tasks": [
            {
                "name": "hello",
                "replicas": 2,
                "template": {
                    "metadata": {"annotations": {"sim.volcanopy.io/duration": "1s"}},
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
                    },
                },
            }
        ]
    },
}
HARMLESS = """
import os, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
assert os.getuid() == os.geteuid() == 65532 == os.getgid(), os.getuid()
assert not os.getgroups(), os.getgroups()
assert {int(status[f"Cap{kind}"], 16) for kind in ("Prm", "Eff", "Inh", "Bnd")} == {0}
assert status["NoNewPrivs"].strip() == "1"
for place in ("/", "/opt/volcanopy", "/etc", "/home"):
    try:
        open(f"{place}/written", "w")
    except OSError:
        continue
    sys.exit(f"{place} can be written")
open("/tmp/written", "w").close()
"""
_log = gobuild.logger("image")


def check(stage: Stage, root: Path) -> int:
    """Run all checks and print failures; 0 if there are none."""
    python = ("/opt/volcanopy/bin/python", "-c", f'exec(bytes.fromhex("{HARMLESS.encode().hex()}"))')
    plain = Stage(stage.base, stage.name, stage.steps, python, ())
    failed = _wrong("the program cannot do what it must not", enter(plain, root, ()))
    failed += _wrong(
        "no source and no compiler is left", ["sh", "-c", f"! ls {root}/src {root}/usr/bin/gcc 2>/dev/null"]
    )
    for arguments in ((), ("version",), *((name, "--help") for name in SUBCOMMANDS)):
        failed += _wrong(f"volcanopy {' '.join(arguments)}", enter(stage, root, arguments or stage.command))
    failed += asyncio.run(_jobs_run(stage, root))
    return int(bool(failed))


def _wrong(what: str, command: Sequence[str]) -> int:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN)
    _log(f"{'ok' if done.returncode == 0 else 'FAILED'}: {what}")
    if done.returncode != 0:
        _log((done.stdout + done.stderr)[-2000:])
    return done.returncode


async def _jobs_run(stage: Stage, root: Path) -> int:
    """A job is run by a scheduler and a controller of the image, on an embedded cluster outside of it."""
    parts = Parts(scheduler=None, controller=None, admission=None)
    with tempfile.TemporaryDirectory() as folder:
        async with LocalCluster(1, parts=parts) as cluster:
            config = Path(folder) / "kubeconfig"
            config.write_text(cluster.kubeconfig())
            os.chmod(folder, 0o755)
            config.chmod(0o644)
            running = []
            for name in ("scheduler", "controller"):
                arguments = [
                    name,
                    "--kubeconfig=/mnt/kubeconfig",
                    "--no-leader-elect",
                    "--bind-address=127.0.0.1",
                    "--health-port=0",
                ]
                command = enter(stage, root, arguments, {"/mnt": folder})
                running.append(
                    await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                )
            try:
                await Creator(cluster.client).create([JOB])
                async with asyncio.timeout(WITHIN):
                    await _ended(cluster.client)
                _log("ok: a job is run by the scheduler and the controller of the image")
            except TimeoutError:
                _log("FAILED: a job was not run by the scheduler and the controller of the image")
                for process in running:
                    process.kill()
                    output, _ = await process.communicate()
                    _log(output.decode()[-2000:])
                return 1
            finally:
                for process in running:
                    if process.returncode is None:
                        process.kill()
                    await process.wait()
    return 0


async def _ended(client: Client) -> None:
    """Wait until two pods have succeeded."""
    changed = asyncio.Event()
    reflector = Reflector(client, PODS, "default")
    following = asyncio.create_task(reflector.run(lambda _: changed.set()))
    while sum(pod.get("status", {}).get("phase") == "Succeeded" for pod in reflector.objects.values()) < 2:
        await changed.wait()
        changed.clear()
    following.cancel()


def main() -> int:
    """Build the image, print its size and check it."""
    if os.geteuid() != 0:
        _log("chroot needs root: run it as root, or use `docker build .`")
        return 1
    with product_root() as (stage, root):
        return check(stage, root)


if __name__ == "__main__":
    sys.exit(main())
