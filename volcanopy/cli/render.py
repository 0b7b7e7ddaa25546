"""Tables and lines for terminals and pipes, made from objects."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = ("JOB", "PHASE", "RUNNING", "SUCCEEDED", "FAILED", "PODS", "QUEUE", "TIME", "REASON")
COLOURS = {
    "Pending": "yellow",
    "Running": "cyan",
    "Completed": "green",
    "Failed": "red",
    "Terminated": "red",
    "Aborted": "red",
}
ENDED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
"""Final phases of a job."""


class JobRow(NamedTuple):
    """A job as a row of a table; ``seconds`` is its age, or its duration once it has ended.

    ``message`` and ``reason`` are those of its state.
    """

    job: str
    phase: str
    running: int
    succeeded: int
    failed: int
    pods: int
    queue: str
    seconds: float
    message: str
    reason: str = ""

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.phase in ENDED

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the row."""
        job, phase, *numbers, queue, seconds, message, _ = self
        return (job, phase, *map(str, numbers), queue, f"{seconds:.0f}s", message)

    @property
    def line(self) -> str:
        """The line that is printed when it changes."""
        return f"{self.job} {self.phase}" + (f": {self.message}" if self.message else "")


def job_row(job: dict[str, Any], now: datetime) -> JobRow:
    """Return the row of a BatchJob at a moment."""
    metadata, spec, status = job["metadata"], job["spec"], job.get("status") or {}
    state = status.get("state") or {}
    phase = state.get("phase") or "Pending"
    end = now
    if phase in ENDED and state.get("lastTransitionTime"):
        end = datetime.fromisoformat(state["lastTransitionTime"])
    since = datetime.fromisoformat(metadata["creationTimestamp"])
    return JobRow(
        job=f"{metadata['namespace']}/{metadata['name']}",
        phase=phase,
        running=status.get("running", 0),
        succeeded=status.get("succeeded", 0),
        failed=status.get("failed", 0),
        pods=sum(task.get("replicas", 1) for task in spec["tasks"]),
        queue=spec.get("queue", "default"),
        seconds=max(0.0, (end - since).total_seconds()),
        message=state.get("message", ""),
        reason=state.get("reason", ""),
    )


def job_table(rows: Iterable[JobRow]) -> "Table":
    """Return the jobs as a table for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in HEADINGS:
        right = heading in {"RUNNING", "SUCCEEDED", "FAILED", "PODS", "TIME"}
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading != "REASON")
    for row in rows:
        cells = [Text(cell) for cell in row.cells]
        cells[1].stylize(COLOURS.get(row.phase, ""))
        table.add_row(*cells)
    return table


def plain_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table for pipes: aligned columns without colour and frame, nothing cut off."""
    lines = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(headings))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
