"""Cluster roles of users in an embedded cluster with ``--rbac``, like those of the chart: rights can be tried here first."""

from collections.abc import Mapping, Sequence

from volcanopy.kube.client.kinds import Json

_RBAC = "rbac.authorization.k8s.io"
_READS = ("get", "list", "watch")
_WRITES = ("create", "update", "patch", "delete")
_IN_VOLCANO = {"batchjobs": "jobs", "cronbatchjobs": "cronjobs"}
"""Kinds that have another name in Volcano's API."""
_OF_JOBS = {"batch": ("batchjobs", "cronbatchjobs"), "flow": ("jobflows", "jobtemplates"), "scheduling": ("podgroups",)}
_OF_QUEUES = {"scheduling": ("queues",), "topology": ("hypernodes",)}
_COMMANDS = {"bus": ("commands",)}


def user_roles() -> list[Json]:
    """Return the roles that the roles view, edit and admin aggregate, and the right of all users to read queues."""
    everyone = {"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}
    return [
        _role(
            "view",
            [
                *_rules(_OF_JOBS, _READS, with_status=True),
                *_rules({"batch": ("jobhistories",), **_COMMANDS}, _READS),
            ],
            aggregate=True,
        ),
        _role(
            "edit",
            [*_rules(_OF_JOBS, (*_WRITES, "deletecollection")), *_rules(_COMMANDS, ("create", "delete"))],
            aggregate=True,
        ),
        _role("queue-view", _rules(_OF_QUEUES, _READS, with_status=True)),
        _role(
            "queue-admin",
            [
                *_rules(_OF_QUEUES, (*_READS, *_WRITES)),
                *_rules({"scheduling": ("queues/status",)}, ("get",)),
                *_rules(_COMMANDS, (*_READS, "create", "delete")),
            ],
        ),
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "volcanopy-queue-view"},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "volcanopy-queue-view"},
            "subjects": [everyone],
        },
    ]


def _role(name: str, rules: list[Json], *, aggregate: bool = False) -> Json:
    labels = {f"{_RBAC}/aggregate-to-{name}": "true"} if aggregate else {}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"volcanopy-{name}", "labels": labels},
        "rules": rules,
    }


def _rules(kinds: Mapping[str, Sequence[str]], verbs: Sequence[str], *, with_status: bool = False) -> list[Json]:
    """Return the rules for kinds of groups, which are named by their beginning, in both APIs."""
    suffixes = ("", "/status") if with_status else ("",)
    return [
        {
            "apiGroups": [f"{group}.{domain}"],
            "resources": [f"{renames.get(plural, plural)}{suffix}" for plural in plurals for suffix in suffixes],
            "verbs": list(verbs),
        }
        for domain, renames in (("volcanopy.io", dict[str, str]()), ("volcano.sh", _IN_VOLCANO))
        for group, plurals in kinds.items()
    ]
