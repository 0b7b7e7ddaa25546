"""What is wrong with a HyperNode: what it holds, and how its tier stands to theirs."""

import re
from collections.abc import Iterator, Mapping

from volcanopy.admission.context import Context
from volcanopy.admission.request import Request
from volcanopy.admission.verdict import Warned
from volcanopy.api.meta import LabelSelector
from volcanopy.api.model import InvalidObjectError, Problem
from volcanopy.api.topology import HyperNode, Member
from volcanopy.api.topology_read import HyperNode as KnownHyperNode


def hyper_node_problems(request: Request, context: Context) -> Iterator[Problem | Warned]:
    """Everything that is wrong with a HyperNode that is made or changed."""
    try:
        found = HyperNode.read(request.object or {}, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    known = context.hyper_nodes
    seen: set[str] = set()
    for number, member in enumerate(found.spec.members):
        path = f"spec.members[{number}].selector"
        yield from _selector(member, path)
        exact = member.selector.exact_match
        if exact is None:
            continue
        key = f"{member.type}/{exact.name}"
        if key in seen:
            yield Problem(f"{path}.exactMatch.name", f"{member.type} {exact.name!r} is there already")
        seen.add(key)
        if member.type == "HyperNode":
            yield from _below(found, exact.name, f"{path}.exactMatch.name", known)
    yield from _above(found, known or {})


def hyper_node_deletion_doubts(request: Request, context: Context) -> Iterator[Warned]:
    """A HyperNode that others hold can go: they hold less then, which is said."""
    holders = sorted(_holders(request.name, context.hyper_nodes or {}))
    if holders:
        yield Warned(
            Problem("metadata.name", f"HyperNode {', '.join(holders)} holds {request.name!r}, and no more then")
        )


def _selector(member: Member, path: str) -> Iterator[Problem]:
    selector = member.selector
    given = {
        "exactMatch": selector.exact_match is not None,
        "regexMatch": selector.regex_match is not None,
        "labelMatch": selector.label_match is not None,
    }
    if sum(given.values()) != 1:
        yield Problem(
            path, "a member is selected in exactly one way: give one of exactMatch, regexMatch and labelMatch"
        )
    if member.type == "HyperNode" and not given["exactMatch"]:
        yield Problem(path, "a HyperNode holds other HyperNodes by name: use exactMatch")
    if selector.regex_match is not None:
        try:
            re.compile(selector.regex_match.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            yield Problem(f"{path}.regexMatch.pattern", f"{selector.regex_match.pattern!r} is no pattern: {error}")
    if selector.label_match is not None:
        yield from _labels(selector.label_match, f"{path}.labelMatch")


def _labels(selector: LabelSelector, path: str) -> Iterator[Problem]:
    if not selector.match_labels and not selector.match_expressions:
        yield Problem(path, "is empty and would select every node: name a label")
    for number, one in enumerate(selector.match_expressions):
        at = f"{path}.matchExpressions[{number}]"
        if one.operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            yield Problem(f"{at}.operator", f"{one.operator!r}: choose from In, NotIn, Exists, DoesNotExist")
        elif (one.operator in {"In", "NotIn"}) != bool(one.values):
            need = "needs values" if one.operator in {"In", "NotIn"} else "takes no values"
            yield Problem(f"{at}.values", f"operator {one.operator} {need}")


def _below(
    found: HyperNode, name: str, path: str, known: Mapping[str, KnownHyperNode] | None
) -> Iterator[Problem | Warned]:
    own = found.metadata.name
    if name == own:
        yield Problem(path, "a HyperNode cannot hold itself")
        return
    if known is None:
        return
    if name not in known:
        yield Warned(Problem(path, f"there is no HyperNode {name!r} yet"))
        return
    if (tier := known[name].spec.tier) >= found.spec.tier:
        told = f"HyperNode {name!r} has tier {tier}: what is held has a lower tier than its holder, which has {found.spec.tier}"
        yield Problem(path, told)
    others = sorted(set(_holders(name, known)) - {own})
    if others:
        yield Warned(
            Problem(path, f"HyperNode {name!r} is held by {', '.join(others)} already: it can be in one place only")
        )


def _above(found: HyperNode, known: Mapping[str, KnownHyperNode]) -> Iterator[Problem]:
    for holder in sorted(_holders(found.metadata.name, known)):
        if known[holder].spec.tier <= found.spec.tier:
            told = f"HyperNode {holder!r}, which holds this one, has tier {known[holder].spec.tier}: give a lower one"
            yield Problem("spec.tier", told)


def _holders(name: str, known: Mapping[str, KnownHyperNode]) -> Iterator[str]:
    for holder, one in known.items():
        for member in one.spec.members:
            exact = member.selector.exact_match
            if member.type == "HyperNode" and exact is not None and exact.name == name:
                yield holder
                break
