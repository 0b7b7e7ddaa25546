"""The jobs of a flow in levels, its critical path and its expected end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from volcanopy.api.decoding import convert
from volcanopy.api.flow_read import JobFlow, JobTemplate, Patch
from volcanopy.cli.explain.flow import FlowReport, flow_report

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
STEPS = {"fetch": (), "train-a": ("fetch",), "train-b": ("fetch",), "report": ("train-a", "train-b")}


def flow(
    name: str = "f", state: str = "Running", steps: Any = STEPS, **entries: tuple[str, float, float | None]
) -> JobFlow:
    """A flow; an entry is the phase of a job, and the seconds before now of its start and its end."""

    def time(ago: float | None) -> str | None:
        return None if ago is None else (NOW - timedelta(seconds=ago)).isoformat()

    statuses = [
        {"name": job.replace("_", "-"), "state": phase, "startTimestamp": time(start), "endTimestamp": time(end)}
        for job, (phase, start, end) in entries.items()
    ]
    jobs = [{"name": job, "dependsOn": {"targets": targets}} for job, targets in steps.items()]
    manifest = {
        "metadata": {"name": name},
        "spec": {"flows": jobs},
        "status": {"state": {"phase": state}, "jobStatusList": statuses},
    }
    return convert(manifest, JobFlow)


EARLIER = flow(
    "earlier",
    "Succeed",
    fetch=("Completed", 9000, 8940),
    train_a=("Completed", 8000, 7400),
    train_b=("Completed", 8000, 7900),
    report=("Completed", 7000, 6970),
)


def report(now: JobFlow) -> FlowReport:
    return flow_report(now, (EARLIER, now), (), NOW)


def test_the_critical_path_is_the_one_that_takes_longest() -> None:
    shown = report(flow())
    assert shown.critical_path == ("fetch", "train-a", "report")
    assert shown.critical_seconds == 60 + 600 + 30
    assert shown.path_text() == "fetch -> train-a -> report (11m)"
    assert [(step.name, step.level) for step in shown.steps] == [
        ("fetch", 1),
        ("train-a", 2),
        ("train-b", 2),
        ("report", 3),
    ]


def test_a_job_that_takes_longer_than_expected_moves_the_critical_path() -> None:
    late = flow(fetch=("Completed", 2000, 1940), train_a=("Completed", 1900, 1880), train_b=("Running", 1900, None))
    assert report(late).critical_path == ("fetch", "train-b", "report")


def test_the_end_is_expected_after_what_remains() -> None:
    running = flow(fetch=("Completed", 300, 200), train_a=("Running", 200, None), train_b=("Completed", 200, 100))
    # The mean of train-a is 600 s, of which 200 s have passed; report takes 30 s.
    assert report(running).expected_end == NOW + timedelta(seconds=400 + 30)
    assert report(running).end_text(NOW).endswith(" (in 7m10s)")


def test_the_expected_time_is_the_mean_of_all_flows_of_the_namespace() -> None:
    steps = {step.name: step for step in report(flow(fetch=("Completed", 300, 180))).steps}
    assert steps["fetch"].expected == (60 + 120) / 2


@pytest.mark.parametrize(
    "ended",
    [
        flow(state="Failed", fetch=("Failed", 300, 200)),
        flow(fetch=("Failed", 300, 200)),
        EARLIER,
    ],
)
def test_a_flow_that_has_ended_or_cannot_complete_has_no_expected_end(ended: JobFlow) -> None:
    assert report(ended).expected_end is None
    assert report(ended).unknown == ()


def test_without_a_completed_job_of_a_template_the_end_is_unknown() -> None:
    shown = flow_report(first := flow(fetch=("Completed", 300, 200)), (first,), (), NOW)
    assert (shown.expected_end, shown.unknown) == (None, ("report", "train-a", "train-b"))
    assert shown.end_text(NOW) == (
        "unknown: no completed job and no runningEstimate of template report, train-a, train-b"
    )
    assert shown.path_text().endswith("(at least 100s)")


def test_a_cycle_is_named() -> None:
    with pytest.raises(ValueError, match='dependsOn of job flow "f" has a cycle: a -> b -> a'):
        report(flow(steps={"a": ("b",), "b": ("a",)}))


def test_the_document_has_seconds_and_levels() -> None:
    document = report(flow(fetch=("Completed", 300, 240))).document()
    assert document["criticalPath"] == ["fetch", "train-a", "report"]
    assert document["jobs"][1] == {
        "name": "train-a",
        "template": "train-a",
        "level": 2,
        "dependsOn": ["fetch"],
        "phase": "",
        "expectedSeconds": 600,
    }


def test_the_estimate_of_a_template_counts_where_no_job_has_completed() -> None:
    estimates = {"fetch": "2m", "train-a": "10m", "train-b": "20m"}
    templates = [
        convert({"metadata": {"name": name}, "spec": {"runningEstimate": text}}, JobTemplate)
        for name, text in estimates.items()
    ]
    first = flow(fetch=("Running", 60, None))
    *steps, last = first.spec.flows
    last = replace(last, patch=Patch(job_spec={"runningEstimate": "1m"}))
    first = replace(first, spec=replace(first.spec, flows=(*steps, last)))
    alone = flow_report(first, (first,), templates, NOW)
    assert alone.critical_path == ("fetch", "train-b", "report")
    assert alone.expected_end == NOW + timedelta(minutes=1 + 20 + 1)
    assert flow_report(first, (first, EARLIER), templates, NOW).critical_path == ("fetch", "train-a", "report")
