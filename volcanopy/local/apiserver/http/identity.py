"""Who asks: bearer tokens, and the impersonation headers of administrators."""

from collections.abc import Mapping

from volcanopy.local.apiserver.connections import Request
from volcanopy.local.apiserver.context import ADMIN, User
from volcanopy.local.apiserver.status_errors import ApiError

_EXTRA = "impersonate-extra-"


class Identities:
    """The known tokens. Where none is required (plain HTTP on loopback), a request without one is the administrator's."""

    def __init__(self, admin_token: str, users: Mapping[str, User], *, required: bool) -> None:
        self.admin_token = admin_token
        self.tokens: dict[str, User] = {admin_token: ADMIN, **users}
        self._required = required

    def user_of(self, request: Request) -> User:
        """The user that the request speaks for; 401 for an unknown token, or for none where one is required."""
        given = request.header("authorization")
        user: User | None = ADMIN
        if given is not None:
            scheme, _, token = given.partition(" ")
            user = self.tokens.get(token.strip()) if scheme.lower() == "bearer" else None
            if user is None and not self._required:
                user = ADMIN
        elif self._required:
            user = None
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        name = request.header("impersonate-user")
        return user if name is None else _impersonated(request, name)


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
