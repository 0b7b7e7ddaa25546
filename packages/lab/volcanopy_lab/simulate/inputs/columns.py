"""Tables of traces: columns by any of their known names, values with the line that has a wrong one."""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from volcanopy_lab.simulate.workload import Job, WorkloadError


@dataclass
class Trace:
    """Jobs of a file, in any order, and notes on what was left out."""

    jobs: list[Job] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of jobs that were left out, by reason."""

    def leave_out(self, reason: str) -> None:
        """Count a job that is not simulated."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def all_notes(self) -> list[str]:
        """Return the notes, with the numbers of jobs that were left out."""
        return [
            *self.notes,
            *(
                f"{count} job{'' if count == 1 else 's'} left out: {reason}"
                for reason, count in sorted(self.left_out.items())
            ),
        ]


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    number: int
    values: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a value; empty if there is none."""
        return self.values.get(name, "").strip()

    def amount(self, name: str, absent: float = math.nan) -> float:
        """Return a number. Raises WorkloadError."""
        text = self.text(name)
        if not text or text.lower() in {"none", "nan", "null"}:
            return absent
        try:
            value = float(text)
        except ValueError:
            raise WorkloadError(f"line {self.number}: {name} must be a number, not {text!r}") from None
        return value if math.isfinite(value) else absent

    def given(self, name: str, value: float) -> float:
        """Return the value of a field that each job must have. Raises WorkloadError."""
        if not math.isfinite(value):
            raise WorkloadError(f"line {self.number}: {name} is missing")
        return value

    def time(self, name: str) -> float:
        """Return a time in seconds, from a number or a date such as ``2020-01-31 12:00:00``. Raises WorkloadError."""
        text = self.text(name)
        if not text or text.lower() in {"none", "nan", "null"}:
            return math.nan
        try:
            return float(text)
        except ValueError:
            pass
        try:
            date = datetime.fromisoformat(text)
        except ValueError:
            raise WorkloadError(
                f"line {self.number}: {name} must be seconds or a date such as 2020-01-31T12:00:00, not {text!r}"
            ) from None
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


@dataclass(frozen=True)
class TraceFormat:
    """The columns of a trace: for each field the names that it has, and which fields are required."""

    name: str
    columns: Mapping[str, tuple[str, ...]]
    required: tuple[tuple[str, ...], ...]
    """Alternatives for each: one of them must be there."""
    ignored: frozenset[str] = frozenset()

    def score(self, headings: Iterable[str]) -> int:
        """Return how many of the headings are known."""
        known = {name for names in self.columns.values() for name in names} | self.ignored
        return sum(heading in known for heading in headings)

    def lacking(self, headings: Sequence[str]) -> tuple[str, ...] | None:
        """Return the alternatives of the first required field without a column; None if there is none."""
        there = {field for field, names in self.columns.items() if any(name in headings for name in names)}
        return next((fields for fields in self.required if not there & set(fields)), None)


def rows(lines: Iterable[str], known: TraceFormat, trace: Trace) -> Iterator[Row]:
    """Yield the lines of a table with the fields of a format; unknown columns are noted. Raises WorkloadError."""
    reader = csv.reader(lines)
    headings = [heading.strip().lstrip("\ufeff") for heading in next(reader, [])]
    if (lacking := known.lacking(headings)) is not None:
        names = " or ".join(name for field in lacking for name in known.columns[field])
        there = ", ".join(headings)[:200]
        raise WorkloadError(f"no column {names}, which traces of {known.name} have; columns are {there or 'none'}")
    fields: dict[int, str] = {}
    for field_name, alternatives in known.columns.items():
        column = next((headings.index(name) for name in alternatives if name in headings), None)
        if column is not None:
            fields[column] = field_name
    unknown = [name for column, name in enumerate(headings) if column not in fields and name not in known.ignored]
    if unknown:
        trace.notes.append(f"unknown columns are not used: {', '.join(unknown)}")
    for values in reader:
        if values:
            yield Row(reader.line_num, {fields[at]: value for at, value in enumerate(values) if at in fields})


def from_beginning(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs by time of submission, of which the first is submitted at 0."""
    first = min((job.submit for job in jobs), default=0.0)
    return sorted((replace(job, submit=job.submit - first) for job in jobs), key=lambda job: (job.submit, job.name))
