"""Errors of commands: one sentence for the user, with the exit status."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volcanopy.kube.client.errors import ApiError

_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)


class CommandError(Exception):
    """The message for the user, and the exit status: 1 for a failure, 2 for wrong usage."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def cluster_error(fault: BaseException) -> CommandError | None:
    """Return the error for a failed request to the cluster; None for a fault of the program."""
    from volcanopy.kube.client import errors  # noqa: PLC0415 - many commands need no cluster

    match fault:
        case errors.Forbidden():
            return CommandError(_forbidden(fault))
        case errors.Unauthorized():
            return CommandError("the cluster rejected these credentials: renew them, or choose another --context")
        case errors.NotFound() if not (fault.details and fault.details.name):
            return CommandError(not_served())
        case errors.Conflict():
            return CommandError(f"{_short(fault)}: the object was changed at the same time, try again")
        case errors.NotFound() | errors.AlreadyExists():
            return CommandError(_short(fault))
        case errors.ApiError():
            return CommandError(f"rejected by the cluster: {_short(fault)}")
        case errors.NoAnswer():
            return CommandError(f"{fault}; check that the cluster is running, and --context and --kubeconfig")
        case errors.KubeError():
            return CommandError(str(fault))
    return None


def first_of(fault: BaseException) -> BaseException:
    """Return the first error of a group at any depth, or the error itself."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault


def not_served(resource: str = "this resource") -> str:
    """Return the message for a cluster without one of our kinds."""
    return (
        f"the cluster does not serve {resource}: install volcanopy there "
        "(the definitions alone: volcanopy crd | kubectl apply --server-side -f -)"
    )


def is_forbidden(message: str) -> bool:
    """Return whether a message of the API server is that of a user without the permission."""
    return _FORBIDDEN.search(message) is not None


def _forbidden(fault: "ApiError") -> str:
    match = _FORBIDDEN.search(fault.message)
    if not match:
        return f"rejected by the cluster: {_short(fault)}"
    resource = ".".join(part for part in (match["resource"], match["group"]) if part)
    where = f' in namespace "{match["namespace"]}"' if match["namespace"] else ""
    return (
        f'forbidden: user "{match["user"]}" cannot {match["verb"]} {resource}{where}; '
        "request a role that allows it from your administrator"
    )


def _short(fault: "ApiError") -> str:
    """Return the server's message in one line, without the prefix of an admission webhook."""
    text = " ".join(fault.message.split()) or str(fault)
    text = text.replace("<nil>: ", "")  # what API servers print for a rule about the whole object
    _, prefix, message = text.partition("denied the request: ")
    return message if prefix else text
