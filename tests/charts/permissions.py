"""Rights: what roles grant, and what an audit log says was used."""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.charts.rendering import Json

AUDIT_POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"


class Right(NamedTuple):
    """One verb on one resource (``pods/binding``) of a group; ``name`` is given where it is limited to one object."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.group or 'core'} {self.resource}{f' {self.name}' if self.name else ''}{where}"

    def covers(self, used: "Right") -> bool:
        """Whether it allows what was done."""
        same = (self.verb, self.group, self.resource) == (used.verb, used.group, used.resource)
        return same and self.namespace in {"", used.namespace} and self.name in {"", used.name}


class Request(NamedTuple):
    """A request, as the audit log tells it."""

    user: str
    right: Right
    code: int


def granted(objects: Iterable[Json], account: str) -> set[Right]:
    """What the roles among the objects give a service account, right by right."""
    objects = list(objects)
    result: set[Right] = set()
    for binding in objects:
        if binding["kind"] not in {"RoleBinding", "ClusterRoleBinding"}:
            continue
        if not any(
            subject["kind"] == "ServiceAccount" and subject["name"] == account for subject in binding["subjects"]
        ):
            continue
        reference, namespace = binding["roleRef"], binding["metadata"].get("namespace", "")
        (role,) = [
            obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == (reference["kind"], reference["name"])
        ]
        for rule in role["rules"]:
            parts = (rule["verbs"], rule["apiGroups"], rule["resources"], [namespace], rule.get("resourceNames", [""]))
            result |= {Right(*item) for item in itertools.product(*parts)}
    return result


def requests(log: Path) -> list[Request]:
    """What was asked for, by whom, and how it was answered; what is no resource (discovery) is left out."""
    result = []
    for line in log.read_text().splitlines():
        event = json.loads(line)
        what = event.get("objectRef")
        if what is None or "resource" not in what:
            continue
        resource = "/".join(filter(None, (what["resource"], what.get("subresource"))))
        right = Right(
            event["verb"], what.get("apiGroup", ""), resource, what.get("namespace", ""), what.get("name", "")
        )
        result.append(Request(event["user"]["username"], right, event["responseStatus"]["code"]))
    return result
