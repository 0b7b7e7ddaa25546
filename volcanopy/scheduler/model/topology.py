"""The network as a forest of hypernodes, frozen for a snapshot.

A hypernode contains nodes or hypernodes of lower tiers. An additional root, TOP, contains every node, so that any two nodes
have a common ancestor and their distance is a tier.

A hypernode that contradicts another is ignored; its nodes and members are placed as if it did not exist. Errors are in
``faults``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from volcanopy.api import core, topology_read
from volcanopy.api.patterns import PatternError, searcher
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Ints, Mask, Rows, frozen, sums_by
from volcanopy.scheduler.model.selectors import matches

TOP = "<cluster>"
"""The name of the hypernode that contains everything; no object can have it."""
_NOTHING = -1


@dataclass(frozen=True, eq=False)
class HyperNodeTable:
    """H hypernodes in the order of their tiers and names over N nodes; the last one contains everything."""

    names: tuple[str, ...]
    tiers: Ints
    parent: Rows
    """(H,): its parent; -1 for the last."""
    of_node: Rows
    """(N,): the hypernode that a node is a member of."""
    tier_numbers: Mapping[str, int] = field(default_factory=dict)
    """The tiers that have a name."""
    faults: tuple[str, ...] = ()
    """Which HyperNodes take no part and why, a sentence each, by name."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def top(self) -> int:
        """The row of the hypernode that contains everything."""
        return len(self.names) - 1

    @cached_property
    def lines(self) -> tuple[Rows, ...]:
        """(H,): each one's row, its parent's and so on up to the top."""
        result: list[Rows] = [np.empty(0, dtype=np.intp)] * len(self)
        for row in range(self.top, -1, -1):  # a parent's row is larger than its members'
            above = result[self.parent[row]] if row != self.top else result[row]
            result[row] = np.concatenate([np.array([row], dtype=np.intp), above])
        return tuple(result)

    @cached_property
    def holds(self) -> Mask:
        """(H, H): whether the first is the second or stands above it."""
        table = np.zeros((len(self), len(self)), dtype=np.bool_)
        for row, line in enumerate(self.lines):
            table[line, row] = True
        return table

    @once
    def nodes(self, row: int) -> Rows:
        """The rows of the nodes below a hypernode."""
        return np.flatnonzero(self.holds[row, self.of_node])

    def common(self, rows: Iterable[int]) -> int:
        """The lowest hypernode that contains all of these; -1 of none."""
        result = _NOTHING
        for row in rows:
            if result == _NOTHING:
                result = int(row)
            elif not self.holds[result, row]:
                result = next(int(above) for above in self.lines[result] if self.holds[above, row])
        return result

    def spanned(self, nodes: Rows) -> int:
        """The lowest hypernode that contains all of these nodes; -1 of none."""
        return self.common(np.unique(self.of_node[nodes]).tolist())

    def widest(self, row: int, tier: int) -> int:
        """The highest hypernode that contains this one, or is it, and whose tier is at most ``tier``; -1 if there is none."""
        line = self.lines[row]
        allowed = line[self.tiers[line] <= tier]
        return int(allowed[-1]) if len(allowed) else _NOTHING

    def below(self, row: int, tier: int) -> Rows:
        """The hypernodes of tiers up to ``tier`` in this one, itself included, the lowest first."""
        return np.flatnonzero(self.holds[row] & (self.tiers <= tier))

    def by_tier(self, rows: Rows) -> list[Rows]:
        """Hypernodes in groups of one tier, the lowest first."""
        ordered = np.sort(rows)
        return [part for part in np.split(ordered, np.flatnonzero(np.diff(self.tiers[ordered])) + 1) if len(part)]

    def sums(self, amounts: Ints) -> Ints:
        """(R, H): (R, N) amounts of nodes, added up for each hypernode."""
        totals = sums_by(self.of_node, amounts, len(self))
        for rows in self._levels:
            np.add.at(totals.T, self.parent[rows], totals[:, rows].T)
        return totals

    @cached_property
    def _levels(self) -> list[Rows]:
        return self.by_tier(np.arange(self.top))


def without(count: int) -> HyperNodeTable:
    """The forest of ``count`` nodes whose network is unknown."""
    return HyperNodeTable(
        names=(TOP,),
        tiers=np.ones(1, dtype=np.int64),
        parent=np.full(1, _NOTHING, dtype=np.intp),
        of_node=np.zeros(count, dtype=np.intp),
    )


def forest(declared: Mapping[str, topology_read.HyperNode], nodes: Sequence[core.Node]) -> HyperNodeTable:
    """The forest that HyperNodes declare over nodes, which are in the order of their names."""
    return _ForestBuilder(declared, nodes).table()


def looks_at_labels(declared: Iterable[topology_read.HyperNode]) -> bool:
    """Whether labels of nodes decide the members of a hypernode."""
    return any(member.selector.label_match is not None for item in declared for member in item.spec.members)


