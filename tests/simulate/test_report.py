"""The report of a simulation: which configuration is best at what, equal axes, and the configurations themselves."""

from dataclasses import replace

from volcanopy_lab.reports.comparison import Comparison
from volcanopy_lab.reports.figures import figures
from volcanopy_lab.reports.report import html
from volcanopy_lab.simulate.outcome import JobOutcome, JobRun, Outcome, SamplePoint


def outcome(name: str, wait: float, seed: int = 1) -> Outcome:
    """A run of one job that waits so many seconds and runs for 100."""
    end = wait + 100
    job = JobOutcome("a", "q", "", 1, 1, 0, submit=0, start=wait, end=end, run_time=100, evictions=0, lost=0, bound=1)
    samples = tuple(SamplePoint(time, 0.5, 0.0, 0.0, (1.0, 1.0), (1.0, 1.0), 0, 1, 0.0) for time in (0.0, end))
    return Outcome(
        name,
        seed,
        end,
        "cpu",
        {"cpu": 2.0},
        ("q", "r"),
        (job,),
        placements=(JobRun("a", "q", wait, end, 1.0),),
        samples=samples,
        utilisation={"cpu": 0.5},
        shares={"q": 0.5, "r": 0.5},
    )


def test_a_sentence_names_the_best_configuration_and_the_difference() -> None:
    lines = Comparison({"old": [outcome("old", 200)], "new": [outcome("new", 100)]}).summary()
    assert lines[0].startswith("new is best at mean wait (100s instead of 3m20s of old, 50% less)")
    assert lines[-1].startswith("No clear difference: ")
    assert "CPU utilisation" in lines[-1]
    assert not any(line.startswith("old") for line in lines)


def test_a_difference_within_the_confidence_intervals_is_none() -> None:
    waits = {"old": (100, 300, 200), "new": (90, 280, 190)}
    runs = {name: [outcome(name, wait, seed) for seed, wait in enumerate(values)] for name, values in waits.items()}
    (line,) = Comparison(runs).summary()
    assert line.startswith("No clear difference: mean wait")


def test_one_configuration_is_not_compared() -> None:
    assert Comparison({"only": [outcome("only", 100)]}).summary() == []


def test_the_axes_of_all_configurations_are_equal() -> None:
    firsts = {"short": outcome("short", 0), "long": outcome("long", 900)}
    charts = figures(firsts)
    gantts = [chart for chart in charts if chart["kind"] == "gantt"]
    assert {chart["end"] for chart in gantts} == {1000.0}
    shares = [chart for chart in charts if chart["title"].startswith("Shares of queues")]
    assert [chart["end"] for chart in shares] == [1000.0, 1000.0]
    assert {chart["top"] for chart in shares} == {100}


def test_a_configuration_without_runs_does_not_move_the_axes() -> None:
    idle = replace(outcome("idle", 0), placements=())
    kinds = {chart["title"]: chart["kind"] for chart in figures({"busy": outcome("busy", 50), "idle": idle})}
    assert (kinds["Runs of jobs: busy"], kinds["Runs of jobs: idle"]) == ("gantt", "text")


def test_the_report_contains_the_configurations_as_text() -> None:
    text = html(Comparison({"a": [outcome("a", 0)]}), "ml", {"a": "actions: allocate # <script>alert(1)</script>"})
    assert "<summary>Configuration a</summary><pre>actions: allocate # &lt;script&gt;" in text
