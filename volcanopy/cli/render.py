"""How things look on a terminal, and in a pipe: tables and lines made from objects, nothing else."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = ("JOB", "PHASE", "RUNNING", "SUCCEEDED", "FAILED", "PODS", "QUEUE", "TIME", "WHY")
COLOURS = {
    "Pending": "yellow",
    "Running": "cyan",
    "Completed": "green",
    "Failed": "red",
    "Terminated": "red",
    "Aborted": "red",
}
ENDED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
"""Phases in which a job stays unless somebody acts."""


class JobRow(NamedTuple):
    """A job as a table shows it; ``seconds`` is its age, or how long it took once it has ended.

    ``why`` is the sentence and ``reason`` the word for why it stands there.
    """

    job: str
    phase: str
    running: int
    succeeded: int
    failed: int
    pods: int
    queue: str
    seconds: float
    why: str
    reason: str = ""

    @property
    def ended(self) -> bool:
        """Whether the job has come to its end, good or bad."""
        return self.phase in ENDED

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of its columns."""
        job, phase, *numbers, queue, seconds, why, _ = self
        return (job, phase, *map(str, numbers), queue, f"{seconds:.0f}s", why)

    @property
    def line(self) -> str:
        """What is said when it changes: the phase, and why."""
        return f"{self.job} {self.phase}" + (f": {self.why}" if self.why else "")


def job_row(job: dict[str, Any], now: datetime) -> JobRow:
    """A BatchJob as the API server has it, at a moment."""
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
        why=state.get("message", ""),
        reason=state.get("reason", ""),
    )


def job_table(rows: Iterable[JobRow]) -> "Table":
    """The jobs as a table for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in HEADINGS:
        right = heading in {"RUNNING", "SUCCEEDED", "FAILED", "PODS", "TIME"}
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading != "WHY")
    for row in rows:
        cells = [Text(cell) for cell in row.cells]
        cells[1].stylize(COLOURS.get(row.phase, ""))
        table.add_row(*cells)
    return table


def plain_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as a pipe wants them: no colour, no frame, nothing cut off."""
    lines = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(headings))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
