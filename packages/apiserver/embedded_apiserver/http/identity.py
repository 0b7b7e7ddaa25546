"""Who asks: bearer tokens, and the impersonation headers of administrators."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from urllib.parse import urlsplit

from embedded_apiserver.connections import Request
from embedded_apiserver.context import ADMIN, User
from embedded_apiserver.http.authorization import Authorizer
from embedded_apiserver.http.token_requests import IssuedTokens
from embedded_apiserver.status_errors import ApiError

_EXTRA = "impersonate-extra-"


class Identities:
    """The known tokens. Where none is required (plain HTTP on loopback), a request without one is the administrator's."""

    def __init__(
        self,
        admin_token: str,
        users: Mapping[str, User],
        authorizer: Authorizer,
        issued: IssuedTokens,
        *,
        required: bool,
    ) -> None:
        self.authorizer, self.issued = authorizer, issued
        self.admin_token = admin_token
        self._tokens: dict[str, User] = {admin_token: ADMIN, **users}
        self._required = required

    def requiring_tokens(self) -> Identities:
        """The same tokens, of which every request needs one."""
        other = copy(self)
        other._required = True
        return other

    def owner_of(self, token: str) -> User | None:
        """The user of a token; None for one that is unknown or has expired."""
        return self._tokens.get(token) or self.issued.user_of(token)

    def user_of(self, request: Request) -> User:
        """The user that the request speaks for; 401 for an unknown token, or for none where one is required."""
        if not self._required:
            _check_site(request)
        given = request.header("authorization")
        user: User | None = ADMIN
        if given is not None:
            scheme, _, token = given.partition(" ")
            user = self.owner_of(token.strip()) if scheme.lower() == "bearer" else None
            if user is None and not self._required:
                user = ADMIN
        elif self._required:
            user = None
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        name = request.header("impersonate-user")
        if name is None:
            return user
        impersonated = _impersonated(request, name)
        self.authorizer.check_impersonation(user, impersonated)
        return impersonated


def _check_site(request: Request) -> None:
    """Reject what a browser sends for a page of another site; no token protects the server from it.

    The host must be an address or localhost: a page whose own name has been resolved to this machine names itself.
    """
    host = request.header("host") or ""
    name = _host_name(host)
    if host and not _is_local_name(name):
        raise ApiError(403, "Forbidden", f'host "{name}" is not an address or localhost: use the URL of the kubeconfig')
    origin = request.header("origin")
    foreign = request.header("sec-fetch-site") in {"cross-site", "same-site"}
    if foreign or (origin is not None and urlsplit(origin).netloc != host):
        raise ApiError(403, "Forbidden", "requests of other web sites are not answered")


@lru_cache(maxsize=64)
def _host_name(host: str) -> str:
    return urlsplit(f"//{host}").hostname or ""


@lru_cache(maxsize=64)
def _is_local_name(name: str) -> bool:
    """Whether this is an address or a name that always means this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _impersonated(request: Request, name: str) -> User:
    groups = [value for key, value in request.headers() if key == "impersonate-group"]
    extra: dict[str, list[str]] = {}
    for key, value in request.headers():
        if key.startswith(_EXTRA):
            extra.setdefault(key[len(_EXTRA) :], []).append(value)
    if "system:authenticated" not in groups and name != "system:anonymous":
        groups = [*groups, "system:authenticated"]
    return User(
        name,
        tuple(groups),
        request.header("impersonate-uid") or "",
        tuple((key, tuple(values)) for key, values in extra.items()),
    )
