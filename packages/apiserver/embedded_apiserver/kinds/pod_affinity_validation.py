"""Validation of the affinity of a pod: a real server rejects terms without requirements, and those that no scheduler can read.

The rules are those of Kubernetes' validation; `matchFields`, label keys of terms and namespaces are stored as sent.
"""

from collections.abc import Iterator

from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.schema.metadata_validation import faults_of, forbidden_field, qualified_faults, required, wrong
from embedded_apiserver.store.object_store import Body

_REQUIRED, _PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def affinity_faults(affinity: Body, path: str) -> Iterator[FieldError]:
    """What is wrong with a pod's affinity to nodes and pods."""
    yield from _node_faults(affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity")
    for key in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(key) or {}
        for index, term in enumerate(terms.get(_REQUIRED) or ()):
            yield from _pod_term_faults(term, f"{path}.{key}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(terms.get(_PREFERRED) or ()):
            here = f"{path}.{key}.{_PREFERRED}[{index}]"
            yield from _weight_faults(weighted, here)
            yield from _pod_term_faults(weighted.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")


def _node_faults(affinity: Body, path: str) -> Iterator[FieldError]:
    if (selector := affinity.get(_REQUIRED)) is not None:
        here = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        terms = selector.get("nodeSelectorTerms") or ()
        if not terms:
            yield required(here, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _expression_faults(term, f"{here}[{index}]", ("Gt", "Lt"))
    for index, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight_faults(weighted, here)
        yield from _expression_faults(weighted.get("preference") or {}, f"{here}.preference", ("Gt", "Lt"))


def _pod_term_faults(term: Body, path: str) -> Iterator[FieldError]:
    for key in ("labelSelector", "namespaceSelector"):
        yield from _expression_faults(term.get(key) or {}, f"{path}.{key}", ())
    topology = term.get("topologyKey") or ""
    if not topology:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from faults_of(f"{path}.topologyKey", topology, qualified_faults(topology))


def _weight_faults(weighted: Body, path: str) -> Iterator[FieldError]:
    weight = weighted.get("weight") or 0
    if not 1 <= weight <= 100:
        yield wrong(f"{path}.weight", weight, "must be in the range 1-100")


def _expression_faults(selector: Body, path: str, comparisons: tuple[str, ...]) -> Iterator[FieldError]:
    """What is wrong with the requirements of a selector, which may have these operators for numbers besides the usual ones."""
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        key, operator, values = (requirement.get(name) or "" for name in ("key", "operator", "values"))
        if operator in {"In", "NotIn"}:
            if not values:
                yield required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in {"Exists", "DoesNotExist"}:
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden_field(f"{here}.values", text)
        elif operator in comparisons:
            if len(values) != 1:
                yield required(f"{here}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        else:
            yield wrong(f"{here}.operator", operator, "not a valid selector operator")
        yield from faults_of(f"{here}.key", key, qualified_faults(key))
