"""Plans are carried out in steps, so that the work on one object does not delay that on others.

1. A plan is cut: a step has at most so many writes, the others remain.
2. The number doubles with each step that takes less than a second, and is halved otherwise: it follows the server's speed.
3. After an error that concerns all writes, such as that of a used-up quota, the next step tries a single write.
4. What remains is continued until a change of the object needs another plan.
"""

from dataclasses import dataclass, field, replace
from itertools import takewhile

from volcanopy.jobcontroller.plan import JobPlan

MOST_WRITES = 500
"""Writes of a step."""
FIRST_WRITES = 48
"""Writes of the first step of an object."""
USUAL_SECONDS = 1.0
"""A step that takes longer is followed by a smaller one."""


@dataclass
class _Progress:
    writes: int = FIRST_WRITES
    remaining: JobPlan = field(default_factory=JobPlan)
    kind: type | None = None
    """The kind of the last effect of the latest step."""
    error: Exception | None = None
    replan_at: float = float("inf")

    def cut(self) -> JobPlan:
        """Return the next step."""
        step, self.remaining = self.remaining.cut(self.writes)
        self.kind = type(step.effects[-1]) if step.effects else None
        return step


class Steps:
    """The steps of the plans of objects, by key. Times are seconds of any clock."""

    def __init__(self) -> None:
        self._progress: dict[str, _Progress] = {}

    def begin(self, key: str, plan: JobPlan) -> JobPlan:
        """Return the first step of a new plan; it replaces what remains of another."""
        writes = self._progress[key].writes if key in self._progress else FIRST_WRITES
        self._progress[key] = progress = _Progress(writes, plan)
        return progress.cut()

    def changed(self, key: str, at: float) -> None:
        """Note that from then on a change of the object needs another plan."""
        if (progress := self._progress.get(key)) is not None:
            progress.replan_at = min(progress.replan_at, at)

    def next(self, key: str, now: float) -> JobPlan | None:
        """Return the next step of the plan; None if another plan is needed."""
        progress = self._progress.get(key)
        if progress is None or not progress.remaining.effects or now >= progress.replan_at:
            return None
        return progress.cut()

    def remain(self, key: str) -> bool:
        """Whether more steps follow."""
        return key in self._progress and bool(self._progress[key].remaining.effects)

    def done(self, key: str, seconds: float, error: Exception | None = None) -> None:
        """Note how long a step took.

        An error of single objects does not stop the work on others of the same kind, and is raised after the last step.
        """
        progress = self._progress[key]
        slow = seconds > USUAL_SECONDS
        progress.writes = max(progress.writes // 2, 1) if slow else min(progress.writes * 2, MOST_WRITES)
        effects = progress.remaining.effects
        progress.error = progress.error or error
        if progress.error is not None and effects:
            same = tuple(takewhile(lambda effect: type(effect) is progress.kind, effects))
            progress.remaining = replace(progress.remaining, effects=same)
        if progress.error is not None and not progress.remaining.effects:
            error, progress.error = progress.error, None
            raise error

    def stop(self, key: str, *, probe: bool) -> None:
        """Drop what remains of a plan after an error; with ``probe`` the next step tries a single write."""
        if (progress := self._progress.get(key)) is not None:
            progress.remaining, progress.error = JobPlan(), None
            if probe:
                progress.writes = 1

    def forget(self, key: str) -> None:
        """Drop what is remembered of an object that is gone."""
        self._progress.pop(key, None)
