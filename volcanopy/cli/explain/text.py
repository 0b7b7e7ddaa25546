"""Reports as text: lines of styled parts, shown in colour on a terminal and plain in a pipe."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from volcanopy.api.core import position_of
from volcanopy.api.quantity import counted
from volcanopy.cli.framework.tables import plain_table
from volcanopy.client.durations import local_times
from volcanopy.client.explain.report import (
    GateState,
    JobReport,
    PodProblem,
    QueueReport,
    ResourceRow,
    WaitingGroup,
    listed,
)


class StyledText(NamedTuple):
    """A part of a line with its style on a terminal."""

    text: str
    style: str = ""


Line = Sequence[StyledText]

_MARKS = {
    GateState.PASSED: ("✓", "green"),
    GateState.BLOCKED: ("✗", "red"),
    GateState.UNCHECKED: ("·", "dim"),
    GateState.NOT_REQUIRED: ("-", "dim"),
}
_STYLES = {
    "pending": "yellow",
    "starting": "yellow",
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "suspended": "red",
    "terminated": "red",
}
_WAITING_SHOWN = 10
"""Maximum number of waiting pod groups of a queue that are shown."""
_COLUMNS = (
    "resource",
    "allocated",
    "fair_share",
    "capability",
    "available",
    "guaranteed",
    "borrowed",
    "lendable",
    "waiting",
)


def plain(lines: Iterable[Line]) -> str:
    """Return the lines without styles."""
    return "\n".join("".join(part.text for part in line).rstrip() for line in lines)


def job_lines(report: JobReport) -> Iterator[Line]:
    """Return the lines of a report about a job."""
    yield [StyledText(report.summary, f"bold {_STYLES.get(report.state, '')}".strip())]
    position = position_of(report.numbers)
    facts = f"namespace {report.namespace}, queue {report.queue}, phase {report.phase}"
    yield [StyledText(f"  {facts}" + (f", position {position} in queue" if position else ""), "dim")]
    if start := report.expected_start or report.estimated_start:
        yield [StyledText(f"  estimated start {start}", "dim")]
    yield from _section("Alternatives", report.alternatives)
    if report.gates:
        yield from _heading("Gates")
        width = max(len(row.name) for row in report.gates)
        for row in report.gates:
            mark, style = _MARKS[row.state]
            text = row.message or ("" if row.state is GateState.PASSED else row.state.value)
            yield [
                StyledText(f"  {mark} ", style),
                StyledText(row.name.ljust(width) + " "),
                StyledText(text, "" if row.state is GateState.BLOCKED else "dim"),
            ]
    if report.nodes:
        yield from _heading("Nodes rejected by")
        width = max(len(str(number)) for number in report.nodes.values())
        yield from ([StyledText(f"  {str(number).rjust(width)}  {reason}")] for reason, number in report.nodes.items())
    yield from _section("Blocked by", report.blocked_by)
    yield from _section("Starts with", report.starts_with)
    if report.unblocked_by and not report.starts_with:
        yield from _section("Unblocked by (not confirmed)", [report.unblocked_by])
    if reserved := report.numbers.get("reserved"):
        expected = report.numbers.get("expected")
        yield from _section("Reserved", [f"{reserved}{', expected start ' + expected if expected else ''}"])
    yield from _section("Tasks", report.tasks)
    yield from _pods(report.pods)
    yield from _section("Notes", report.notes)


def _pods(problems: Sequence[PodProblem]) -> Iterator[Line]:
    if not problems:
        return
    yield from _heading("Pods")
    for problem in problems:
        task = f' of task "{problem.task}"' if problem.task else ""
        yield [StyledText(f"  {counted(len(problem.names), 'pod')}{task} {problem.state}: {listed(problem.names)}")]
        if problem.message:
            yield [StyledText(f"    {problem.message}", "dim")]


def queue_lines(report: QueueReport) -> Iterator[Line]:
    """Return the lines of a report about a queue."""
    normal = report.stop_policy == "None" and report.state == "Open"
    yield [StyledText(report.summary, "bold" if normal else "bold yellow")]
    parents = f"parent {' < '.join(report.ancestors)}, " if report.ancestors else ""
    share = f", share {report.share}" if report.share else ""
    yield [StyledText(f"  {parents}state {report.state}, stop policy {report.stop_policy}{share}", "dim")]
    if report.resources:
        yield from _heading("Resources")
        yield from _resource_table(report.resources)
    yield from _section("Limited by", report.limited_by)
    counts = ", ".join(f"{number} {phase}" for phase, number in report.counts.items() if number)
    if counts:
        jobs = f"; {counted(report.jobs, 'unfinished BatchJob')}" if report.jobs else ""
        yield from _section("Pod groups", [counts + jobs])
    if report.gates:
        yield from _heading("Pending by gate")
        width = max(map(len, report.gates))
        yield from ([StyledText(f"  {gate.ljust(width)}  {number}")] for gate, number in report.gates.items())
    yield from _waiting(report.waiting)
    yield from _section("Notes", report.notes)


def _waiting(groups: Sequence[WaitingGroup]) -> Iterator[Line]:
    if not groups:
        return
    yield from _heading("Pending jobs")
    for group in groups[:_WAITING_SHOWN]:
        position = f"{group.position}. " if group.position else ""
        yield [
            StyledText(f"  {position}{group.namespace}/{group.name} [{group.gate}] "),
            StyledText(group.message, "dim"),
        ]
    if len(groups) > _WAITING_SHOWN:
        yield [StyledText(f"  and {len(groups) - _WAITING_SHOWN} more", "dim")]


def _resource_table(resources: Sequence[ResourceRow]) -> Iterator[Line]:
    columns = [name for name in _COLUMNS if any(getattr(row, name) for row in resources)]
    rows = [[getattr(row, name) or "-" for name in columns] for row in resources]
    for number, line in enumerate(plain_table([name.upper().replace("_", " ") for name in columns], rows).splitlines()):
        yield [StyledText(f"  {line}", "" if number else "bold")]


def _heading(text: str) -> Iterator[Line]:
    yield []
    yield [StyledText(text, "bold")]


def _section(title: str, lines: Sequence[str]) -> Iterator[Line]:
    if lines:
        yield from _heading(title)
        yield from ([StyledText(f"  {local_times(line)}")] for line in lines)
