"""Combination of the results of several plugins: Volcano's rules, by name.

Plugins are in tiers. ``Tiers`` contains, for one hook, the bound methods of the plugins that implement it, tier by tier, in
the order of the configuration file.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.policy.plugin import ABSTAIN, PERMIT, Vote

Method = Callable[..., Any]
Tiers = tuple[tuple[Method, ...], ...]


def flat(tiers: Tiers) -> tuple[Method, ...]:
    """Return all methods, in order."""
    return tuple(method for tier in tiers for method in tier)


def lexicographic(tiers: Tiers) -> Method:
    """A tuple of keys, or of arrays of keys: the first that differs decides."""
    methods = flat(tiers)
    return lambda *asked: tuple([method(*asked) for method in methods])


def first(tiers: Tiers) -> Method:
    """The first result that is not None."""
    methods = flat(tiers)

    def ask(*asked: Any) -> Any:
        for method in methods:
            answer = method(*asked)
            if answer is not None:
                return answer
        return None

    return ask


def vote(tiers: Tiers) -> Method:
    """The first rejection decides; a tier that permits ends the vote; without votes the result is to permit.

    After a rejection that yields the remaining plugins are still asked: one that does not yield has precedence.
    """
    tiers = tuple(filter(None, tiers))

    def ask(*asked: Any) -> Vote:
        permitted = False
        yielding: Vote | None = None
        for tier in tiers:
            for method in tier:
                answer: Vote = method(*asked)
                if answer.value < 0 and not answer.yields:
                    return answer
                if answer.value < 0:
                    yielding = yielding or answer
                permitted = permitted or answer.value > 0
            if permitted and yielding is None:
                return PERMIT
        return yielding or ABSTAIN

    return ask


def victims(votes: Tiers, protect: Method, purpose: Any) -> Method:
    """The victims that all policies of a tier allow, in the order of the first; the first tier that leaves any decides.

    A policy that allows none makes its tier allow none. ``protect`` filters the victims of every tier.
    """

    def ask(preemptor: Any, candidates: Sequence[Any]) -> list[Any]:
        for tier in votes:
            agreed: list[Any] | None = None
            for method in tier:
                allowed = method(preemptor, candidates, purpose)
                if allowed is None:
                    continue
                rows = set() if agreed is None else {candidate.row for candidate in allowed}
                agreed = list(allowed) if agreed is None else [victim for victim in agreed if victim.row in rows]
                if not agreed:
                    break
            if agreed:
                agreed = protect(preemptor, agreed)
            if agreed:
                return agreed
        return []

    return ask


def unprotected(protections: tuple[Method, ...], purpose: Any) -> Method:
    """The victims that every policy leaves of what those before it left."""

    def ask(preemptor: Any, candidates: Sequence[Any]) -> list[Any]:
        victims = list(candidates)
        for method in protections:
            victims = list(method(preemptor, victims, purpose))
        return victims

    return ask


def union(tiers: Tiers) -> Method:
    """The rows that any plugin of a tier selects, without duplicates; the first tier that selects any decides."""

    def ask(candidates: Rows) -> Rows:
        for tier in tiers:
            named = np.unique(np.concatenate([method(candidates) for method in tier]))
            if len(named):
                return named
        return np.empty(0, dtype=np.intp)

    return ask


def rejections(tiers: Tiers) -> Method:
    """Every rejection of every plugin."""
    methods = flat(tiers)
    return lambda *asked: [rejection for method in methods for rejection in method(*asked)]


def block_total(tiers: Tiers) -> Method:
    """The (S, N) sum of the scores of S tasks on N nodes; zeros without any answer."""
    methods = flat(tiers)

    def ask(tasks: Sequence[Any], nodes: Sequence[Any]) -> Any:
        scores = np.zeros((len(tasks), len(nodes)), dtype=np.float64)
        for method in methods:
            scores += method(tasks, nodes)
        return scores

    return ask


def merged(tiers: Tiers) -> Method:
    """All entries of the mappings; of two with one key the earlier plugin's."""
    methods = flat(tiers)[::-1]
    return lambda *asked: {key: entry for method in methods for key, entry in method(*asked).items()}
