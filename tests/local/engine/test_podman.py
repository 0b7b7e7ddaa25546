"""Pods run in containers of podman, with their images, and nothing of them stays."""

import io
import os
import select
import shutil
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_apiserver.streams.command_streams import CommandStreams, Pipe
from tests.local.process.conftest import ProcessCluster
from tests.local.process.test_guardian import guardian_of
from volcanopy.local.cluster import LocalCluster, Parts
from volcanopy.local.engine.container_body import CLUSTER_LABEL
from volcanopy.local.engine.runtime import Engine, EngineRuntime
from volcanopy.local.engine.start import NoEngineError, engine
from volcanopy.local.process import machine
from volcanopy.local.process.guardian import Guardian
from volcanopy.local.process.isolation import PlainProcesses
from volcanopy.local.process.kubelet import ProcessSettings
from volcanopy.local.process.runtime import MachineRuntime
from volcanopy.local.process.users import current_user

BUSYBOX = Path("/bin/busybox")
IMAGE = f"localhost/volcanopy-test-{os.getpid()}:1"
PARENT = """
import asyncio, sys
from pathlib import Path
from volcanopy.local.engine.container_body import CLUSTER_LABEL
from volcanopy.local.engine.start import engine
from volcanopy.local.process.guardian import Guardian

async def main():
    async with engine(Guardian(Path(sys.argv[2]))) as found:
        body = {"Image": sys.argv[1], "Cmd": ["/bin/sh", "-c", "sleep 1000"], "Labels": {CLUSTER_LABEL: found.cluster},
                "HostConfig": {"NetworkMode": "host"}}
        created = await found.api.call("POST", "/containers/create", body)
        await found.api.call("POST", f"/containers/{created['Id']}/start")
        facts = await found.api.call("GET", f"/containers/{created['Id']}/json")
        print(found.cluster, facts["State"]["Pid"], found.api.socket, flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


def podman(*words: str, data: bytes = b"") -> str:
    return subprocess.run(["podman", *words], input=data, capture_output=True, check=True).stdout.decode()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with a shell and a file that no other place has; podman asks for limits that a process in a container may set."""
    if shutil.which("podman") is None or not BUSYBOX.exists():
        pytest.skip("podman or busybox is not installed: run `make packages`")
    text = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
    if Path("/sys/fs/cgroup/unified").exists() and shutil.which("runc"):
        text += '[engine]\nruntime = "runc"\n'
    configuration = tmp_path_factory.mktemp("podman") / "containers.conf"
    configuration.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(configuration))
        with io.BytesIO() as content:
            with tarfile.open(fileobj=content, mode="w") as archive:
                archive.add(BUSYBOX.resolve(), "bin/busybox")
                for name in ("sh", "cat", "echo", "sleep", "tail", "true"):
                    link = tarfile.TarInfo(f"bin/{name}")
                    link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                    archive.addfile(link)
                marker = tarfile.TarInfo("marker")
                marker.size = 5
                archive.addfile(marker, io.BytesIO(b"image"))
            podman("import", "--change", 'CMD ["/bin/cat", "/marker"]', "-", IMAGE, data=content.getvalue())
        yield IMAGE
        podman("rmi", "--force", IMAGE)


class PodmanCluster(ProcessCluster):
    """A cluster with one process node, whose containers are those of podman."""

    engine: Engine
    image: str

    async def run_image(self, name: str, *command: str, **container: Any) -> dict[str, Any]:
        """Run a pod with the image to its end; how its container ended."""
        status = await self.run(name, *command, **{"image": self.image, **container})
        return dict(status["containerStatuses"][0]["state"]["terminated"])

    async def execute(self, name: str, *command: str, stdin: bytes | None = None) -> tuple[int, bytes, bytes]:
        """Run a command in a running container; its exit code, output and errors."""
        output, errors = bytearray(), bytearray()

        async def to_output(data: bytes) -> None:
            output.extend(data)

        async def to_errors(data: bytes) -> None:
            errors.extend(data)

        pipe = None
        if stdin is not None:
            pipe = Pipe()
            await pipe.write(stdin)
            pipe.close()
        pod = await self.until(name, lambda pod: True)
        kubelet = self.cluster.process_kubelet
        assert kubelet is not None
        code = await kubelet.execute(pod, "main", list(command), CommandStreams(pipe, to_output, to_errors))
        return code, bytes(output), bytes(errors)


