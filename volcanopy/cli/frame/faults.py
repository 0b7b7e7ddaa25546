"""What the cluster refused, or why it could not be asked, as one sentence with what can be done about it."""

import re

from volcanopy.cli.errors import Stop
from volcanopy.kube.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    KubeError,
    NoAnswer,
    NoCluster,
    NotFound,
    Unauthorized,
)

_CANNOT = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<what>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)


def told(fault: BaseException) -> Stop | None:
    """The sentence and the exit status for a fault of the cluster; None for a fault of ours."""
    if isinstance(fault, Forbidden):
        return Stop(_forbidden(fault))
    if isinstance(fault, Unauthorized):
        return Stop("the cluster does not accept these credentials: renew them, or choose another --context")
    if isinstance(fault, NotFound) and not (fault.details and fault.details.name):
        return Stop(unserved())
    if isinstance(fault, Conflict):
        return Stop(f"{_short(fault)}: somebody changed it at the same moment, try again")
    if isinstance(fault, (NotFound, AlreadyExists)):
        return Stop(_short(fault))
    if isinstance(fault, ApiError):
        return Stop(f"the cluster refuses: {_short(fault)}")
    if isinstance(fault, NoAnswer):
        return Stop(f"{fault}; is the cluster running, and are --context and --kubeconfig the right ones?")
    if isinstance(fault, NoCluster):
        return Stop(str(fault))
    return Stop(str(fault)) if isinstance(fault, KubeError) else None


def unserved(what: str = "what was asked for") -> str:
    """What is said when the cluster does not know one of our kinds."""
    return (
        f"this cluster does not serve {what}: is volcanopy installed there? "
        "(the definitions alone: volcanopy crd | kubectl apply --server-side -f -)"
    )


def _forbidden(fault: ApiError) -> str:
    found = _CANNOT.search(fault.message)
    if not found:
        return f"the cluster refuses: {_short(fault)}"
    what = ".".join(part for part in (found["what"], found["group"]) if part)
    where = f" in namespace {found['namespace']}" if found["namespace"] else ""
    return (
        f"forbidden: {found['user']} may not {found['verb']} {what}{where}; "
        "ask your administrator for a role that allows it, or choose another --context"
    )


def _short(fault: ApiError) -> str:
    """The server's message in one line, without what surrounds the words of an admission webhook."""
    text = " ".join(fault.message.split()) or str(fault)
    _, denied, said = text.partition("denied the request: ")
    return said if denied else text
