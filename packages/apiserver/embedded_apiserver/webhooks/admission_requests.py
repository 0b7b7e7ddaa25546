"""Requests as admission sees them: which rules, selectors and conditions they match, and their AdmissionReview."""

from dataclasses import dataclass, field
from typing import Any, Self

from embedded_apiserver.context import Call
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.schema.cel_functions import cel
from embedded_apiserver.schema.expression_fields import Uses, used_fields, uses_of
from embedded_apiserver.schema.selectors import LabelSelector, label_selector_from_object
from embedded_apiserver.store.object_store import Body, Store

GROUP = "admissionregistration.k8s.io"
_VARIABLES = ("object", "oldObject", "request")
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
EVALUATION_ERRORS = (KeyError, IndexError, TypeError, ValueError, RuntimeError, ZeroDivisionError)
"""What evaluating a CEL expression may raise."""


class ConditionError(Exception):
    """A match condition that cannot be evaluated: its text is `matchCondition "name"`."""

    def __init__(self, name: str, reason: Exception) -> None:
        super().__init__(f'matchCondition "{name}"')
        self.reason = reason


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """The request that webhooks and policies decide about, with its object before and after."""

    call: Call
    operation: str
    body: Body | None
    old: Body | None
    gvk: tuple[str, str, str]

    @property
    def resource(self) -> str:
        """`pods` or `pods/status`."""
        sub = self.call.subresource
        return f"{self.call.kind.plural}/{sub}" if sub else self.call.kind.plural

    def variables(self, uses: Uses | None = None) -> dict[str, Any]:
        """The variables of CEL expressions about the request: with ``uses``, the fields that these expressions use."""
        variables = {"object": self.body, "oldObject": self.old, "request": review(self, "")["request"]}
        return variables if uses is None else used_fields(variables, uses)


@dataclass(frozen=True, slots=True)
class Matching:
    """Which requests a webhook or a policy is about: rules, selectors of namespaces and objects, conditions."""

    rules: tuple[Body, ...]
    excluded: tuple[Body, ...]
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: tuple[tuple[str, Any], ...]
    uses: Uses
    """The fields that the conditions use: handing a large object to CEL takes longer than evaluating a condition."""
    _known: dict[tuple[str, ...], bool] = field(default_factory=dict, compare=False, repr=False)
    """Whether a rule names the requests of an operation on a resource: few are different."""

    @classmethod
    def of_webhook(cls, source: Body) -> Self:
        """The matching of one webhook of a configuration."""
        return cls._of(source, source.get("rules") or (), source.get("matchConditions") or ())

    @classmethod
    def of_policy(cls, resources: Body, conditions: list[Body]) -> Self:
        """The matching of the `matchConstraints` of a policy or the `matchResources` of a binding."""
        return cls._of(resources, resources.get("resourceRules") or (), conditions)

    @classmethod
    def _of(cls, source: Body, rules: Any, conditions: Any) -> Self:
        return cls(
            tuple(rules),
            tuple(source.get("excludeResourceRules") or ()),
            label_selector_from_object(source.get("namespaceSelector") or {}),
            label_selector_from_object(source.get("objectSelector") or {}),
            tuple((condition["name"], cel.compile(condition["expression"])) for condition in conditions),
            uses_of([condition["expression"] for condition in conditions], _VARIABLES),
        )

    def matches(self, request: AdmissionRequest, store: Store) -> bool:
        """Whether rules and selectors name the request; the configuration of admission itself is never asked about."""
        kind = request.call.kind
        key = (request.operation, kind.group, kind.version, request.resource)
        named = self._known.get(key)
        if named is None:
            named = kind.group != GROUP and any(rule_matches(rule, request) for rule in self.rules)
            self._known[key] = named
        return named and self.selects(request, store)

    def selects(self, request: AdmissionRequest, store: Store) -> bool:
        """Whether the selectors match and no rule excludes the request."""
        if any(rule_matches(rule, request) for rule in self.excluded):
            return False
        if not self.objects.empty:
            bodies = [body for body in (request.body, request.old) if body is not None]
            if not any(self.objects.matches(body.get("metadata", {}).get("labels") or {}) for body in bodies):
                return False
        return self.namespaces.empty or self._namespace_matches(request, store)

    def _namespace_matches(self, request: AdmissionRequest, store: Store) -> bool:
        kind = request.call.kind
        if kind.bucket == "namespaces":
            body = request.body if request.body is not None else request.old
            return self.namespaces.matches((body or {}).get("metadata", {}).get("labels") or {})
        if not kind.namespaced:
            return True
        entry = store.bucket("namespaces").get("", request.call.namespace)
        return entry is not None and self.namespaces.matches(entry.labels)

    def conditions_hold(self, request: AdmissionRequest) -> bool:
        """Whether every condition is true; raises ConditionError for one that cannot be evaluated."""
        if not self.conditions:
            return True
        context = cel.Context(request.variables(self.uses))
        for name, program in self.conditions:
            try:
                held = program.execute(context)
            except EVALUATION_ERRORS as error:
                raise ConditionError(name, error) from None
            if held is not True:
                return False
        return True


def gvk_of(kind: Kind) -> tuple[str, str, str]:
    """Group, version and kind."""
    return kind.group, kind.version, kind.kind


def rule_matches(rule: Body, request: AdmissionRequest) -> bool:
    """Whether a rule (operations, groups, versions, resources, scope) names the request."""
    kind = request.call.kind

    def among(key: str, value: str) -> bool:
        allowed = rule.get(key) or ()
        return "*" in allowed or value in allowed

    if not (among("operations", request.operation) and among("apiGroups", kind.group)):
        return False
    if not among("apiVersions", kind.version):
        return False
    scope = rule.get("scope", "*")
    if scope != "*" and (scope == "Namespaced") is not kind.namespaced:
        return False
    plural, _, sub = request.resource.partition("/")
    for pattern in rule.get("resources") or ():
        resource, slash, subresource = pattern.partition("/")
        if resource in {"*", plural} and (subresource in {"*", sub} if slash else not sub):
            return True
    return False


def review(request: AdmissionRequest, uid: str) -> Body:
    """The AdmissionReview of a request, as webhooks get it and as expressions see it."""
    call, kind = request.call, request.call.kind
    group, version, name = request.gvk
    requested = {"group": group, "version": version, "kind": name}
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    body = request.body if request.body is not None else request.old or {}
    content: Body = {"uid": uid, "kind": requested, "resource": resource}
    if call.subresource:
        content["subResource"] = call.subresource
    content |= {"requestKind": requested, "requestResource": resource}
    if call.subresource:
        content["requestSubResource"] = call.subresource
    target = call.name or body.get("metadata", {}).get("name", "")
    if target:
        content["name"] = target
    if kind.namespaced:
        content["namespace"] = call.namespace
    elif kind.bucket == "namespaces":
        content["namespace"] = target
    options: Body = {"kind": _OPTIONS[request.operation], "apiVersion": "meta.k8s.io/v1"}
    for key in ("fieldManager", "fieldValidation"):
        if key in call.query and request.operation != "DELETE":
            options[key] = call.query[key]
    if call.dry:
        options["dryRun"] = ["All"]
    content |= {
        "operation": request.operation,
        "userInfo": call.user.info(),
        "object": request.body,
        "oldObject": request.old,
        "dryRun": call.dry,
        "options": options,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": content}
