"""Search for the smallest changes that let a job start, each confirmed by the engine.

1. Each kind of change is tried at its strongest, those that concern the job's gate first.
2. One that lets the gang start is narrowed: parts are left out, then the strength of each is bisected, until the change is
   enough and the next smaller one is not.
3. The result is applied once more as data, as a user would apply it, and kept only if the gang starts.
4. If no single change is enough, all are tried together and left out one by one. If the job does not start even with all of
   them, that is the proof that no change of it, of its queues and of nodes lets it start.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from volcanopy.api.gates import Gate
from volcanopy.api.model import Json
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.whatif.admission import new_problems
from volcanopy.whatif.changes import Change, Configure, Delete, Steps, as_data, perform, perform_data
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.engine import Budget, BudgetEndedError
from volcanopy.whatif.kinds import ManifestError
from volcanopy.whatif.remedies import constraints, jobs, missing, nodes, queues
from volcanopy.whatif.remedies.candidate import Candidate, Kind, Part, Question
from volcanopy.whatif.trials import Apply, Trials

KINDS: tuple[Kind, ...] = (
    queues.created_queues,
    queues.lifted_holds,
    missing.missing_objects,
    missing.missing_volumes,
    missing.missing_actions,
    jobs.resumed_job,
    jobs.own_scheduler,
    constraints.scheduling_gates,
    jobs.ended_jobs,
    missing.evicting_actions,
    queues.limits,
    queues.capabilities,
    queues.shares,
    jobs.quotas,
    nodes.more_nodes,
    nodes.new_nodes,
    constraints.network_topology,
    nodes.labelled_nodes,
    nodes.node_groups,
    constraints.node_constraints,
    nodes.schedulable_nodes,
    jobs.fewer_pods,
    jobs.smaller_requests,
    queues.other_queues,
)
"""The kinds of changes, in the order in which they are tried."""
_FIRST: dict[str, tuple[Kind, ...]] = {
    Gate.LIMITS: (queues.limits,),
    Gate.QUOTA: (jobs.quotas,),
    Gate.CAPABILITY: (queues.capabilities,),
    Gate.SHARE: (queues.shares,),
    Gate.TOPOLOGY: (constraints.network_topology,),
    Gate.NODES: (
        missing.missing_volumes,
        nodes.more_nodes,
        nodes.new_nodes,
        nodes.labelled_nodes,
        nodes.node_groups,
        constraints.node_constraints,
        nodes.schedulable_nodes,
    ),
    Gate.OVERCOMMIT: (nodes.more_nodes, nodes.new_nodes),
}
_COMBINED = 16
"""The most parts of a kind in a change of several kinds, and of jobs that end of which each is tried without."""
_ONCE = frozenset({"nodes", "queue"})
"""Kinds of which the first candidate that helps is enough."""
_REVIEWED = frozenset({"capability", "deserved", "guarantee", "weight", "limits", "hold"})
"""Kinds that change queues, in which the parts of the queues above come first."""


@dataclass(frozen=True)
class Remedy:
    """A confirmed change that lets a job start: a sentence, and the change as data."""

    kind: str
    text: str
    change: Change
    parts: tuple[str, ...] = ()

    def document(self) -> Json:
        """Return the remedy as JSON."""
        result: Json = {"text": self.text, "confirmed": True, "apply": list(self.change.apply)}
        result["delete"] = list(self.change.delete)
        return result | ({"configuration": self.change.configuration} if self.change.configuration else {})


class Search:
    """The search for one job. A search that is run again has to make only those trials that the budget did not allow before."""

    def __init__(self, trials: Trials, question: Question, alone: bool) -> None:
        """``alone``: whether the job starts when all others have ended."""
        self.trials, self.question, self.alone = trials, question, alone
        self.engine, self.budget = trials.engine, Budget(0)
        self._candidates: dict[Kind, Sequence[Candidate]] = {}
        self._enough: dict[tuple[Part, ...], bool] = {}
        """Whether the job starts with these parts."""
        self._accepted: dict[tuple[Part, ...], bool] = {}
        """Whether admission accepts these parts at their strongest."""

    def run(self, budget: Budget) -> tuple[tuple[Remedy, ...], bool]:
        """Return the remedies, single changes first by kind, and whether the search came to its end."""
        self.budget = budget
        remedies: list[Remedy] = []
        try:
            remedies.extend(self._singles())
            if not remedies and (combined := self._combined()) is not None:
                remedies.append(combined)
        except BudgetEndedError:
            return tuple(remedies), False
        return tuple(remedies), True

    def _kinds(self) -> Iterator[Kind]:
        first = _FIRST.get(self.question.gate, ())
        yield from first
        yield from (kind for kind in KINDS if kind not in first)

    def _of_kind(self, kind: Kind) -> Sequence[Candidate]:
        if kind not in self._candidates:
            self._candidates[kind] = kind(self.question)
        return self._candidates[kind]

    def _singles(self) -> Iterator[Remedy]:
        done: set[str] = set()
        for kind in self._kinds():
            for candidate in self._of_kind(kind):
                if candidate.kind in done & _ONCE:
                    continue
                parts = self._valid(candidate.parts) if candidate.kind in _REVIEWED else candidate.parts
                if candidate.kind == "end":
                    parts = self._most_useful(parts) if self.alone else ()
                elif len(parts) > _COMBINED:
                    parts = self._most_useful(parts[::-1])
                remedy = self._narrowed(candidate.kind, parts)
                if remedy is not None:
                    done.add(candidate.kind)
                    yield remedy

    def _combined(self) -> Remedy | None:
        """Return the remedy of several kinds of changes: what is left of all of them together.

        The job stays in its queue, unless it starts only in another one, and runs on nodes like the existing ones if possible.
        """
        parts: list[Part] = []
        for candidate in self._distinct():
            valid = self._valid(candidate.parts[:_COMBINED])
            if len(self._valid([*valid, *parts])) == len(valid) + len(parts):
                parts = [*valid, *parts]  # those of the later kinds come first
        candidates = (*self._of_kind(queues.moves), *self._of_kind(nodes.plain_nodes))
        attempts = (
            self._narrowed("several", [*parts, *more]) for more in ((), *(candidate.parts for candidate in candidates))
        )
        return next(filter(None, attempts), None)

    def _distinct(self) -> list[Candidate]:
        """Return one candidate of each kind in the job's queue: the first one, the widest of nodes, all objects to create."""
        candidates: dict[str, Candidate] = {}
        for kind in self._kinds():
            for candidate in self._of_kind(kind) if kind is not queues.other_queues else ():
                before = candidates.get(candidate.kind)
                if before is None or candidate.kind == "nodes":
                    candidates[candidate.kind] = candidate
                elif candidate.kind == "create":
                    candidates["create"] = Candidate("create", (*before.parts, *candidate.parts))
        return list(candidates.values())

    def _valid(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Return the parts, or the most of the first ones, that admission accepts at their strongest."""
        return next((parts[:size] for size in range(len(parts), 0, -1) if self._is_valid(tuple(parts[:size]))), ())

    def _is_valid(self, parts: tuple[Part, ...]) -> bool:
        if parts not in self._accepted:
            cluster = self.engine.cluster
            with cluster.trial():
                before = cluster.mark()
                # Admission never rejects a deletion.
                steps = (step for step in _steps(parts) if not isinstance(step, Delete))
                try:
                    perform(cluster, steps, self.engine.config)
                    self._accepted[parts] = not new_problems(cluster, before)
                except ManifestError:
                    self._accepted[parts] = False
        return self._accepted[parts]

    # Narrowing

    def _narrowed(self, kind: str, parts: Sequence[Part]) -> Remedy | None:
        """Return the remedy of parts that are enough together, none of which can be left out or weakened."""
        if not parts or not self._starts(parts):
            return None
        before: list[Part] = []
        narrowed = list(parts)
        while narrowed != before:
            before = narrowed
            if len(parts) <= _COMBINED or kind == "several":
                narrowed = self._without_excess(narrowed)
            for place, part in enumerate(narrowed):
                if part.most > 1:
                    narrowed = [*narrowed[:place], self._weakest(narrowed, place), *narrowed[place + 1 :]]
            if len(narrowed) == 1:
                break  # a part that stays alone is as weak as it can be
        return self._confirmed(kind, narrowed)

    def _most_useful(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Return the fewest of the first parts with which the job starts: first 1, 2, 4, ..., then bisected.

        The parts that are known to be too few stay applied, so that a part is not applied again for each trial.
        """
        few, applied, enough = 0, 0, 0
        with self.engine.cluster.trial():
            while not enough or enough - few > 1:
                if few == len(parts):
                    return ()
                size = (few + enough) // 2 if enough else min(max(2 * few, 1), len(parts))
                if self._known(parts[:size]) is None:
                    perform(self.engine.cluster, _steps(parts[applied:few]), self.engine.config)
                    applied = few
                if self._starts(parts[:size], applied):
                    enough = size
                else:
                    few = size
        return parts[:enough]

    def _without_excess(self, parts: list[Part]) -> list[Part]:
        """Return the parts without those that are not needed: one is left out, then 2, 4, ... as long as that is possible.

        Of parts that do the same, one is tried.
        """
        begin, size, effects = 0, 1, set[Hashable]()
        if self._known(parts[:-1]) is False:
            effects.add(parts[-1].effect())
        while begin < len(parts) and len(parts) > 1:
            rest, effect = parts[:begin] + parts[begin + size :], parts[begin].effect()
            is_needed = size == 1 and effect in effects - {None}
            if rest and not is_needed and self._starts(rest):
                parts, size = rest, 2 * size
            elif size > 1:
                size //= 2
            else:
                begin += 1
                effects.add(effect)
        return parts

    def _weakest(self, parts: Sequence[Part], place: int) -> Part:
        """Return a part in its weakest form that is enough, such that the next weaker form is not.

        Round amounts are tried first. Only if the form right below the weakest round one is enough too, those between the
        round amounts are.
        """
        part = parts[place]

        def is_enough(strength: int) -> bool:
            return self._starts([*parts[:place], part._replace(most=strength), *parts[place + 1 :]])

        if not is_enough(part.most - 1):
            return part
        low, high = bisected(
            0, -(-part.most // part.stride), lambda count: is_enough(min(count * part.stride, part.most))
        )
        low, high = low * part.stride, min(high * part.stride, part.most)
        if high - low > 1 and is_enough(high - 1):
            _, high = bisected(low, high - 1, is_enough)
        return part._replace(most=high)

    def _confirmed(self, kind: str, parts: Sequence[Part]) -> Remedy | None:
        """Return the remedy, if its data lets the job start."""
        engine, steps = self.engine, _steps(parts)
        change = as_data(engine.cluster, steps, engine.config)
        configured = [step for step in steps if isinstance(step, Configure)]

        def apply(cluster: Cluster) -> SchedulerConfig:
            perform_data(cluster, change)
            return perform(cluster, configured, engine.config)

        if not self._trial(apply):
            return None
        texts = tuple(part.text(part.most) for part in parts)
        return Remedy(kind, "; ".join(texts), change, texts)

    def _starts(self, parts: Sequence[Part], applied: int = 0) -> bool:
        """Return whether the job starts with these parts, of which the first ``applied`` are applied already."""
        starts, steps = self._known(parts), _steps(parts[applied:])
        if starts is None:
            starts = self._trial(lambda cluster: perform(cluster, steps, self.engine.config), _deletions(_steps(parts)))
            self._enough[tuple(parts)] = starts
        return starts

    def _known(self, parts: Sequence[Part]) -> bool | None:
        """Return whether the job starts with these parts, if that is known without a trial."""
        starts = self._enough.get(tuple(parts))
        if starts is None and (deletions := _deletions(_steps(parts))):
            starts = self.trials.starts_without(self.question.target.group, deletions)
        return starts

    def _trial(self, apply: Apply, deletions: frozenset[Delete] = frozenset()) -> bool:
        return self.trials.starts(self.question.target.group, apply, self.budget, deletions)


def bisected(low: int, high: int, is_enough: Callable[[int], bool]) -> tuple[int, int]:
    """Return neighbours between a number that is not enough and one that is: the lower is not, the higher is."""
    while high - low > 1:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return low, high


def _steps(parts: Sequence[Part]) -> Steps:
    return tuple(step for part in parts for step in part.steps(part.most))


def _deletions(steps: Steps) -> frozenset[Delete]:
    """Return the deletions of a change that only deletes; none for another one."""
    deletions = frozenset(step for step in steps if isinstance(step, Delete))
    return deletions if len(deletions) == len(steps) else frozenset()