@pytest.fixture
async def podman_cluster(image: str, tmp_path: Path) -> AsyncIterator[PodmanCluster]:
    guardian = Guardian(tmp_path / "run")
    try:
        async with engine(guardian) as found:
            runtime = EngineRuntime(
                found, MachineRuntime(PlainProcesses(current_user()), guardian), tmp_path / "none.json"
            )
            settings = ProcessSettings(tmp_path / "run", tmp_path / "claims", runtime, back_off=0.05)
            parts = Parts(scheduler=None, controller=None, admission=None, process=settings)
            async with LocalCluster(0, objects=machine.manifests(1, 4, 8 << 30), parts=parts) as cluster:
                result = PodmanCluster(cluster, tmp_path)
                result.engine, result.image = found, image
                yield result
                left = podman("ps", "--all", "--quiet", "--filter", f"label={CLUSTER_LABEL}={found.cluster}")
            assert left.splitlines() == [], "containers that have ended are deleted"
    except NoEngineError as reason:
        pytest.skip(str(reason))
    finally:
        guardian.close()


async def test_programs_of_the_image_run_and_end_as_a_kubelet_shows_it(podman_cluster: PodmanCluster) -> None:
    cluster = podman_cluster
    assert (await cluster.run_image("own"))["exitCode"] == 0
    assert await cluster.log("own") == "image\n"
    await cluster.add("ConfigMap", {"metadata": {"name": "c"}, "data": {"a": "from-map"}})
    await cluster.create(
        "shell",
        {
            "containers": [
                {
                    "name": "main",
                    "image": cluster.image,
                    "command": ["sh", "-c", "cat /conf/a; echo $WORD >&2; exit 3"],
                    "env": [{"name": "WORD", "value": "-error"}],
                    "volumeMounts": [{"name": "conf", "mountPath": "/conf"}],
                }
            ],
            "volumes": [{"name": "conf", "configMap": {"name": "c"}}],
        },
    )
    state = (await cluster.ended("shell"))["containerStatuses"][0]
    assert (state["state"]["terminated"]["exitCode"], state["image"]) == (3, cluster.image)
    assert state["containerID"].startswith("podman://")
    assert await cluster.log("shell") == "from-map-error\n"
    missing = await cluster.run_image("missing", "/bin/no-such-program")
    assert (missing["reason"], missing["exitCode"]) == ("StartError", 127)
    if cluster.engine.abilities.memory:
        limits = {"limits": {"memory": "20Mi"}}
        assert (await cluster.run_image("large", "tail", "/dev/zero", resources=limits))["reason"] == "OOMKilled"
    assert (await cluster.run_image("machine", "sh", "-c", "test ! -e /marker", image="none"))["exitCode"] == 0


async def test_an_image_that_cannot_be_pulled_waits_with_the_reason(podman_cluster: PodmanCluster) -> None:
    container = {"name": "main", "image": "localhost:9/none:1", "command": ["true"]}
    await podman_cluster.create("p", {"containers": [container]})

    def state(pod: dict[str, Any]) -> dict[str, Any]:
        return dict((pod["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("waiting", {}))

    reasons = {"ErrImagePull", "ImagePullBackOff"}
    pod = await podman_cluster.until("p", lambda pod: state(pod).get("reason") in reasons)
    assert "localhost:9/none:1" in state(pod)["message"]
    await podman_cluster.deleted("p", grace=1)


async def test_commands_run_in_the_container_which_ends_on_sigterm(podman_cluster: PodmanCluster) -> None:
    program = "trap 'exit 0' TERM; while true; do sleep 0.1; done"
    container = {"name": "main", "image": podman_cluster.image, "command": ["sh", "-c", program]}
    await podman_cluster.create("p", {"containers": [container]})
    await podman_cluster.until(
        "p", lambda pod: "running" in (pod["status"].get("containerStatuses") or [{"state": {}}])[0]["state"]
    )
    assert await podman_cluster.execute("p", "sh", "-c", "cat /marker; echo e >&2; exit 5") == (5, b"image", b"e\n")
    assert await podman_cluster.execute("p", "cat", stdin=b"typed") == (0, b"typed", b"")
    await podman_cluster.deleted("p", grace=30)


def test_the_containers_of_a_killed_cluster_are_deleted(image: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", PARENT, image, str(tmp_path / "files")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        line = parent.stdout.readline()
        if not line and "NoEngineError" in (errors := parent.stderr.read()):
            pytest.skip(errors.strip().splitlines()[-1])
        cluster, pid, socket = line.split()
        program, guardian = os.pidfd_open(int(pid)), os.pidfd_open(guardian_of(parent.pid))
        parent.kill()
        for descriptor in (program, guardian):
            assert select.select([descriptor], [], [], 60)[0]
            os.close(descriptor)
    assert podman("ps", "--all", "--quiet", "--filter", f"label={CLUSTER_LABEL}={cluster}") == ""
    assert not Path(socket).exists()