def bound(topology: core.NetworkTopology | None, table: HyperNodeTable) -> int | None:
    """The highest tier that pods may span; None without a constraint, the top's where closeness is only preferred."""
    if topology is None:
        return None
    if topology.mode == "soft":
        return int(table.tiers[-1])
    if topology.highest_tier_allowed is not None:
        return topology.highest_tier_allowed
    return table.tier_numbers.get(topology.highest_tier_name)


def is_hard(topology: core.NetworkTopology | None, table: HyperNodeTable) -> bool:
    """Whether closeness is demanded, up to a tier that is known."""
    return topology is not None and topology.mode != "soft" and bound(topology, table) is not None


class _ForestBuilder:
    """One making of a forest: who claims what, who contradicts whom, and what is left."""

    def __init__(self, declared: Mapping[str, topology_read.HyperNode], nodes: Sequence[core.Node]) -> None:
        self._declared = {name: declared[name] for name in sorted(declared)}
        self._nodes = nodes
        self._rows = {node.metadata.name: row for row, node in enumerate(nodes)}
        self._faults: dict[str, str] = {}
        self._node_claims: dict[int, set[str]] = {}
        self._member_claims: dict[str, set[str]] = {}

    def table(self) -> HyperNodeTable:
        """The forest without those that contradict each other."""
        for name, item in self._declared.items():
            self._claim(name, item.spec)
        for row, claims in sorted(self._node_claims.items()):
            self._contested(f"node {self._nodes[row].metadata.name}", claims)
        for member, claims in sorted(self._member_claims.items()):
            self._contested(f"hypernode {member}", claims)
        kept = [name for name in self._declared if name not in self._faults]
        kept.sort(key=lambda name: (self._declared[name].spec.tier, name))
        return self._planted(kept)

    def _claim(self, name: str, spec: topology_read.HyperNodeSpec) -> None:
        rows: set[int] = set()
        members: set[str] = set()
        for member in spec.members:
            selector = member.selector
            if member.type == "HyperNode":
                if selector.exact_match is not None and selector.exact_match.name in self._declared:
                    members.add(selector.exact_match.name)
                continue
            try:
                rows |= self._selected(selector)
            except PatternError:
                pattern = "" if selector.regex_match is None else selector.regex_match.pattern
                self._faults[name] = f"its pattern {pattern!r} is not a regular expression"
                return
        higher = sorted(member for member in members if self._declared[member].spec.tier >= spec.tier)
        if higher:
            tier = self._declared[higher[0]].spec.tier
            self._faults[name] = f"it is of tier {spec.tier} and contains {higher[0]}, which is of tier {tier}"
            return
        for row in rows:
            self._node_claims.setdefault(row, set()).add(name)
        for member_name in members:
            self._member_claims.setdefault(member_name, set()).add(name)

    def _selected(self, selector: topology_read.MemberSelector) -> set[int]:
        if selector.exact_match is not None:
            row = self._rows.get(selector.exact_match.name)
            return set() if row is None else {row}
        if selector.regex_match is not None:
            matches_name = searcher(selector.regex_match.pattern)
            return {row for name, row in self._rows.items() if matches_name(name)}
        label_match = selector.label_match
        if label_match is None or not (label_match.match_labels or label_match.match_expressions):
            return set()  # an empty selector matches nothing, rather than everything
        return {row for row, node in enumerate(self._nodes) if matches(label_match, node.metadata.labels)}

    def _contested(self, what: str, claims: set[str]) -> None:
        if len(claims) > 1:
            listed = " and ".join(sorted(claims))
            for name in claims:
                self._faults.setdefault(name, f"{what} is claimed by {listed}")

    def _planted(self, kept: list[str]) -> HyperNodeTable:
        index = {name: row for row, name in enumerate(kept)}
        top = len(kept)
        parent = np.full(top + 1, top, dtype=np.intp)
        parent[top] = _NOTHING
        of_node = np.full(len(self._nodes), top, dtype=np.intp)
        for member, claims in self._member_claims.items():
            if member in index:
                parent[index[member]] = index.get(next(iter(claims)), top)
        for row, claims in self._node_claims.items():  # of several claims, all are faults
            of_node[row] = index.get(next(iter(claims)), top)
        tiers = [self._declared[name].spec.tier for name in kept]
        numbers: dict[str, int] = {}
        for item in self._declared.values():
            if item.spec.tier_name:
                numbers[item.spec.tier_name] = min(item.spec.tier, numbers.get(item.spec.tier_name, item.spec.tier))
        return HyperNodeTable(
            names=(*kept, TOP),
            tiers=np.array([*tiers, max(tiers, default=0) + 1], dtype=np.int64),
            parent=frozen(parent),
            of_node=frozen(of_node),
            tier_numbers=numbers,
            faults=tuple(f'hypernode "{name}" is ignored: {why}' for name, why in sorted(self._faults.items())),
        )
