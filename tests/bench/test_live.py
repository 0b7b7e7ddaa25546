"""Runs beside each other: shapes, medians, tables and stages."""

import json
from collections import Counter
from pathlib import Path

import pytest

from bench import latency
from bench.live import PEERS, figures, programs, run, shape
from bench.live.load import Load, Run
from bench.live.same_writes import writes
from bench.live.table import document, table, typical


def a_run(load: Load, milliseconds: float, *, seconds: float = 1.0, bound: int = 100, jobs: int = 10) -> Run:
    """A run of jobs of ten pods that takes the API server so many milliseconds for each bound pod."""
    cpu = {"kube-apiserver": milliseconds * bound / 1000}
    return Run(load, jobs, 10, cpu, seconds, Counter({"a: create pods": 2 * bound}), bound, allocated=1024.0 * bound)


@pytest.mark.parametrize(("text", "part"), [("10x500", (1, 500)), ("1x2000", (1, 200)), ("500x20", (50, 20))])
def test_a_tenth_has_fewer_jobs_or_fewer_pods_of_the_only_job(text: str, part: tuple[int, int]) -> None:
    assert shape(text, tenth=True) == part


def test_of_several_rounds_the_run_of_the_median_processor_time_counts() -> None:
    runs = [a_run(Load.OURS, each) for each in (5.0, 9.0, 6.0)] + [a_run(Load.BARE, 3.0)]
    assert [run.cpu_per_pod for run in typical(runs)] == [6.0, 3.0]


def test_of_two_rounds_the_lower_one_counts() -> None:
    assert [run.cpu_per_pod for run in typical([a_run(Load.OURS, 7.0), a_run(Load.OURS, 5.0)])] == [5.0]


def test_the_table_has_ratios_to_the_bare_client_and_to_ours() -> None:
    rows = table([a_run(Load.BARE, 2.0), a_run(Load.OURS, 4.0), a_run(Load.VOLCANO, 20.0, seconds=10.0)]).splitlines()
    assert rows[2:] == [
        "| 10x10 | bare | 2.00 (kube-apiserver 2.00) | 1.00 | 0.50 | 100 | 1.00 | 2.00 | all |",
        "| 10x10 | volcanopy | 4.00 (kube-apiserver 4.00) | 2.00 | 1.00 | 100 | 1.00 | 2.00 | all |",
        "| 10x10 | volcano | 20.00 (kube-apiserver 20.00) | 10.00 | 5.00 | 10 | 10.00 | 2.00 | all |",
    ]


def test_the_table_states_how_many_pods_were_bound_within_the_limit() -> None:
    partial = a_run(Load.VOLCANO, 20.0, seconds=5.0, bound=50)
    assert table([partial]).splitlines()[-1].endswith("| 10 |  | 2.00 | 50 of 100 |")
    assert str(partial).endswith("10 pods/s, only 50 of 100 pods within the time limit")


def test_the_document_has_all_runs_and_is_json() -> None:
    entries = json.loads(json.dumps(document([a_run(Load.OURS, 4.0), a_run(Load.OURS, 5.0)])))
    assert [entry["processorMillisecondsPerPod"] for entry in entries] == [4.0, 5.0]
    assert entries[0]["requests"] == {"a: create pods": 200}


def test_the_figures_compare_ours_with_the_bare_client_beside_peers() -> None:
    result = figures([a_run(Load.BARE, 2.0), a_run(Load.OURS, 3.0), a_run(Load.KUEUE, 9.0)])
    assert result["10x10_cpu_per_bare"] == pytest.approx(1.5)
    assert result["10x10_apiserver_kib_per_bare"] == pytest.approx(1.0)
    assert result["10x10_kueue_cpu_ms_per_pod"] == pytest.approx(9.0)


def entry(verb: str, resource: str, name: str, second: int, subresource: str = "") -> str:
    """A line of the audit log."""
    target = {"namespace": "bench", "resource": resource, "name": name, "subresource": subresource}
    times = {f"{each}Timestamp": f"2026-01-01T00:00:{second:02d}.000000Z" for each in ("requestReceived", "stage")}
    return json.dumps({"verb": verb, "objectRef": target, **times}) + "\n"


def test_the_life_of_a_job_of_a_peer_is_read_from_its_own_stages(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.touch()
    lives = latency.Lives(log, latency.STAGES_OF_PEERS[Load.KUEUE])
    log.write_text(
        entry("create", "jobs", "one0-0", 1)
        + entry("create", "workloads", "job-one0-0-12345", 2)
        + entry("create", "pods", "", 3)
        + entry("create", "pods", "one0-0-abcde", 4, "binding")
    )
    lives.read()
    times = lives.arrivals["one0-0"]
    assert lives.bound["one0-0"] - times["create jobs"] == 3
    assert list(times) == ["create jobs", "create pods/binding"]


def test_every_peer_has_stages_that_end_with_the_bind() -> None:
    assert latency.STAGES_OF_PEERS.keys() == set(PEERS)
    assert {stages[-1] for stages in latency.STAGES_OF_PEERS.values()} == {"create pods/binding"}


def test_a_peer_without_its_source_ends_the_program_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(programs.SOURCE, raising=False)
    with pytest.raises(SystemExit):
        run(["--peer", "kueue"])
    assert "KUEUE_SOURCE is not set: set it to a folder with Kueue's source" in capsys.readouterr().err


def test_the_same_writes_of_a_job_are_those_of_the_job_controller() -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    job = {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": "job-1", "namespace": "bench"},
        "spec": {
            "minAvailable": 3,
            "tasks": [{"name": "task", "replicas": 3, "template": {"spec": {"containers": [container]}}}],
        },
    }
    written = writes(job, "0000-1")
    assert written.group["spec"]["minMember"] == 3
    assert [pod["metadata"]["name"] for pod in written.pods] == ["job-1-task-0", "job-1-task-1", "job-1-task-2"]
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in written.pods} == {"0000-1"}
    assert (written.status["state"]["phase"], written.status["pending"]) == ("Pending", 3)
    assert written.event["involvedObject"]["name"] == written.group["metadata"]["name"]


def test_the_figures_compare_ours_with_a_client_that_sends_the_same_writes() -> None:
    result = figures([a_run(Load.BARE, 2.0), a_run(Load.SAME_WRITES, 2.5), a_run(Load.OURS, 3.0)])
    assert result["10x10_cpu_per_same_writes"] == pytest.approx(1.2)
    assert result["10x10_rate_per_same_writes"] == pytest.approx(1.0)
