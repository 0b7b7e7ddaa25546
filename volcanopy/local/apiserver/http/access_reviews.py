"""Access reviews: everything is allowed in the embedded cluster, and a user is who the token names."""

from collections.abc import Mapping

from volcanopy.local.apiserver.connections import Response
from volcanopy.local.apiserver.context import Call, Context, User
from volcanopy.local.apiserver.store.object_store import Body
from volcanopy.local.apiserver.wire.decoding import read_object
from volcanopy.local.apiserver.wire.representation import object_response

_EVERYTHING: Body = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def review(ctx: Context, call: Call, tokens: Mapping[str, User]) -> Response:
    """Answer a review; it is not stored."""
    body = read_object(ctx, call)
    body["metadata"].setdefault("creationTimestamp", None)
    kind = call.kind.kind
    if kind == "SelfSubjectRulesReview":
        body["status"] = _EVERYTHING
    elif kind == "SelfSubjectReview":
        body["status"] = {"userInfo": call.user.info()}
    elif kind == "TokenReview":
        user = tokens.get((body.get("spec") or {}).get("token", ""))
        body["status"] = {"authenticated": True, "user": user.info()} if user is not None else {"user": {}}
    else:
        body["status"] = {"allowed": True, "reason": "the embedded API server forbids nothing"}
    return object_response(call, body, 201)
