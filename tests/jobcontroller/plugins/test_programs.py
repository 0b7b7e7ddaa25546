"""What plugins leave for other programs is tried with these programs: ssh's own reading of its configuration, a shell."""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.jobcontroller.plugins.cases import named, objects, pods
from tests.jobcontroller.world import Json, job, task
from volcanopy.jobcontroller.plugins.frameworks import WAITING, wait_script

needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed: run `make packages`")


def reached(manifest: Json, host: str, folder: Path) -> tuple[str, int]:
    """The address and port that ssh would connect to."""
    config = folder / "config"
    config.write_text(objects(manifest)["Secret/job-ssh"]["stringData"]["config"])
    run = subprocess.run(["ssh", "-G", "-F", str(config), host], capture_output=True, text=True, check=True)
    said = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    assert (said["stricthostkeychecking"], said["userknownhostsfile"]) == ("false", "/dev/null")
    return said["hostname"], int(said["port"])


@needs_ssh
@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("job-a-0", "job-a-0.job"),
        ("job-a-17", "job-a-17.job"),
        ("job-a-0.job", "job-a-0.job"),
        ("job-a-0.job.ns.svc.cluster.local", "job-a-0.job.ns.svc.cluster.local"),
        ("job-a-b-3", "job-a-b-3.net"),
        ("job-a-b-3.net", "job-a-b-3.net"),
        ("fixed", "fixed.job"),
        ("fixed.job", "fixed.job"),
    ],
)
def test_ssh_reaches_every_pod_by_its_name_and_by_its_address(host: str, address: str, tmp_path: Path) -> None:
    """Addresses with their domain are what MPI is given; index 17 is a pod that comes later."""
    tasks = named("a", 2), named("a-b", 4, subdomain="net"), named("c", 1, hostname="fixed")
    manifest = job(*tasks, plugins={"ssh": ["--ssh-port=2022"]})
    assert reached(manifest, host, tmp_path) == (address, 2022)


@needs_ssh
def test_the_ssh_configuration_does_not_affect_other_hosts(tmp_path: Path) -> None:
    manifest = job(named("a", 2), plugins={"ssh": ["--ssh-port=2022"]})
    assert reached(manifest, "example.com", tmp_path) == ("example.com", 22)


def wait(port: int, seconds: int, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PATH": path}
    command = ["bash", "-c", wait_script(seconds)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_a_worker_starts_when_the_master_is_reachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        port = master.getsockname()[1]
        run = wait(port, 5)
    assert (run.returncode, run.stdout, run.stderr) == (0, f"127.0.0.1:{port} answers\n", "")


def test_a_worker_fails_when_the_master_is_never_reachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    run = wait(port, 1)
    assert (run.returncode, run.stderr) == (1, "")
    *before, last = run.stdout.splitlines()
    assert last.startswith(f"127.0.0.1:{port} has not answered for 1 seconds")
    # On a busy machine the first attempt may take the whole second.
    assert all(line.startswith(f"waiting for 127.0.0.1:{port}") for line in before)


@pytest.mark.parametrize(
    "error", ["nc: bad address 'job-master-0.job'", "nc: invalid option -- 'z'\nBusyBox v1\n\nUsage: nc"]
)
def test_a_worker_that_waits_shows_the_first_line_of_the_error_of_nc(error: str, tmp_path: Path) -> None:
    program = tmp_path / "nc"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{error}\nEND\nexit 1\n")
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    run = wait(port, 1, f"{tmp_path}:/usr/bin:/bin")
    first, *_ = error.splitlines()
    assert run.stdout.splitlines()[-1] == f"127.0.0.1:{port} has not answered for 1 seconds: {first}"


def test_the_init_container_changes_neither_requests_nor_qos_class() -> None:
    tasks = task("master"), task("worker")
    amounts = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}
    tasks[1]["template"]["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    made = pods(job(*tasks, plugins={"pytorch": ["--wait-master-enabled"]}))
    assert "initContainers" not in made["job-master-0"]["spec"]
    (waiting,) = made["job-worker-0"]["spec"]["initContainers"]
    assert waiting["resources"] == {kind: {"cpu": "2", "memory": "1Gi"} for kind in ("limits", "requests")}


def test_an_existing_wait_container_is_not_added_again() -> None:
    worker = named("worker", 1, initContainers=[{"name": WAITING, "image": "mine"}])
    made = pods(job(task("master"), worker, plugins={"pytorch": ["--wait-master-enabled"]}))
    assert [init_container["image"] for init_container in made["job-worker-0"]["spec"]["initContainers"]] == ["mine"]
