"""A candidate for a remedy: parts that are applied together, each with a strength from 1 to ``most``."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from volcanopy.scheduler.model.plan import Explain
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.whatif.changes import Steps
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.target import Target


class Part(NamedTuple):
    """A part of a change: its strongest form is ``steps(most)``, ``text`` is its sentence.

    ``stride``: the strengths that give round amounts are its multiples. Parts of which ``effect`` returns equal values do the
    same: where one is needed, so are the others; None: there is no other like it.
    """

    most: int
    steps: Callable[[int], Steps]
    text: Callable[[int], str]
    stride: int = 1
    effect: Callable[[], Hashable] = lambda: None


@dataclass(frozen=True)
class Candidate:
    """Parts that may let a job start, all of one kind of change. Parts that should rather be left out come first."""

    kind: str
    parts: tuple[Part, ...]


class Question(NamedTuple):
    """What the kinds of changes are made for: a job that waits, with the scheduler's explanation if there is one."""

    cluster: Cluster
    config: SchedulerConfig
    target: Target
    explanation: Explain | None

    @property
    def gate(self) -> str:
        """The gate that the job does not pass, empty if it is unknown."""
        return self.explanation.gate if self.explanation is not None else ""


Kind = Callable[[Question], Sequence[Candidate]]


def single(steps: Steps, text: str, effect: Callable[[], Hashable] = lambda: None) -> Part:
    """Return a part without strength."""
    return Part(1, lambda _: steps, lambda _: text, effect=effect)
