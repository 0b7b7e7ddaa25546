"""The frame of commands: spans of time, tables, bundles of options, and the words for what went wrong."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.fake_api_server import JOBS, FakeApiServer, a_job, forbidden
from tests.cli.run_commands import run_in_process
from volcanopy.api.batch import Phase
from volcanopy.cli.framework import documents
from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.options import ClusterOptions, DryRun, Format, NamespaceOption, WriteOptions
from volcanopy.cli.framework.selection import PartialError, for_each
from volcanopy.client.durations import seconds, since, span
from volcanopy.client.errors import CommandError
from volcanopy.client.jobs import status
from volcanopy.client.jobs.pods import Pod, readiness, restarts, state
from volcanopy.client.kinds import read
from volcanopy.client.objects import bare_name
from volcanopy.client.watch import watch_objects
from volcanopy.jobcontroller.phases import FINISHED
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import JOBS as KIND


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (timedelta(seconds=-5), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(seconds=120), "2m"),
        (timedelta(minutes=3, seconds=20), "3m20s"),
        (timedelta(minutes=10, seconds=20), "10m"),
        (timedelta(hours=2, minutes=59), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=5, minutes=30), "5h30m"),
        (timedelta(hours=8, minutes=30), "8h"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=2, hours=4), "2d4h"),
        (timedelta(days=8, hours=4), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=731), "2y1d"),
        (timedelta(days=3650), "10y"),
    ],
    ids=str,
)
def test_durations_are_printed_as_by_kubectl(length: timedelta, said: str) -> None:
    assert span(length.total_seconds()) == said
    now = datetime(2030, 1, 1, tzinfo=UTC)
    assert since((now - max(length, timedelta())).strftime("%Y-%m-%dT%H:%M:%SZ"), now) == said


@given(st.floats(min_value=0, max_value=1e10))
def test_printed_durations_lose_at_most_an_eighth(length: float) -> None:
    """What is write, read again, is never more than the span and at most an eighth less."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
    total, number = 0, ""
    for letter in span(length):
        if letter.isdigit():
            number += letter
        else:
            total, number = total + int(number) * units[letter], ""
    assert total <= length + 1
    assert total >= int(length) * 7 / 8


@pytest.mark.parametrize(("text", "length"), [("30", 30), ("30s", 30), ("1h30m", 5400), ("500ms", 0.5), ("2d", 172800)])
def test_durations_are_parsed(text: str, length: float) -> None:
    assert seconds("--timeout", text) == length


