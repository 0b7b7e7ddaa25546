"""ValidatingAdmissionPolicies: CEL expressions that every matching request must satisfy, evaluated where a binding selects it.

Parameters (`paramKind`) are not supported: such a policy is rejected when it is created. There is no `authorizer` variable.
"""

from dataclasses import dataclass
from typing import Any

from embedded_apiserver.schema.cel_functions import cel
from embedded_apiserver.status_errors import ApiError, forbidden
from embedded_apiserver.store.object_store import Body, Store
from embedded_apiserver.webhooks.admission_requests import (
    EVALUATION_ERRORS,
    GROUP,
    AdmissionRequest,
    ConditionError,
    Matching,
)

POLICIES = f"validatingadmissionpolicies.{GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{GROUP}"
POLICY_BUCKETS = frozenset({POLICIES, BINDINGS})
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


@dataclass(frozen=True, slots=True)
class _Validation:
    expression: str
    program: Any
    message: str
    message_program: Any
    reason: str


@dataclass(frozen=True, slots=True)
class _Policy:
    """A policy with its programs compiled."""

    name: str
    matching: Matching
    variables: tuple[tuple[str, Any], ...]
    validations: tuple[_Validation, ...]
    forgiving: bool


@dataclass(frozen=True, slots=True)
class _Binding:
    name: str
    policy: _Policy
    matching: Matching | None
    actions: frozenset[str]


class Policies:
    """The policies of one server with their bindings; `active` is false while no policy is bound."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bindings: list[_Binding] = []

    @property
    def active(self) -> bool:
        """Whether any policy is bound."""
        return bool(self._bindings)

    def read(self) -> None:
        """Compile the policies and bindings of the store."""
        policies = {}
        for entry in self._store.bucket(POLICIES).entries():
            policies[entry.body["metadata"]["name"]] = _policy(entry.body)
        self._bindings = [
            _binding(entry.body, policies[entry.body["spec"]["policyName"]])
            for entry in self._store.bucket(BINDINGS).entries()
            if entry.body["spec"]["policyName"] in policies
        ]

    def check(self, request: AdmissionRequest) -> None:
        """Raise the rejection of the first policy that is not satisfied; a binding that only warns adds a warning."""
        for binding in self._bindings:
            policy = binding.policy
            if not policy.matching.matches(request, self._store):
                continue
            if binding.matching is not None and not _bound(binding.matching, request, self._store):
                continue
            failure = self._failure(policy, request)
            if failure is None:
                continue
            message, reason = failure
            source = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
            if "Deny" in binding.actions:
                raise _rejection(request, f"{source} denied request: {message}", reason)
            if "Warn" in binding.actions:
                request.call.warnings.append(f"Validation failed for {source}: {message}")

    def _failure(self, policy: _Policy, request: AdmissionRequest) -> tuple[str, str] | None:
        """Message and reason of the first validation that does not hold; None if all do or the policy is not concerned."""
        try:
            if not policy.matching.conditions_hold(request):
                return None
            variables = self._variables(policy, request)
        except (ConditionError, *EVALUATION_ERRORS) as error:
            return None if policy.forgiving else (f"failed to evaluate the policy: {error}", "Invalid")
        for validation in policy.validations:
            try:
                if validation.program.execute(cel.Context(variables)) is True:
                    continue
            except EVALUATION_ERRORS as error:
                if policy.forgiving:
                    continue
                return f"expression '{validation.expression}' resulted in error: {error}", "Invalid"
            return _message(validation, variables), validation.reason
        return None

    def _variables(self, policy: _Policy, request: AdmissionRequest) -> dict[str, Any]:
        variables = request.variables()
        namespace = self._store.bucket("namespaces").get("", request.call.namespace)
        variables["namespaceObject"] = namespace.body if namespace is not None else None
        own: dict[str, Any] = {}
        variables["variables"] = own
        for name, program in policy.variables:
            own[name] = program.execute(cel.Context(variables))
        return variables


def _bound(matching: Matching, request: AdmissionRequest, store: Store) -> bool:
    """A binding without rules of its own narrows its policy by its selectors only."""
    return matching.matches(request, store) if matching.rules else matching.selects(request, store)


def _policy(body: Body) -> _Policy:
    spec = body["spec"]
    return _Policy(
        body["metadata"]["name"],
        Matching.of_policy(spec.get("matchConstraints") or {}, spec.get("matchConditions") or []),
        tuple((variable["name"], cel.compile(variable["expression"])) for variable in spec.get("variables") or ()),
        tuple(_validation(source) for source in spec.get("validations") or ()),
        spec.get("failurePolicy") == "Ignore",
    )


def _validation(source: Body) -> _Validation:
    message = source.get("messageExpression")
    return _Validation(
        source["expression"],
        cel.compile(source["expression"]),
        source.get("message") or "",
        cel.compile(message) if message else None,
        source.get("reason") or "Invalid",
    )


def _binding(body: Body, policy: _Policy) -> _Binding:
    spec = body["spec"]
    resources = spec.get("matchResources")
    matching = Matching.of_policy(resources, []) if resources else None
    return _Binding(body["metadata"]["name"], policy, matching, frozenset(spec.get("validationActions") or ("Deny",)))


def _message(validation: _Validation, variables: dict[str, Any]) -> str:
    if validation.message_program is not None:
        try:
            text = validation.message_program.execute(cel.Context(variables))
        except EVALUATION_ERRORS:
            text = ""
        if isinstance(text, str) and text.strip():
            return text
    return validation.message or f"failed expression: {validation.expression}"


def _rejection(request: AdmissionRequest, text: str, reason: str) -> ApiError:
    call = request.call
    body = request.body if request.body is not None else request.old or {}
    name = call.name or body.get("metadata", {}).get("name", "")
    base = forbidden(call.kind.plural, call.kind.group, name, text, causes=[{"message": text}])
    return ApiError(_CODES.get(reason, 422), reason, base.message, details=base.details)
