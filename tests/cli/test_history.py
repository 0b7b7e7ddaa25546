"""``job history`` and ``usage``: of the jobs of a cluster, also deleted ones, and the sums."""

import json
from datetime import datetime

import pytest

from tests.cli.run_commands import Run
from volcanopy.cli.jobs.history import RecordedJob, summed
from volcanopy.cli.jobs.options import By
from volcanopy.client.durations import local_time


def test_a_deleted_job_is_in_the_history_and_in_the_usage(volcanopy: Run) -> None:
    words = ("job", "run", "--image", "x", "--annotation", "sim.volcanopy.io/duration=1200ms", "--cpu", "2")
    assert volcanopy(*words, "--name", "gone", "-r", "3", "--resource", "nvidia.com/gpu=0").status == 0
    assert volcanopy("job", "wait", "gone", "--timeout=120s").status == 0
    assert volcanopy("job", "delete", "gone").status == 0
    assert volcanopy(*words, "--name", "waits", "--cpu", "900").status == 0
    assert volcanopy("job", "wait", "waits", "--for=phase=Pending", "--timeout=120s").status == 0

    (item,) = json.loads(volcanopy("job", "history", "gone", "-o", "json").out)["items"]
    assert (item["phase"], item["reason"], item["pods"]) == ("Completed", "Succeeded", 3)
    assert item["queued"] <= item["admitted"] <= item["placed"] <= item["finished"]
    span = datetime.fromisoformat(item["finished"]) - datetime.fromisoformat(item["admitted"])
    assert 6 <= int(item["resourceSeconds"]["cpu"]) <= 6 * (span.total_seconds() + 1)

    headings, *rows = volcanopy("job", "history").lines
    assert headings.split()[:4] == ["NAME", "PHASE", "QUEUE", "USER"]
    assert sorted(row.split()[:2] for row in rows) == [["gone", "Completed"], ["waits", "Pending"]]
    assert [row.split()[0] for row in volcanopy("job", "history", "--since", "1h").lines[1:]] == ["gone", "waits"]

    text = volcanopy("job", "history", "gone").out
    assert text.splitlines()[0] == f"job gone ({item['uid']}): Completed, Succeeded"
    assert f"{local_time(datetime.fromisoformat(item['finished']))}  finished" in text

    for by, key in (("namespace", "test-history"), ("queue", "default")):
        usage = json.loads(volcanopy("usage", "--by", by, "-n", "test-history", "-o", "json").out)
        (row,) = usage["items"]
        assert (row[by], row["jobs"], row["completed"]) == (key, 1, 1)
        assert row["resourceSeconds"] == {"cpu": item["resourceSeconds"]["cpu"]}
    assert volcanopy("usage", "--by", "queue").lines[0].split()[0] == "QUEUE"
    volcanopy("job", "delete", "waits")


def test_a_job_without_a_record_and_a_malformed_duration_are_errors(volcanopy: Run) -> None:
    assert 'no record of a job "never"' in volcanopy("job", "history", "never").sentence()
    assert "is not a duration" in volcanopy("usage", "--since", "week").sentence()


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (By.user, [("ana", 2, "3", "8", 3), ("", 1, "500m", "0", 0)]),
        (By.queue, [("q", 3, "3500m", "8", 3)]),
        (By.namespace, [("b", 1, "2", "0", 0), ("a", 2, "1500m", "8", 3)]),
    ],
)
def test_sums(by: By, expected: list[tuple[str, int, str, str, int]]) -> None:
    entries = [
        RecordedJob(
            "a",
            "1",
            {
                "name": "x",
                "queue": "q",
                "user": "ana",
                "resourceSeconds": {"cpu": "1", "nvidia.com/gpu": "8"},
                "evictions": [{"time": "2026-01-01T00:00:00Z", "pods": 2}, {"time": "2026-01-01T00:00:01Z"}],
            },
        ),
        RecordedJob("a", "2", {"name": "y", "queue": "q", "resourceSeconds": {"cpu": "500m"}}),
        RecordedJob("b", "3", {"name": "x", "queue": "q", "user": "ana", "resourceSeconds": {"cpu": "2"}}),
    ]
    rows = summed(entries, by)
    sums = [
        (row[by.value], row["jobs"], row["resourceSeconds"]["cpu"], row["gpuSeconds"], row["evictedPods"])
        for row in rows
    ]
    assert sums == expected