@pytest.mark.parametrize("text", ["", "s", "5 m", "1h-5m", "soon", "5mm"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(CommandError, match=r"^--timeout: .* is not a duration") as stopped:
        seconds("--timeout", text)
    assert stopped.value.status == 2


def test_phases_are_those_of_the_api() -> None:
    assert set(status.PHASES) == {str(phase) for phase in Phase}
    assert {str(phase) for phase in FINISHED} == status.FINISHED
    assert status.phase_named("aborted") == status.SUSPENDED == str(Phase.ABORTED)


@pytest.mark.parametrize("given_name", ["a", "job/a", "batchjob/a", "batchjobs/a", "batchjob.batch.volcanopy.io/a"])
def test_names_may_have_a_kind_prefix(given_name: str) -> None:
    assert bare_name(KIND, given_name) == "a"


def test_bundles_become_options_and_come_back_as_values() -> None:
    app, got = typer.Typer(), []

    @command(app, "do", examples=["volcanopy do it -n lab"])
    async def do(
        name: Annotated[str, typer.Argument(help="What.")],
        place: NamespaceOption,
        write: WriteOptions,
        often: Annotated[int, typer.Option("--often", help="How often.")] = 1,
    ) -> None:
        """Do it."""
        got.append((name, place, write, often))

    run = typer.main.get_command(app)
    run.main(["it", "-n", "lab", "--dry-run=server", "--often", "3"], standalone_mode=False)
    run.main(["it"], standalone_mode=False)
    assert got == [
        ("it", NamespaceOption("lab"), WriteOptions(DryRun.server), 3),
        ("it", NamespaceOption(), WriteOptions(), 1),
    ]
    assert asyncio.iscoroutinefunction(do), "the function stays what it was for others"


async def test_for_each_reports_every_failure_and_continues(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def act(number: int) -> int:
        if number % 2:
            raise CommandError(f"{number} is odd")
        return number

    for together in (False, True):
        with pytest.raises(PartialError) as stopped:
            await for_each(range(5), act, together=together)
        assert (stopped.value.results, str(stopped.value), stopped.value.status) == ([0, 2, 4], "3 is odd", 1)
        assert capsys.readouterr().err == "volcanopy: 1 is odd\n"
    with pytest.raises(CommandError, match="1 is odd"):
        await for_each([1], act)


def test_documents_have_their_type_and_no_managed_fields() -> None:
    body = a_job("a", "Running")
    del body["kind"]
    assert documents.whole(KIND, body)["kind"] == "BatchJob"
    assert "managedFields" not in documents.as_list(KIND, [body])["items"][0]["metadata"]
    shared: Json = {"x": ["1"]}
    text = documents.text({"metadata": shared, "spec": shared, "date": "2030-01-01T00:00:00Z", "no": "no"}, Format.yaml)
    assert text == "metadata:\n  x:\n  - '1'\nspec:\n  x:\n  - '1'\ndate: '2030-01-01T00:00:00Z'\n'no': 'no'\n"


def test_a_forbidden_watch_is_an_error_at_once(server: FakeApiServer, tmp_path: Path) -> None:
    """A list is allowed and a watch is not: the path is the same, so it is refused by the query."""
    server.has(JOBS.format("default"), a_job("training", "Pending"))
    allowed = server.answer

    def answer(method: str, asked: str) -> tuple[int, Json]:
        watched = server.asked[-1][2].get("watch")
        return forbidden("watch") if watched else allowed(method, asked)

    server.answer = answer  # type: ignore[method-assign, assignment]

    async def follow() -> None:
        async with (
            Client(load_connection(server.kubeconfig(tmp_path))) as client,
            watch_objects(client, KIND, "default"),
        ):
            raise AssertionError("nothing can be followed")

    with pytest.raises(Forbidden, match='cannot watch resource "batchjobs"'):
        asyncio.run(follow())
    refused = run_in_process("job", "wait", "training", kubeconfig=server.kubeconfig(tmp_path))
    assert refused.status == 1
    assert refused.sentence().startswith(
        'forbidden: user "ada" cannot watch batchjobs.batch.volcanopy.io in namespace "default"'
    )


def test_an_unknown_host_is_an_error(server: FakeApiServer, tmp_path: Path) -> None:
    server.url = "http://no-such-host.invalid:6443"
    refused = run_in_process("job", "list", kubeconfig=server.kubeconfig(tmp_path))
    assert refused.sentence().startswith("no answer from http://no-such-host.invalid:6443 (context canned): ")
    assert ClusterOptions(Path("/nonexistent")).kubeconfig == Path("/nonexistent")


@pytest.mark.parametrize(
    ("pod_status", "deleted", "said"),
    [
        ({"phase": "Pending"}, False, "Pending"),
        (
            {"phase": "Running", "containerStatuses": [{"name": "c", "ready": True, "state": {"running": {}}}]},
            False,
            "Running",
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
            },
            False,
            "ImagePullBackOff",
        ),
        (
            {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3}}}]},
            False,
            "ExitCode:3",
        ),
        (
            {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"signal": 9}}}]},
            False,
            "Signal:9",
        ),
        ({"phase": "Failed", "reason": "Evicted"}, False, "Evicted"),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            },
            False,
            "SchedulingGated",
        ),
        ({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}, False, "Init:0/1"),
        (
            {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1}}}]},
            False,
            "Init:ExitCode:1",
        ),
        ({"phase": "Running"}, True, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"}, True, "Unknown"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_the_state_of_a_pod_is_that_of_kubectl(pod_status: Json, deleted: bool, said: str) -> None:
    metadata = {"name": "p", **({"deletionTimestamp": "2030-01-01T00:00:00Z"} if deleted else {})}
    pod = {
        "metadata": metadata,
        "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]},
        "status": pod_status,
    }
    assert state(read(Pod, pod)) == said


def test_a_sidecar_counts_as_ready_and_does_not_give_an_ended_pod_its_state() -> None:
    main = {"name": "c", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    sidecar = {"name": "s", "started": False, "restartCount": 2, "state": {"terminated": {"exitCode": 143}}}
    pod = {
        "metadata": {"name": "p"},
        "spec": {"initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "c"}]},
        "status": {
            "phase": "Succeeded",
            "conditions": [{"type": "Initialized", "status": "True"}],
            "initContainerStatuses": [sidecar],
            "containerStatuses": [main],
        },
    }
    assert (state(read(Pod, pod)), readiness(read(Pod, pod))) == ("Completed", "0/2")
    assert restarts(read(Pod, pod), datetime.now(UTC)) == "2"
