"""Access reviews: what the rights of users allow, and whose a token is."""

from embedded_apiserver.connections import Response
from embedded_apiserver.context import Call, Context, User
from embedded_apiserver.http.authorization import Attributes
from embedded_apiserver.http.identity import Identities
from embedded_apiserver.store.object_store import Body
from embedded_apiserver.wire.decoding import read_object
from embedded_apiserver.wire.representation import object_response


def review(ctx: Context, call: Call, identities: Identities) -> Response:
    """Answer a review; it is not stored."""
    body = read_object(ctx, call)
    body["metadata"].setdefault("creationTimestamp", None)
    kind = call.kind.kind
    if kind == "SelfSubjectRulesReview":
        body["status"] = _rules(call, identities, (body.get("spec") or {}).get("namespace", ""))
    elif kind == "SelfSubjectReview":
        body["status"] = {"userInfo": call.user.info()}
    elif kind == "TokenReview":
        user = identities.owner_of((body.get("spec") or {}).get("token", ""))
        body["status"] = {"authenticated": True, "user": user.info()} if user is not None else {"user": {}}
    else:
        body["status"] = _verdict(call, identities, body.get("spec") or {})
    return object_response(call, body, 201)


def _rules(call: Call, identities: Identities, namespace: str) -> Body:
    rules = identities.authorizer.rules(call.user, namespace)
    pages = [rule for rule in rules if rule.get("nonResourceURLs")]
    return {
        "resourceRules": [rule for rule in rules if rule not in pages],
        "nonResourceRules": pages,
        "incomplete": False,
    }


def _verdict(call: Call, identities: Identities, spec: Body) -> Body:
    authorizer, user = identities.authorizer, call.user
    if not authorizer.enforced:
        return {"allowed": True, "reason": "the embedded API server forbids nothing"}
    if not call.kind.kind.startswith("Self"):
        user = User(spec.get("user", ""), tuple(spec.get("groups") or ()))
    asked = spec.get("resourceAttributes")
    if asked is None:
        page: Body = spec.get("nonResourceAttributes") or {}
        return {"allowed": authorizer.allows_page(user, page.get("verb", ""), page.get("path", ""))}
    resource = "/".join(part for part in (asked.get("resource", ""), asked.get("subresource", "")) if part)
    attributes = Attributes(
        user, asked.get("verb", ""), asked.get("group", ""), resource, asked.get("namespace", ""), asked.get("name", "")
    )
    return {"allowed": authorizer.allows(attributes)}
