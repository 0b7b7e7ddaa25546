"""``volcanopy queue`` against a cluster at work: what a person does with queues, from their making to their end."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.run_commands import Outcome, Run, until
from volcanopy.kube.client.raw_kinds import QUEUES

KIND = "queue.scheduling.volcanopy.io"


@pytest.fixture(autouse=True)
def clean_up(volcanopy: Run) -> Iterator[None]:
    """Queues belong to the whole cluster: what a test leaves is taken away."""
    yield
    volcanopy("job", "delete", "--all", "--wait")
    for name in ("qc-low", "qc-one", "qc-two", "qc-top"):
        volcanopy("queue", "delete", name, "--ignore-not-found", "--wait")


def ok(done: Outcome) -> str:
    assert (done.status, done.err) == (0, "")
    return done.out


def spec_of(run: Run, name: str) -> dict[str, object]:
    spec: dict[str, object] = json.loads(ok(run("queue", "get", name, "-o", "json")))["spec"]
    return spec


def test_create_update_list_describe_and_delete_queues(volcanopy: Run) -> None:
    words = ("--weight", "2", "--capability", "cpu=4,memory=8Gi", "--no-reclaimable")
    assert (
        ok(volcanopy("queue", "create", "qc-one", "qc-two", *words))
        == f"{KIND}/qc-one created\n{KIND}/qc-two created\n"
    )
    again = volcanopy("queue", "create", "qc-one")
    assert (again.status, "already exists" in again.sentence()) == (1, True)
    assert (
        ok(volcanopy("queue", "update", "qc-one", "--capability", "cpu=6", "--weight", "3"))
        == f"{KIND}/qc-one updated\n"
    )
    spec = spec_of(volcanopy, "qc-one")
    assert (spec["capability"], spec["weight"], spec["reclaimable"]) == ({"cpu": "6"}, 3, False)
    assert ok(volcanopy("queue", "update", "qc-one", "--weight", "3")) == f"{KIND}/qc-one unchanged\n"
    ok(volcanopy("queue", "update", "qc-one", "--capability", ""))
    assert "capability" not in spec_of(volcanopy, "qc-one")
    headings, *rows = ok(volcanopy("queue", "list")).splitlines()
    assert headings.split()[:6] == ["NAME", "PARENT", "STATE", "STOP", "WEIGHT", "ALLOCATED"]
    assert ["qc-one", "root", "Open", "None", "3"] in [row.split()[:5] for row in rows]
    assert "Weight:            3" in ok(volcanopy("queue", "describe", "qc-one"))
    assert ok(volcanopy("queue", "delete", "qc-one", "qc-two")).count("deleted") == 2


def test_dry_runs_change_nothing(volcanopy: Run) -> None:
    made = yaml.safe_load(ok(volcanopy("queue", "create", "qc-one", "--weight", "5", "--dry-run=client", "-o", "yaml")))
    assert (made["kind"], made["metadata"], made["spec"]) == ("Queue", {"name": "qc-one"}, {"weight": 5})
    assert ok(volcanopy("queue", "create", "qc-one", "--dry-run=server")) == f"{KIND}/qc-one created (server dry run)\n"
    missing = volcanopy("queue", "get", "qc-one")
    assert (missing.status, missing.sentence()) == (1, 'queue "qc-one" not found')
    ok(volcanopy("queue", "create", "qc-one", "--weight", "5"))
    assert spec_of(volcanopy, "qc-one")["weight"] == 5
    for verb in ("hold", "drain", "close"):
        assert "(server dry run)" in ok(volcanopy("queue", verb, "qc-one", "--dry-run=server"))
    row = ok(volcanopy("queue", "get", "qc-one")).splitlines()[1].split()
    assert row[2:4] == ["Open", "None"]


def test_hold_drain_and_resume_a_queue(volcanopy: Run) -> None:
    ok(volcanopy("queue", "create", "qc-one"))
    assert ok(volcanopy("queue", "hold", "qc-one")) == f"{KIND}/qc-one held\n"
    assert ok(volcanopy("queue", "hold", "qc-one")) == f"{KIND}/qc-one unchanged: already held\n"
    assert spec_of(volcanopy, "qc-one")["stopPolicy"] == "Hold"
    assert 'queue "qc-one" is held: no new pods start until' in ok(volcanopy("explain", "queue", "qc-one"))
    assert ok(volcanopy("queue", "drain", "qc-one")) == f"{KIND}/qc-one drained\n"
    assert spec_of(volcanopy, "qc-one")["stopPolicy"] == "HoldAndDrain"
    assert ok(volcanopy("queue", "resume", "qc-one")) == f"{KIND}/qc-one resumed\n"
    assert spec_of(volcanopy, "qc-one")["stopPolicy"] == "None"
    refused = volcanopy("queue", "hold", "root")
    assert (refused.status, 'queue "root" cannot be held' in refused.sentence()) == (1, True)


def test_close_and_open_a_queue_with_its_children(volcanopy: Run) -> None:
    ok(volcanopy("queue", "create", "qc-top"))
    ok(volcanopy("queue", "create", "qc-low", "--parent", "qc-top"))
    assert ok(volcanopy("queue", "close", "qc-top", "--wait", "--reason", "holidays")) == f"{KIND}/qc-top closed\n"
    assert ok(volcanopy("queue", "wait", "qc-low", "--for=closed")) == f"{KIND}/qc-low condition met\n"
    assert ok(volcanopy("queue", "close", "qc-top")) == f"{KIND}/qc-top unchanged: already closed\n"
    refused = volcanopy("queue", "open", "qc-low")
    assert refused.status == 1
    assert refused.sentence() == (
        'queue "qc-low" cannot be opened: its parent "qc-top" is closed; run `volcanopy queue open qc-top` first'
    )
    assert ok(volcanopy("queue", "open", "qc-top", "--wait")) == f"{KIND}/qc-top opened\n"
    ok(volcanopy("queue", "wait", "qc-low", "--for=open"))
    root = volcanopy("queue", "close", "root")
    assert (root.status, root.sentence()) == (1, 'queue "root" cannot be closed: close the queues below it')


def test_a_queue_is_empty_without_unfinished_jobs_below_it(volcanopy: Run, kubeconfig: Path) -> None:
    ok(volcanopy("queue", "create", "qc-top"))
    ok(volcanopy("queue", "create", "qc-low", "--parent", "qc-top"))
    ok(
        volcanopy(
            "job",
            "run",
            "--name",
            "lasts",
            "--image",
            "i",
            "--queue",
            "qc-low",
            "--annotation",
            "sim.volcanopy.io/duration=forever",
        )
    )
    ok(volcanopy("job", "wait", "lasts", "--for=running"))
    until(
        kubeconfig,
        QUEUES,
        lambda queues: any(
            queue["metadata"]["name"] == "qc-low" and queue["status"].get("running") for queue in queues
        ),
    )
    late = volcanopy("queue", "wait", "qc-top", "--for=empty", "--timeout=500ms")
    assert late.status == 1
    assert late.sentence().startswith('timed out waiting for queue "qc-top" to be empty: it is open with ')
    drawn = ok(volcanopy("queue", "tree", "qc-top", "--resource", "cpu")).splitlines()
    assert [line.split()[0] for line in drawn[:2]] == ["QUEUE", "qc-top"]
    assert drawn[2].startswith("└─ qc-low")
    ok(volcanopy("job", "delete", "lasts"))
    ok(volcanopy("queue", "wait", "qc-top", "--for=empty"))


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("queue", "create"), 2, "Missing argument 'NAME'; see `volcanopy queue create --help`"),
        (
            ("queue", "create", "qc-one", "--capability", "cpu"),
            2,
            "--capability: 'cpu' is invalid: use NAME=QUANTITY, such as cpu=4 or memory=8Gi",
        ),
        (
            ("queue", "update", "default"),
            2,
            "no field to update: give an option such as --weight or --capability",
        ),
        (("queue", "get", "defalt"), 1, 'queue "defalt" not found; did you mean default?'),
        (("queue", "tree", "defalt"), 1, 'queue "defalt" not found; did you mean default?'),
        (("explain", "queue", "defalt"), 1, 'queue "defalt" not found; did you mean default?'),
        (("queue", "hold"), 2, "no queue selected: give NAME, -l LABELS or --all"),
        (("explain", "job", "nobody"), 1, 'job "nobody" not found in namespace "test-queue-commands"'),
        (("snapshot", "--config-map", "a/b"), 1, "--config-map: a/b: not found"),
        (("snapshot", "--config", "/nowhere"), 2, "--config: cannot read /nowhere: No such file or directory"),
        (("snapshot", "--config", "/x", "--config-map", "a"), 2, "give --config or --config-map, not both"),
    ],
)
def test_wrong_usage_is_one_sentence(volcanopy: Run, words: tuple[str, ...], status: int, said: str) -> None:
    done = volcanopy(*words)
    assert (done.status, done.sentence()) == (status, said)
