"""Validation of HyperNodes: their members and tiers."""

from collections.abc import Iterator, Mapping

from volcanopy.admission.context import Context
from volcanopy.admission.request import Request, name_problems
from volcanopy.admission.response import as_warning
from volcanopy.api import graphs
from volcanopy.api.model import LabelSelector, Problem, duplicate, invalid, not_found, quoted, unsupported
from volcanopy.api.patterns import PatternError, searcher
from volcanopy.api.topology import HyperNode, Member
from volcanopy.api.topology_read import HyperNode as KnownHyperNode


def validate_hyper_node(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of a HyperNode that is created or updated."""
    hyper_node = request.read(HyperNode)
    yield from name_problems(request, (context.hyper_nodes or {}).get(hyper_node.metadata.name))
    hyper_nodes = context.hyper_nodes
    tree = graphs.hyper_node_graph(hyper_nodes or {})
    seen_members: set[str] = set()
    for number, member in enumerate(hyper_node.spec.members):
        path = f"spec.members[{number}].selector"
        yield from _selector(member, path)
        exact = member.selector.exact_match
        if exact is None:
            continue
        key = f"{member.type}/{exact.name}"
        if key in seen_members:
            yield duplicate(f"{path}.exactMatch.name", exact.name)
        seen_members.add(key)
        if member.type == "HyperNode":
            yield from _below(hyper_node, exact.name, f"{path}.exactMatch.name", hyper_nodes, tree)
    yield from _above(hyper_node, hyper_nodes or {}, tree)


def validate_hyper_node_deletion(request: Request, context: Context) -> Iterator[Problem]:
    """Yield a warning if other HyperNodes have the deleted one as a member."""
    tree = graphs.hyper_node_graph(context.hyper_nodes or {})
    if parents := graphs.parents(tree, request.name):
        yield as_warning(Problem("metadata.name", f'"{request.name}" is a member of HyperNode {quoted(parents)}'))


def _selector(member: Member, path: str) -> Iterator[Problem]:
    selector = member.selector
    if sum(match is not None for match in (selector.exact_match, selector.regex_match, selector.label_match)) != 1:
        yield Problem(path, "Invalid value: exactly one of exactMatch, regexMatch and labelMatch must be set")
    if member.type == "HyperNode" and selector.exact_match is None:
        yield Problem(path, "Invalid value: members of type HyperNode must be selected by exactMatch")
    if selector.regex_match is not None:
        pattern = selector.regex_match.pattern
        try:
            searcher(pattern)
        except PatternError as error:
            yield invalid(f"{path}.regexMatch.pattern", pattern[:200], f"must be a regular expression (RE2): {error}")
    if selector.label_match is not None:
        yield from _labels(selector.label_match, f"{path}.labelMatch")


def _labels(selector: LabelSelector, path: str) -> Iterator[Problem]:
    if not selector.match_labels and not selector.match_expressions:
        yield Problem(path, "Required value: an empty selector matches every node")
    for number, requirement in enumerate(selector.match_expressions):
        at, operator = f"{path}.matchExpressions[{number}]", requirement.operator
        if operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            yield unsupported(f"{at}.operator", operator, ("In", "NotIn", "Exists", "DoesNotExist"))
        elif operator in {"In", "NotIn"} and not requirement.values:
            yield Problem(f"{at}.values", f'Required value: must be set when operator is "{operator}"')
        elif operator not in {"In", "NotIn"} and requirement.values:
            yield Problem(f"{at}.values", f'Forbidden: must not be set when operator is "{operator}"')


def _below(
    hyper_node: HyperNode, name: str, path: str, hyper_nodes: Mapping[str, KnownHyperNode] | None, tree: graphs.Graph
) -> Iterator[Problem]:
    own_name, own_tier = hyper_node.metadata.name, hyper_node.spec.tier
    if name == own_name:
        yield invalid(path, name, "must not be the HyperNode itself")
        return
    if hyper_nodes is None:
        return
    if name not in hyper_nodes:
        yield as_warning(not_found(path, "HyperNode", name))
        return
    if (tier := hyper_nodes[name].spec.tier) >= own_tier:
        yield invalid(path, name, f"tier of a member ({tier}) must be less than the tier of the HyperNode ({own_tier})")
    if other_parents := [parent for parent in graphs.parents(tree, name) if parent != own_name]:
        detail = f"is a member of HyperNode {quoted(other_parents)} already: must be a member of one HyperNode only"
        yield as_warning(invalid(path, name, detail))


def _above(hyper_node: HyperNode, hyper_nodes: Mapping[str, KnownHyperNode], tree: graphs.Graph) -> Iterator[Problem]:
    for parent in graphs.parents(tree, hyper_node.metadata.name):
        if (tier := hyper_nodes[parent].spec.tier) <= hyper_node.spec.tier:
            detail = f'must be less than the tier of HyperNode "{parent}" ({tier}), which has it as a member'
            yield invalid("spec.tier", hyper_node.spec.tier, detail)
