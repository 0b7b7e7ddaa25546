"""Tokens of service accounts: issued by the subresource `token`, valid until they expire or their account is deleted.

They are random and live in the memory of the server: a restart ends them. Audiences are recorded in the response only.
"""

import secrets
from datetime import UTC, datetime, timedelta

from embedded_apiserver.connections import Response
from embedded_apiserver.context import Call, Context, User
from embedded_apiserver.status_errors import bad_request, not_found
from embedded_apiserver.store.object_store import Body, encode
from embedded_apiserver.wire.decoding import media, parse
from embedded_apiserver.wire.representation import respond

SHORTEST, USUAL = 600, 3600
"""Seconds: the shortest life of a token, and that of a request that names none."""


class IssuedTokens:
    """The tokens of service accounts by their text."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._tokens: dict[str, tuple[User, datetime, tuple[str, str, str]]] = {}

    def user_of(self, token: str) -> User | None:
        """The service account of a token that is valid."""
        if token not in self._tokens:
            return None
        user, end, (namespace, name, uid) = self._tokens[token]
        account = self._ctx.store.bucket("serviceaccounts").get(namespace, name)
        if account is None or account.uid != uid or _time(self._ctx) >= end:
            del self._tokens[token]
            return None
        return user

    def issue(self, call: Call) -> Response:
        """POST a TokenRequest: the same object with a token."""
        account = self._ctx.bucket(call.kind).get(call.namespace, call.name)
        if account is None:
            raise not_found(call.kind.plural, call.kind.group, call.name)
        body = parse(call.raw, media(call))
        if not isinstance(body, dict):
            raise bad_request("the body of token must be a TokenRequest")
        spec: Body = body.get("spec") or {}
        seconds = int(spec.get("expirationSeconds") or USUAL)
        if seconds < SHORTEST:
            raise bad_request(f"spec.expirationSeconds: may not specify a duration less than 10 minutes ({SHORTEST} s)")
        end = _time(self._ctx) + timedelta(seconds=seconds)
        token = secrets.token_urlsafe(32)
        if not call.dry:
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{call.namespace}", "system:authenticated")
            user = User(f"system:serviceaccount:{call.namespace}:{call.name}", groups, account.uid)
            self._tokens[token] = (user, end, (call.namespace, call.name, account.uid))
        made: Body = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": call.name, "namespace": call.namespace, "creationTimestamp": self._ctx.now()},
            "spec": {
                "audiences": spec.get("audiences") or ["https://kubernetes.default.svc"],
                "expirationSeconds": seconds,
            },
            "status": {"token": token, "expirationTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ")},
        }
        return respond(encode(made), 201, call.warnings)


def _time(ctx: Context) -> datetime:
    return datetime.fromisoformat(ctx.now()).astimezone(UTC)
