"""ValidatingAdmissionPolicies of the embedded API server."""

from typing import Any

import pytest

from http_client import MAPS, PODS, Client, pod

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
CREATE_PODS = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["pods"]}


def policy(*validations: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "rule"},
        "spec": {"matchConstraints": {"resourceRules": [CREATE_PODS]}, "validations": list(validations), **spec},
    }


def binding(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "bound"}, "spec": {"policyName": "rule", "validationActions": ["Deny"], **spec}}


async def test_a_policy_denies_what_does_not_satisfy_it(client: Client) -> None:
    await client.create(POLICIES, policy({"expression": "object.metadata.name.startsWith('a')", "message": "no a"}))
    await client.create(PODS, pod("b0"))
    await client.create(BINDINGS, binding())
    await client.create(PODS, pod("a1"))
    code, status = await client.ask("POST", PODS, pod("b1"))
    assert (code, status["reason"]) == (422, "Invalid")
    text = "pods \"b1\" is forbidden: ValidatingAdmissionPolicy 'rule' with binding 'bound' denied request: no a"
    assert status["message"] == text
    await client.create(MAPS, {"metadata": {"name": "b"}})
    await client.delete(f"{BINDINGS}/bound")
    await client.create(PODS, pod("b2"))


async def test_the_reason_of_a_validation_is_that_of_the_answer(client: Client) -> None:
    await client.create(POLICIES, policy({"expression": "false", "reason": "Forbidden"}))
    await client.create(BINDINGS, binding())
    code, status = await client.ask("POST", PODS, pod("p"))
    assert (code, status["reason"]) == (403, "Forbidden")
    assert status["message"].endswith("denied request: failed expression: false")


async def test_variables_conditions_and_the_message_expression_are_evaluated(client: Client) -> None:
    validation = {"expression": "variables.size < 3", "messageExpression": "'size ' + string(variables.size)"}
    spec = {
        "variables": [{"name": "size", "expression": "object.spec.containers.size()"}],
        "matchConditions": [{"name": "named", "expression": "object.metadata.name != 'spared'"}],
    }
    await client.create(POLICIES, policy(validation, **spec))
    await client.create(BINDINGS, binding())
    await client.create(PODS, pod("small"))
    large = pod("large")
    large["spec"]["containers"] = [{"name": f"c{n}", "image": "i"} for n in range(3)]
    code, status = await client.ask("POST", PODS, large)
    assert (code, status["message"].rpartition(": ")[2]) == (422, "size 3")
    large["metadata"]["name"] = "spared"
    await client.create(PODS, large)


async def test_a_binding_that_warns_lets_the_request_pass(client: Client) -> None:
    await client.create(POLICIES, policy({"expression": "false", "message": "careful"}))
    await client.create(BINDINGS, binding(validationActions=["Warn"]))
    await client.create(PODS, pod("p"))
    text = "Validation failed for ValidatingAdmissionPolicy 'rule' with binding 'bound': careful"
    assert client.warnings == [f'299 - "{text}"']


async def test_a_binding_narrows_its_policy_by_namespace(client: Client) -> None:
    await client.create(POLICIES, policy({"expression": "false"}))
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    await client.create(BINDINGS, binding(matchResources={"namespaceSelector": selector}))
    await client.create(PODS, pod("p"))
    code, _ = await client.ask("POST", PODS.replace("default", "kube-system"), {**pod("p"), "metadata": {"name": "p"}})
    assert code == 422


@pytest.mark.parametrize(("failure_policy", "code"), [("Fail", 422), ("Ignore", 201)])
async def test_the_failure_policy_decides_about_an_expression_that_fails(
    client: Client, failure_policy: str, code: int
) -> None:
    await client.create(
        POLICIES, policy({"expression": "object.spec.missing.field == 1"}, failurePolicy=failure_policy)
    )
    await client.create(BINDINGS, binding())
    assert (await client.ask("POST", PODS, pod("p")))[0] == code


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"validations": [{"expression": "1 +"}]}, "spec.validations[0].expression"),
        ({"validations": []}, "spec.validations"),
        ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules"),
        ({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}, "spec.paramKind"),
    ],
)
async def test_a_policy_that_cannot_be_evaluated_is_rejected(client: Client, spec: dict[str, Any], field: str) -> None:
    body = policy({"expression": "true"})
    body["spec"] |= spec
    code, status = await client.ask("POST", POLICIES, body)
    assert (code, status["details"]["causes"][0]["field"]) == (422, field)
