"""``volcanopy simulate``: tables, files, the report, interruptions and wrong options."""

import base64
import csv
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.run_commands import Outcome, run_in_process
from volcanopy.api import core
from volcanopy.cli.snapshot import document
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.model.measures import Measured, Reading, annotated, annotation
from volcanopy.scheduler.policy.config import DEFAULT
from volcanopy.services.scheduler.replay import CycleContext
from volcanopy_lab.reports.source import read_cluster
from volcanopy_testing.notation import NOW, world

CLUSTER = """
nodes:
  - {count: 2, allocatable: {cpu: 8, memory: 32Gi}}
queues:
  <b>: {weight: 1}
"""
JOBS = "\n".join(
    json.dumps(
        {
            "name": f"train-{number}",
            "queue": "default",
            "user": "ana",
            "queued": f"2030-01-01T00:0{number}:00Z",
            "runningDuration": f"{100 + 50 * number}s",
            "pods": 2,
            "resourceSeconds": {"cpu": str((100 + 50 * number) * 8)},
        }
    )
    for number in range(8)
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with the files of a comparison."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER.replace("<b>", "other"))
    (tmp_path / "jobs.jsonl").write_text(JOBS)
    (tmp_path / "new.yaml").write_text(DEFAULT.replace("  - name: overcommit\n", ""))
    return tmp_path


def simulate(files: Path, *words: str) -> Outcome:
    """Run the command on the files of a comparison, in this process."""
    cluster = ("--cluster", str(files / "cluster.yaml"))
    return run_in_process("simulate", str(files / "jobs.jsonl"), *cluster, "--processes", "1", *words)


def test_configurations_are_compared_side_by_side(files: Path) -> None:
    outcome = simulate(files, "--config", "default", "--config", f"new={files / 'new.yaml'}", "--check")
    assert outcome.status == 0, outcome.err
    assert re.match(r"MEASURE +DEFAULT +NEW$", outcome.lines[0])
    assert re.search(r"^Jobs +8 +8$", outcome.out, re.MULTILINE)


def test_measures_as_json_and_jobs_as_csv(files: Path) -> None:
    outcome = simulate(files, "--seeds", "2", "-o", "json", "--jobs", str(files / "out.csv"))
    (item,) = json.loads(outcome.out)["items"]
    assert item["configuration"] == "default"
    assert [run["seed"] for run in item["runs"]] == [42, 43]
    assert item["measures"]["jobs"] == {"mean": 8, "interval": 0}
    usage = item["runs"][0]["decayedUsage"]
    assert [sum(row[part] for row in usage) for part in ("share", "used")] == pytest.approx([1.0, 1.0], abs=1e-5)
    assert sum(row["usage"].get("cpu", 0.0) for row in usage) > 0
    with (files / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    slowdowns = [float(row["bounded_slowdown"]) for row in rows if row["seed"] == "42"]
    assert sum(slowdowns) / 8 == pytest.approx(item["measures"]["mean_bounded_slowdown"]["mean"])
    assert rows[0]["name"] == "train-0"


def test_jobs_that_never_start_and_rejected_ones_are_named_with_their_reasons(files: Path) -> None:
    lines = [json.loads(line) for line in JOBS.splitlines()]
    wide = [job | {"resourceSeconds": {"cpu": str(100_000 + number)}} for number, job in enumerate(lines[:4])]
    jobs = [*wide, lines[4] | {"queue": "other"}]
    (files / "jobs.jsonl").write_text("\n".join(map(json.dumps, jobs)))
    (files / "cluster.yaml").write_text(CLUSTER.replace("<b>: {weight: 1}", "other: {capability: {cpu: 1}}"))
    outcome = simulate(files, "--jobs", str(files / "out.csv"))
    assert outcome.status == 0, outcome.err
    assert re.search(r"^Mean bounded slowdown +-$", outcome.out, re.MULTILINE)
    rejected, waiting = outcome.err.splitlines()
    assert rejected.startswith("volcanopy: 1 job rejected by admission: train-4: spec.queue: Invalid value")
    assert waiting.startswith("volcanopy: 4 jobs never started, such as train-0: ")
    assert waiting.endswith(": request exceeds the capacity of the cluster: cpu requested 1000, capacity 16"), waiting
    with (files / "out.csv").open() as file:
        assert next(row["reason"] for row in csv.DictReader(file)) in waiting


class Page(HTMLParser):
    """The texts of a report's elements of style, script and data."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.texts: dict[str, str] = {}
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        kind = dict(attrs).get("type") or ""
        self._open = {"application/json": "data", "module": "script"}.get(kind, tag)
        if tag == "meta" and dict(attrs).get("http-equiv"):
            self.texts["policy"] = dict(attrs)["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        self.texts[self._open] = self.texts.get(self._open, "") + data


def test_the_report_is_one_file_with_plots_and_nothing_from_elsewhere(files: Path) -> None:
    report = files / "report.html"
    (files / "jobs.jsonl").write_text(JOBS.replace("train", "</script><script>alert(1)</script>"))
    outcome = simulate(files, "--report", str(report))
    assert outcome.status == 0, outcome.err
    text = report.read_text()
    page = Page()
    page.feed(text)
    assert page.elements.count("script") == 2
    text = text.replace("/*! https://github.com/leeoniya/uPlot (v1.6.32) */", "")
    assert not re.search(r"https?://|src=|url\(|\bimport\b.*from|^export ", text, re.MULTILINE)
    for part in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.texts[part].encode()).digest()).decode()
        assert f"{part}-src 'sha256-{digest}'" in page.texts["policy"]
    figures = {figure["title"]: figure for figure in json.loads(page.texts["data"])}
    titles = ["CPU utilisation", "Waiting jobs", "Fragmentation", "Mean wait by size", "Runs of jobs: default"]
    assert [title for title in titles if title in figures] == titles
    runs = [run["title"] for row in figures["Runs of jobs: default"]["rows"] for run in row]
    assert len(runs) == 8
    assert any(title.startswith("</script><script>alert(1)</script>") for title in runs)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--window", "5"], "--window: give two times such as 1d-3d, not '5'"),
        (["--window", "2d-1d"], "--window: 1d is not after 2d"),
        (["--window", "5d-9d"], "--window: no job is submitted then"),
        (["--config", "a=none.yaml"], "--config: cannot read none.yaml: No such file or directory"),
        (["--config", "default", "--config", "default"], "--config: two configurations have the name 'default'"),
        (["--jobs", "none/out.csv"], "--jobs: cannot write none/out.csv: No such file or directory"),
        (["--report", "none/report.html"], "--report: cannot write none/report.html: No such file or directory"),
        (["--report", "/"], "--report: cannot write /: Is a directory"),
        (["--load", "nan"], "--load: 'nan' is invalid: use a number such as 0.9"),
        (["--heartbeat", "often"], "--heartbeat: 'often' is not a duration"),
        (["--format", "swf"], "line 1: a job of an SWF trace has 18 fields"),
    ],
)
def test_a_wrong_option_is_one_sentence(files: Path, words: list[str], sentence: str) -> None:
    outcome = simulate(files, *words)
    assert outcome.status != 0
    assert sentence in outcome.sentence()
    assert not outcome.out  # known before the simulation, which may take hours


@pytest.mark.parametrize(
    ("workload", "sentence"),
    [
        ("ml:jobs=x", "ml: jobs must be a whole number, not 'x'"),
        ("ml:size=3", "ml: unknown argument 'size'; known are jobs, gpus, load, recurring, days"),
        ("lublin:load=0", "lublin: load must be greater than 0, not 0"),
    ],
)
def test_a_wrong_workload_is_one_sentence(workload: str, sentence: str) -> None:
    assert run_in_process("simulate", workload).sentence() == sentence


def test_a_workload_that_does_not_exist_is_one_sentence(files: Path) -> None:
    outcome = run_in_process("simulate", "none.swf", "--cluster", str(files / "cluster.yaml"))
    assert outcome.sentence() == (
        "workload: cannot read none.swf: No such file or directory; generators are lublin, poisson, ml"
    )
    assert run_in_process("simulate", "none.swf").sentence() == outcome.sentence()
    (files / "jobs.gz").write_bytes(gzip.compress((files / "jobs.jsonl").read_bytes()))
    compressed = run_in_process("simulate", str(files / "jobs.gz"), "--cluster", str(files / "cluster.yaml"))
    assert "jobs.gz: it is compressed, unpack it with gunzip; " in compressed.sentence()
    alone = run_in_process("simulate", str(files / "jobs.jsonl")).sentence()
    assert alone.startswith("--cluster: give the description of a cluster")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"items": [}', "cluster.yaml: line 1: invalid YAML: did not find expected node content"),
        (
            '{"kind": "List", "items": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}]}',
            "the snapshot has no nodes",
        ),
        ("nodes: [", "cluster.yaml: line 1: invalid YAML: did not find expected node content"),
        ("{nodes: [{count: 0}]}", "nodes[0].count must be a whole number from 1, not 0"),
    ],
)
def test_a_wrong_cluster_is_one_sentence(files: Path, text: str, sentence: str) -> None:
    (files / "cluster.yaml").write_text(text)
    assert sentence in simulate(files).sentence()


def test_a_snapshot_has_its_own_configuration_and_running_jobs(files: Path) -> None:
    state = State()
    for item in world("node n1 cpu=16\nqueue default\njob runs note.volcanopy.io/walltime=1h: 2 x cpu=4 on=n1"):
        state.upsert(item)
    context = CycleContext(("volcanopy",), "default", DEFAULT)
    (files / "cluster.yaml").write_text("".join(document(state.snapshot(NOW, "snapshot-1"), context)))
    outcome = simulate(files)
    assert outcome.status == 0, outcome.err
    assert outcome.lines[0].split() == ["MEASURE", "SNAPSHOT"]
    assert outcome.lines[1].split() == ["Jobs", "9"]


def test_measures_of_a_snapshot_do_not_age_in_a_simulation(tmp_path: Path) -> None:
    state = State()
    for item in world("node n1 cpu=4\nnode n2 cpu=4"):
        state.upsert(item)
    state.set_measures(Measured({"power": {"n1": Reading(310.0, NOW.timestamp(), peak=420.0)}}))
    (tmp_path / "snapshot.json").write_text("".join(document(state.snapshot(NOW), CycleContext())))
    nodes = [item for item in read_cluster(str(tmp_path / "snapshot.json")) if isinstance(item, core.Node)]
    assert [annotated(node.metadata.annotations, "power") is None for node in nodes] == [False, True]
    assert annotation(Reading(310.0, peak=420.0)) in nodes[0].metadata.annotations.values()
