"""Questions to the API server whether a user may change the target of a Command.

A Command is an object of its own: a user that may create Commands in a namespace could otherwise close any queue.
"""

from volcanopy.admission.request import Request, at
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import JOBS, QUEUES, bound

ACCESS_REVIEWS: Kind[Json] = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False, dict
)
DEADLINE = 3.0


async def may_change_target(client: Client, request: Request) -> bool | None:
    """Return whether the user of a Command may update its target: None if the request is no Command for a known kind.

    Raises KubeError if the API server does not answer.
    """
    named = str(at(request.object, "target", "kind"))
    kind = next((kind for known in (QUEUES, JOBS) if (kind := bound(known, request.binding)).kind == named), None)
    name = at(request.object, "target", "name")
    if request.kind != "Command" or request.operation != "CREATE" or kind is None or not isinstance(name, str):
        return None
    attributes = {"verb": "update", "group": kind.group, "resource": kind.plural, "name": name}
    if kind.namespaced:
        attributes["namespace"] = request.namespace
    spec = {"user": request.user.name, "groups": list(request.user.groups), "resourceAttributes": attributes}
    body = {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind, "metadata": {}, "spec": spec}
    answer = await client.create(ACCESS_REVIEWS, None, body, deadline=DEADLINE)
    return bool((answer.get("status") or {}).get("allowed"))
