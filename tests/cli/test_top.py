"""``volcanopy top`` shows the cluster once in a pipe, and live in a terminal."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.run_commands import COMMAND, Run, read_until, terminal, until
from tests.cli.ui.api_server import USERS, connection, install, serving
from tests.cli.ui.conftest import GANG
from volcanopy.cli import top
from volcanopy.cli.ui.cluster_view import ClusterView
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.raw_kinds import JOBS

pytestmark = pytest.mark.usefixtures("own_logging")


@pytest.fixture(scope="module")
def gangs(volcanopy: Run, kubeconfig: Path) -> Iterator[Run]:
    """A command on a cluster with a running and a waiting gang."""
    volcanopy("job", "submit", "-f", "-", stdin=GANG.format(name="runs", pods=2, cpu=1))
    volcanopy("job", "submit", "-f", "-", stdin=GANG.format(name="waits", pods=9, cpu=8))
    assert volcanopy("job", "wait", "runs", "--for", "phase=Running", "--timeout", "60s").status == 0
    until(kubeconfig, JOBS, lambda jobs: any("exceeds the capacity" in str(job.get("status")) for job in jobs))
    yield volcanopy
    volcanopy("job", "delete", "--all")


def test_a_pipe_gets_the_state_once_with_the_reason_of_a_waiting_job(gangs: Run) -> None:
    ended = gangs("top", "-n", "test-top")
    assert (ended.status, ended.err) == (0, "")
    assert not any(line.endswith(" ") for line in ended.lines)
    lines = [line.split() for line in ended.lines]
    assert re.fullmatch(r"3 nodes, \d+ pods?, jobs: 1 Pending, 1 Running", ended.lines[0].strip())
    jobs = [words for words in lines if words and words[0].startswith("test-top/")]
    assert [words[:2] for words in jobs] == [["test-top/waits", "Pending"], ["test-top/runs", "Running"]]
    assert "request exceeds the capacity of the cluster" in ended.out
    assert next(words[0] for words in lines if words and words[0].startswith("node-")) in {"node-1", "node-2", "node-3"}


def test_a_resource_that_no_queue_has_is_an_error(gangs: Run) -> None:
    assert (
        gangs("top", "--resource", "cpus").sentence()
        == "--resource cpus: the cluster does not have it: use cpu or memory"
    )


def test_a_terminal_is_redrawn_when_the_cluster_changes(gangs: Run, kubeconfig: Path) -> None:
    with terminal([*COMMAND, "top", "-n", "test-top"], {"KUBECONFIG": str(kubeconfig)}, 160) as (process, end):
        read_until(end, process, "test-top/waits")
        gangs("job", "submit", "-f", "-", stdin=GANG.format(name="later", pods=1, cpu=1))
        read_until(end, process, "test-top/later")
        gangs("job", "delete", "later")


def test_a_narrow_terminal_has_phase_and_reason_of_jobs_and_all_columns_of_queues(gangs: Run, kubeconfig: Path) -> None:
    with terminal([*COMMAND, "top", "-n", "test-top"], {"KUBECONFIG": str(kubeconfig)}, 80) as (process, end):
        shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", read_until(end, process, "NODE"))
    assert re.search(r"NAME +PHASE +QUEUE +AGE +REASON", shown)
    assert re.search(r"QUEUE +\S+ +ALLOCATED +FAIR SHARE +CAPABILITY +WAITING +STATE", shown)
    assert re.search(r"test-top/waits .*Pending .*request exceeds", shown)


async def test_what_a_user_may_not_list_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(rbac=True, users=USERS) as server:
        await install(server)
        async with Client(connection(server, "token-of-eve")) as client:
            await top.show(client, None, "", once=True)
    out, err = capsys.readouterr()
    assert (out.splitlines()[-1], err) == ("you may not list queues, podgroups, batchjobs, nodes, pods", "")


async def test_ages_grow_while_the_cluster_does_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture is drawn although nothing has happened since the one before."""
    pictures: list[int] = []
    drawn = asyncio.Event()

    def picture(view: ClusterView, *_: object) -> str:
        pictures.append(view.revision)
        if pictures[-2:-1] == pictures[-1:]:
            drawn.set()
        return ""

    monkeypatch.setattr(top, "picture", picture)
    monkeypatch.setattr(top, "_AGES", 0.01)
    monkeypatch.setattr(top, "_SECONDS", 0.01)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    async with serving() as server:
        await install(server)
        async with Client(connection(server)) as client:
            showing = asyncio.create_task(top.show(client, None, "", once=False))
            await asyncio.wait_for(drawn.wait(), 60)
            showing.cancel()
            await asyncio.wait((showing,))
