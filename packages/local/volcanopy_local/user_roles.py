"""Cluster roles of users in an embedded cluster with ``--rbac``, like those of the chart: rights can be tried here first."""

from collections.abc import Mapping, Sequence

from volcanopy.kube.client.kinds import Json

_RBAC = "rbac.authorization.k8s.io"
_DOMAINS = ("volcanopy.io", "volcano.sh")
_READS = ("get", "list", "watch")
_WRITES = ("create", "update", "patch", "delete", "deletecollection")
_KINDS = {
    "batch": ("batchjobs", "cronbatchjobs", "jobs", "cronjobs"),
    "flow": ("jobflows", "jobtemplates"),
    "scheduling": ("podgroups",),
    "bus": ("commands",),
}
"""Kinds that users write by the beginning of their group; a group has those of its own API only."""
_READ_ALONE = {"batch": ("jobhistories",)}
_OF_ADMINISTRATORS = {"scheduling": ("queues",), "topology": ("hypernodes",)}


def user_roles() -> list[Json]:
    """Return the roles that the roles view, edit and admin aggregate, and the right of all users to read queues."""
    everyone = {"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}
    return [
        _role("volcanopy-view", _rules(_KINDS, _READS) + _rules(_READ_ALONE, _READS), "view"),
        _role("volcanopy-edit", _rules(_KINDS, _WRITES), "edit"),
        _role("volcanopy-queue-view", _rules(_OF_ADMINISTRATORS, _READS)),
        _role("volcanopy-queue-admin", _rules(_OF_ADMINISTRATORS, (*_READS, *_WRITES))),
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "volcanopy-queue-view"},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "volcanopy-queue-view"},
            "subjects": [everyone],
        },
    ]


def _role(name: str, rules: list[Json], aggregate: str = "") -> Json:
    labels = {f"{_RBAC}/aggregate-to-{aggregate}": "true"} if aggregate else {}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": rules,
    }


def _rules(kinds: Mapping[str, Sequence[str]], verbs: Sequence[str]) -> list[Json]:
    """Return the rules for kinds and, with verbs that read, for their statuses."""
    return [
        {
            "apiGroups": [f"{group}.{domain}" for domain in _DOMAINS],
            "resources": [*plurals, *(f"{plural}/status" for plural in plurals if verbs == _READS)],
            "verbs": list(verbs),
        }
        for group, plurals in kinds.items()
    ]
