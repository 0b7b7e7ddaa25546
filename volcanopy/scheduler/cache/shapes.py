"""Shapes: the equivalence classes of tasks that are equal in everything that scheduling reads.

Computed once per shape are the request (with init containers, sidecars and overhead, as in kube-scheduler), the affinity
and spread terms, and the selectors of the cluster that the pod matches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from volcanopy.api import core, names
from volcanopy.api.builtin import pod_claims
from volcanopy.api.builtin.pod_requests import pod_requests, resources_of
from volcanopy.scheduler.model import selectors
from volcanopy.scheduler.model.selectors import Spread, Term, Terms

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
NONZERO = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""The requests assumed for the score of containers without requests (kube-scheduler's values)."""


@dataclass
class Shape:
    """One shape: the request of its tasks and their terms about other pods."""

    spec: core.PodSpec
    namespace: str
    request: dict[str, int]
    nonzero: tuple[int, int]
    terms: Terms | None
    matched: frozenset[int]
    best_effort: bool = field(init=False)
    claims: bool = field(init=False)
    """Whether its tasks have claims, on volumes or on devices."""

    def __post_init__(self) -> None:
        self.claims = pod_claims.anything(self.spec)
        self.best_effort = not any(units for name, units in self.request.items() if name != "pods")


def request_of(spec: core.PodSpec, defaults: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the amounts of a node that a pod uses, in base units by resource, with one of ``pods``.

    ``defaults`` are the requests of a container that has none.
    """
    request = pod_requests(resources_of(spec), defaults or {})
    if any(names.part_of_device(name) for name in request):
        request = {name: units for name, units in request.items() if not names.part_of_device(name)}
    request["pods"] = 1
    return request


class Shapes:
    """All shapes by number, and the numbered selectors that their terms use."""

    def __init__(self) -> None:
        self.all: list[Shape] = []
        self.selectors: list[selectors.PodSelector] = []
        self._index = selectors.SelectorIndex()
        self._numbers: dict[bytes, int] = {}
        self._last: tuple[core.PodSpec | None, int] = (None, 0)
        """The last specification that has a shape without regard to the rest of the pod."""
        self._selector_numbers: dict[bytes, int] = {}

    def number(self, pod: core.Pod, namespaces: Mapping[str, core.Namespace]) -> int:
        """Return the number of a pod's shape; new shapes and the new selectors in its terms get numbers."""
        spec = pod.spec
        if spec is self._last[0] and not self.selectors:
            return self._last[1]
        terms = self._terms(pod) if has_terms(spec) else None
        matched = self.matched(pod, namespaces, self._index)
        volumes = pod_claims.kept(spec.volumes)
        bound_to_namespace = bool(volumes or spec.resource_claims)
        key = _ENCODE(
            (
                [(c.resources, c.image) for c in spec.containers],
                [(c.resources, c.restart_policy, c.image) for c in spec.init_containers],
                spec.host_ports,
                spec.overhead,
                spec.resources,
                spec.node_selector,
                spec.affinity and spec.affinity.node_affinity,
                spec.tolerations,
                pod.metadata.namespace if bound_to_namespace else "",
                volumes,
                spec.resource_claims,
                sorted(matched),
                terms and (terms.affinity, terms.anti_affinity, terms.preferred, terms.spread),
            )
        )
        known = self._numbers.get(key)
        if known is None:
            scored, request = request_of(spec, NONZERO), request_of(spec)
            known = self._numbers[key] = len(self.all)  # after what may fail
            self.all.append(
                Shape(
                    spec=spec,
                    namespace=pod.metadata.namespace if bound_to_namespace else "",
                    request=request,
                    nonzero=(scored.get("cpu", 0), scored.get("memory", 0)),
                    terms=terms,
                    matched=matched,
                )
            )
        if terms is None and not bound_to_namespace:  # then the shape follows from the specification alone
            self._last = (spec, known)
        return known

    def index(self, first: int) -> selectors.SelectorIndex:
        """Return the index of the selectors with numbers from ``first`` on."""
        return selectors.SelectorIndex(enumerate(self.selectors[first:], first)) if first else self._index

    def matched(
        self, pod: core.Pod, namespaces: Mapping[str, core.Namespace], index: selectors.SelectorIndex
    ) -> frozenset[int]:
        """Return the selectors in an index that match a pod."""
        candidates = index.candidates(pod, namespaces)
        return frozenset(number for number in candidates if self.selectors[number].matches(pod, namespaces))

    def _selector(self, selector: selectors.PodSelector) -> int:
        number = self._selector_numbers.setdefault(selector.key(), len(self.selectors))
        if number == len(self.selectors):
            self.selectors.append(selector)
            self._index.add(number, selector)
        return number

    def _terms(self, pod: core.Pod) -> Terms:
        affinity = pod.spec.affinity or core.Affinity()
        pod_affinity = affinity.pod_affinity or core.PodAffinity()
        anti_affinity = affinity.pod_anti_affinity or core.PodAffinity()
        preferred = [(term.weight, term.pod_affinity_term) for term in pod_affinity.preferred]
        preferred += [(-term.weight, term.pod_affinity_term) for term in anti_affinity.preferred]
        return Terms(
            affinity=tuple(self._term(term, pod) for term in pod_affinity.required),
            anti_affinity=tuple(self._term(term, pod) for term in anti_affinity.required),
            preferred=tuple(self._term(term, pod, weight) for weight, term in preferred),
            spread=tuple(self._spread(constraint, pod) for constraint in pod.spec.topology_spread_constraints),
        )

    def _term(self, term: core.PodAffinityTerm, pod: core.Pod, weight: int = 0) -> Term:
        return Term(self._selector(selectors.of_term(term, pod)), term.topology_key, weight)

    def _spread(self, constraint: core.TopologySpreadConstraint, pod: core.Pod) -> Spread:
        return Spread(
            selector=self._selector(selectors.of_spread(constraint, pod)),
            topology_key=constraint.topology_key,
            max_skew=constraint.max_skew,
            required=constraint.when_unsatisfiable == "DoNotSchedule",
            min_domains=constraint.min_domains or 1,
            honor_affinity=constraint.node_affinity_policy == "Honor",
            honor_taints=constraint.node_taints_policy == "Honor",
        )


def has_terms(spec: core.PodSpec) -> bool:
    """Whether a pod has affinity or topology spread terms about other pods."""
    affinity = spec.affinity
    return bool(spec.topology_spread_constraints) or (
        affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
    )
