"""What a hostile program can do on each step of isolation; as root, programs run as another user."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.local.process.conftest import RUNTIMES, ProcessCluster
from volcanopy.local.cluster import LocalCluster, Parts
from volcanopy.local.process import machine
from volcanopy.local.process.file_view import FileView
from volcanopy.local.process.kubelet import ProcessSettings
from volcanopy.local.process.runtime import MachineRuntime
from volcanopy.local.process.steps import choose
from volcanopy.local.process.users import UNPRIVILEGED, User, Users, current_user

ATTEMPTS = {
    "remount the root": "mount -o remount,rw / && touch /written",
    "remount the root in name spaces of its own": "unshare -Urm sh -c 'mount -o remount,bind,rw / && touch /written'",
    "write to the system": "touch /etc/written || touch /usr/written",
    "make a device": "mknod /tmp/device b 8 0",
    "read the passwords": "head -c 1 /etc/shadow",
    "change the kernel": "echo x > /proc/sys/kernel/domainname",
}
OTHERS = {
    "read the files of another pod": "cat $FILES/pods/*/volumes/secret/key",
    "read the environment of another pod": "cat /proc/[0-9]*/environ | grep -aq SECRET=hidden",
    "find the programs of another pod": "pgrep -f [o]ther-pod-of-this-test",
}
NOT_PREVENTED = {"plain": {*OTHERS}}


@pytest.fixture(params=RUNTIMES)
async def hostile(request: pytest.FixtureRequest, open_folder: Path) -> AsyncIterator[tuple[str, ProcessCluster]]:
    current = current_user()
    user = User(UNPRIVILEGED, UNPRIVILEGED) if current.uid == 0 else current
    folder = open_folder / "run"
    folder.mkdir()
    choice = choose((request.param,), FileView(hidden=(folder, open_folder / "claims")), user)
    if choice.isolation is None:
        pytest.skip(choice.reasons)
    users = Users(user, current, maps=choice.isolation.has_mounts and current.uid != 0)
    settings = ProcessSettings(folder, open_folder / "claims", MachineRuntime(choice.isolation, users=users))
    parts = Parts(scheduler=None, controller=None, admission=None, process=settings)
    async with LocalCluster(0, objects=machine.manifests(1, 4, 8 << 30), parts=parts) as cluster:
        yield request.param, ProcessCluster(cluster, open_folder)


async def test_a_program_changes_nothing_outside_and_reaches_other_pods_only_on_the_last_step(
    hostile: tuple[str, ProcessCluster],
) -> None:
    step, cluster = hostile
    await cluster.add("Secret", {"metadata": {"name": "secret"}, "stringData": {"key": "hidden"}})
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", "touch /tmp/begun; sleep 1000; : other-pod-of-this-test"],
        "env": [{"name": "SECRET", "value": "hidden"}],
        "volumeMounts": [{"name": "secret", "mountPath": "/secret"}],
    }
    volume = {"name": "secret", "secret": {"secretName": "secret"}}
    other = {"containers": [container], "volumes": [volume]}
    await cluster.create("other", other)
    await cluster.until("other", lambda pod: pod["status"].get("phase") == "Running")
    script = "".join(
        f"if ({text}) > /dev/null 2>&1; then echo '{name}'; fi\n" for name, text in (ATTEMPTS | OTHERS).items()
    )
    environment = [{"name": "FILES", "value": str(cluster.folder / "run")}]
    await cluster.run("hostile", "sh", "-c", script, env=environment)
    assert set((await cluster.log("hostile")).splitlines()) == NOT_PREVENTED.get(step, set())
    assert not {"written"} & {name for folder in ("/", "/etc", "/usr") for name in os.listdir(folder)}


async def test_a_program_that_left_its_session_ends_with_its_container(hostile: tuple[str, ProcessCluster]) -> None:
    _, cluster = hostile
    script = "setsid sh -c 'setsid sleep 98765 & setsid sleep 98765' > /dev/null 2>&1 & sleep 0.2; echo done"
    assert (await cluster.run("daemons", "sh", "-c", script))["phase"] == "Succeeded"
    assert "98765" not in _command_lines()


def _command_lines() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
