"""What a hostile program can do on each step of isolation; as root, programs run as another user."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.distributions import ROOT
from tests.local.process.conftest import RUNTIMES, ProcessCluster
from tests.local.process.invocation import USER, as_root, environment, interpreter
from tests.local.process.isolation_table import ATTEMPTS, PAGE, page
from volcanopy_local.cluster import LocalCluster, Parts
from volcanopy_local.process import machine
from volcanopy_local.process.file_view import FileView
from volcanopy_local.process.kubelet import ProcessSettings
from volcanopy_local.process.runtime import MachineRuntime
from volcanopy_local.process.steps import choose
from volcanopy_local.process.users import UNPRIVILEGED, User, Users, current_user


@pytest.fixture(params=RUNTIMES)
async def hostile(request: pytest.FixtureRequest, open_folder: Path) -> AsyncIterator[tuple[str, ProcessCluster]]:
    current = current_user()
    user = User(UNPRIVILEGED, UNPRIVILEGED) if current.uid == 0 else current
    folder = open_folder / "run"
    folder.mkdir()
    choice = choose((request.param,), FileView(hidden=(folder, open_folder / "claims")), user)
    if choice.isolation is None:
        pytest.skip(choice.reasons.replace("not installed", "not installed (run `make packages`)"))
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
        "command": [
            "sh",
            "-c",
            "trap 'echo signal; exit' USR1; while true; do sleep 0.1; done; : other-pod-of-this-test",
        ],
        "env": [{"name": "SECRET", "value": "hidden"}],
        "volumeMounts": [{"name": "secret", "mountPath": "/secret"}],
    }
    volume = {"name": "secret", "secret": {"secretName": "secret"}}
    other = {"containers": [container], "volumes": [volume]}
    await cluster.create("other", other)
    await cluster.until("other", lambda pod: pod["status"].get("phase") == "Running")
    lines = (f"if ({each.script}) > /dev/null 2>&1; then echo {number}; fi\n" for number, each in enumerate(ATTEMPTS))
    outside = cluster.folder / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    places = {"FILES": cluster.folder / "run", "OUTSIDE": outside}
    environment = [{"name": name, "value": str(path)} for name, path in places.items()]
    await cluster.run("hostile", "sh", "-c", "".join(lines), env=environment)
    successes = {ATTEMPTS[int(number)].name for number in (await cluster.log("hostile")).split()}
    assert successes == {each.name for each in ATTEMPTS if step in each.steps}
    assert not {"written"} & {name for folder in ("/", "/etc", "/usr") for name in os.listdir(folder)}
    if step == "plain":
        await cluster.ended("other")
    assert await cluster.log("other") == ("signal\n" if step == "plain" else "")


def test_the_table_of_the_docs_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `make golden`"


@as_root
def test_an_ordinary_user_is_kept_apart_on_every_step_too(open_folder: Path) -> None:
    """The tests of this file in a process of an ordinary user; steps that do not work here are skipped."""
    python = interpreter(USER)
    if python is None:
        pytest.skip("this Python or these files cannot be read by an ordinary user")
    home = open_folder / "home"
    home.mkdir()
    os.chown(home, USER, USER)
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={home}/tests", __file__]
    done = subprocess.run(
        [python, "-m", "pytest", *options], user=USER, group=USER, extra_groups=[], cwd=ROOT, text=True, capture_output=True,
        env=environment(home), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "failed" not in done.stdout


async def test_a_program_that_left_its_session_ends_with_its_container(hostile: tuple[str, ProcessCluster]) -> None:
    _, cluster = hostile
    script = "setsid sh -c 'setsid sleep 98765 & setsid sleep 98765' > /dev/null 2>&1 & sleep 0.2; echo done"
    assert (await cluster.run("daemons", "sh", "-c", script))["phase"] == "Succeeded"
    assert "98765" not in _command_lines()


def _command_lines() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
