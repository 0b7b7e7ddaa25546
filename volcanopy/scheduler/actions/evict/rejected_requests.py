"""Requests for which the plugins allow to evict no candidate at all: no victims are searched for them, or for larger ones."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from volcanopy.scheduler.model.resources import Ints, Mask

_BUILTIN = ("volcanopy.scheduler.policies.", "volcanopy.scheduler.engine.")
_ALLOW_LESS_FOR_MORE = frozenset({"Cdp", "Conformance", "Drf", "Gang", "Pdb", "Priority", "ShareRules"})
"""The built-in policies of which :func:`allow_less_for_more` is known."""


@lru_cache(maxsize=256)
def allow_less_for_more(policies: frozenset[type[object]]) -> bool:
    """Return whether these policies allow a task no more if it requests more, its job has more, or there are more candidates.

    They read nothing of its pod but the requests. A policy of a third party may decide by anything else.
    """
    return all(
        policy.__module__.startswith(_BUILTIN) and policy.__name__ in _ALLOW_LESS_FOR_MORE for policy in policies
    )


@dataclass(frozen=True, eq=False)
class RejectedRequest:
    """A request for which no candidate may be evicted."""

    values: Ints  # (R,).
    infeasible: Mask  # (N,): the nodes whose candidates were not considered.
    eligible: Sequence[bool]  # Which of the rules allow evictions for such a task at all.

    def includes(self, other: "RejectedRequest") -> bool:
        """Whether the other is at least as large, of the same resources, on no other nodes and by no other rules."""
        return (
            bool((other.values >= self.values).all())
            and bool(((other.values > 0) == (self.values > 0)).all())
            and all(mine or not theirs for mine, theirs in zip(self.eligible, other.eligible, strict=True))
            and bool((other.infeasible | ~self.infeasible).all())
        )


@dataclass
class RejectedRequests:
    """The rejected requests since the last eviction."""

    _shapes: set[Hashable] = field(default_factory=set)
    _requests: dict[Hashable, list[RejectedRequest]] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget all, after an eviction."""
        self._shapes.clear()
        self._requests.clear()

    def has_any(self, jobs: Hashable) -> bool:
        """Whether any request was rejected of jobs with this key of :func:`~.candidates.equivalence`."""
        return jobs in self._requests

    def has_shape(self, jobs: Hashable, shape: Hashable) -> bool:
        """Whether tasks of a shape were rejected, of such jobs."""
        return (jobs, shape) in self._shapes

    def has_smaller(self, jobs: Hashable, shape: Hashable, request: RejectedRequest) -> bool:
        """Whether a request of such jobs was rejected that is no larger; then so are all tasks of the shape."""
        is_rejected = any(other.includes(request) for other in self._requests.get(jobs, ()))
        if is_rejected:
            self._shapes.add((jobs, shape))
        return is_rejected

    def add(self, jobs: Hashable, shape: Hashable, request: RejectedRequest) -> None:
        """Add the request of a shape."""
        self._shapes.add((jobs, shape))
        self._requests.setdefault(jobs, []).append(request)
