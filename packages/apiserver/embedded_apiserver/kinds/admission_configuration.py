"""The kinds that configure admission: webhooks, ValidatingAdmissionPolicies and their bindings."""

from collections.abc import Iterator
from typing import Any

from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.kinds.strategy import Strategy
from embedded_apiserver.schema.cel_functions import cel
from embedded_apiserver.schema.metadata_validation import forbidden_field, required, wrong
from embedded_apiserver.store.object_store import Body

_ACTIONS = ("Deny", "Warn", "Audit")


class WebhookStrategy(Strategy):
    """Webhook configurations: every default written out."""

    generation = True
    unconditional_update = False

    def default(self, body: Body) -> None:
        """What the real server writes into each webhook."""
        for hook in body.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if body.get("kind") == "MutatingWebhookConfiguration":
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = hook.get("clientConfig", {}).get("service")
            if service:
                service.setdefault("port", 443)

    def validate(self, body: Body) -> list[FieldError]:
        """The fields without which a webhook cannot be called."""
        faults: list[FieldError] = []
        for index, hook in enumerate(body.get("webhooks") or ()):
            path = f"webhooks[{index}]"
            if not hook.get("sideEffects"):
                faults.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
            if not hook.get("admissionReviewVersions"):
                text = "must specify one of v1, v1beta1"
                faults.append(required(f"{path}.admissionReviewVersions", text))
            client = hook.get("clientConfig") or {}
            if bool(client.get("url")) == bool(client.get("service")):
                faults.append(required(f"{path}.clientConfig", "exactly one of url or service is required"))
        return faults


class PolicyStrategy(Strategy):
    """ValidatingAdmissionPolicies: the defaults written out, every expression compiled."""

    generation = True

    def default(self, body: Body) -> None:
        """What the real server writes into a policy."""
        spec = body.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        _default_resources(spec.get("matchConstraints"))

    def validate(self, body: Body) -> list[FieldError]:
        """Expressions that do not compile, and what the embedded API server does not evaluate."""
        spec = body["spec"]
        faults: list[FieldError] = []
        if spec.get("paramKind"):
            faults.append(forbidden_field("spec.paramKind", "parameters are not supported by the embedded API server"))
        if not (spec.get("matchConstraints") or {}).get("resourceRules"):
            faults.append(required("spec.matchConstraints.resourceRules"))
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            text = "validations or auditAnnotations must contain at least one item"
            faults.append(required("spec.validations", text))
        for path, expression in _expressions(spec):
            try:
                cel.compile(expression)
            except ValueError as error:
                faults.append(wrong(path, expression, f"compilation failed: {error}"))
        return faults


class PolicyBindingStrategy(Strategy):
    """ValidatingAdmissionPolicyBindings."""

    generation = True

    def default(self, body: Body) -> None:
        """What the real server writes into a binding."""
        _default_resources(body.setdefault("spec", {}).get("matchResources"))

    def validate(self, body: Body) -> list[FieldError]:
        """A binding names its policy and at least one known action."""
        spec = body["spec"]
        faults: list[FieldError] = []
        if not spec.get("policyName"):
            faults.append(required("spec.policyName"))
        if spec.get("paramRef"):
            faults.append(forbidden_field("spec.paramRef", "parameters are not supported by the embedded API server"))
        actions = spec.get("validationActions") or ()
        if not actions:
            faults.append(required("spec.validationActions"))
        for index, action in enumerate(actions):
            if action not in _ACTIONS:
                faults.append(
                    wrong(f"spec.validationActions[{index}]", action, f"must be one of {', '.join(_ACTIONS)}")
                )
        return faults


def _default_resources(resources: Any) -> None:
    if isinstance(resources, dict):
        resources.setdefault("matchPolicy", "Equivalent")
        resources.setdefault("namespaceSelector", {})
        resources.setdefault("objectSelector", {})
        for rule in resources.get("resourceRules") or ():
            rule.setdefault("scope", "*")


def _expressions(spec: Body) -> Iterator[tuple[str, str]]:
    for index, validation in enumerate(spec.get("validations") or ()):
        yield f"spec.validations[{index}].expression", validation["expression"]
        if validation.get("messageExpression"):
            yield f"spec.validations[{index}].messageExpression", validation["messageExpression"]
    for key in ("matchConditions", "variables"):
        for index, part in enumerate(spec.get(key) or ()):
            yield f"spec.{key}[{index}].expression", part["expression"]
