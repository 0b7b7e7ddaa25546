"""The webhook configurations: which requests the API server sends to admission, and which authority it trusts."""

import base64
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from volcanopy.admission import powers
from volcanopy.admission.context import AdmissionPolicy
from volcanopy.api import names
from volcanopy.api.bindings import VOLCANOPY, Binding
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, Conflict, NotFound
from volcanopy.kube.client.kinds import Json, Kind

_REGISTRATION = "admissionregistration.k8s.io"
MUTATING: Kind[Json] = Kind(
    _REGISTRATION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False, dict
)
VALIDATING: Kind[Json] = Kind(
    _REGISTRATION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False, dict
)
CONFIGURATION = "volcanopy-admission"

_CREATE, _CHANGE, _ALL = ["CREATE"], ["CREATE", "UPDATE"], ["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True)
class Registration:
    """How the API server reaches the webhook, and what it does on failure.

    ``address`` is ``https://host:port``; a ``service`` (``namespace/name``) takes precedence. ``authority`` is the
    caBundle in PEM.
    """

    address: str
    service: str = ""
    authority: bytes = b""
    fail_closed: bool = True
    policy: AdmissionPolicy = field(default_factory=AdmissionPolicy)
    bindings: tuple[Binding, ...] = (VOLCANOPY,)
    """The served APIs."""
    path_part: str = ""
    """The secret part of the paths (:class:`ReviewPaths`); empty if the server expects none."""

    def configurations(self) -> tuple[tuple[Kind[Json], Json], ...]:
        """Return the webhook configurations."""
        ours, rules = self._our_scheduler(), self._rules
        pods = [_all("foreign-pod-of-our-scheduler", [*self._foreign_pods(), ours, _NO_TRIAL])]
        of_a_job, changed = _of_a_job(self.bindings), _changed(self.bindings)
        foreign, groups = self._foreign("not-by-us"), self._foreign("not-by-us-for-a-job", f" && {of_a_job}")
        return (
            self._configuration(
                MUTATING,
                [
                    self._webhook("jobs.review", rules(names.BATCH, _CHANGE, "batchjobs"), validates=True),
                    self._webhook("jobs.mutate", rules(names.BATCH, _CHANGE, "cronbatchjobs")),
                    self._webhook("flows.mutate", rules(names.FLOW, _CHANGE, "jobflows", "jobtemplates")),
                    self._webhook("podgroups.mutate", rules(names.SCHEDULING, _CHANGE, "podgroups"), foreign),
                    self._webhook("queues.mutate", rules(names.SCHEDULING, _CREATE, "queues")),
                    self._webhook(
                        "pods.mutate",
                        [_rule("", _CREATE, "pods")],
                        pods,
                        elsewhere=True,
                        unlabelled=self._pods_of_jobs(),
                    ),
                ],
            ),
            self._configuration(
                VALIDATING,
                [
                    self._webhook("jobs.validate", rules(names.BATCH, _CHANGE, "cronbatchjobs")),
                    self._webhook("flows.validate", rules(names.FLOW, _CHANGE, "jobflows", "jobtemplates")),
                    self._webhook("podgroups.validate", rules(names.SCHEDULING, _CHANGE, "podgroups"), groups),
                    self._webhook(
                        "podgroupdeletions.validate",
                        rules(names.SCHEDULING, ["DELETE"], "podgroups"),
                        [*foreign, _NOT_BY_KUBERNETES],
                    ),
                    self._webhook("queues.validate", rules(names.SCHEDULING, _ALL, "queues")),
                    self._webhook("hypernodes.validate", rules(names.TOPOLOGY, _ALL, "hypernodes")),
                    self._webhook("commands.validate", rules(names.BUS, _CREATE, "commands")),
                    self._webhook("pods.validate", [_rule("", _CREATE, "pods")], pods, elsewhere=True),
                    self._webhook(
                        "podorigins.validate", [_rule("", ["UPDATE"], "pods")], [changed, *foreign], elsewhere=True
                    ),
                    self._webhook("podsizes.validate", [_rule("", ["UPDATE"], "pods/resize")], [ours], elsewhere=True),
                ],
            ),
        )

    def _rules(self, group: str, operations: list[str], *resources: str) -> list[Json]:
        """Return the rules of these resources in all served APIs."""
        return [_rule(binding.group(group), operations, *map(binding.plural, resources)) for binding in self.bindings]

    def _our_scheduler(self) -> Json:
        return _condition(
            "our-scheduler",
            f"has(object.spec.schedulerName) && object.spec.schedulerName in {_list(self.policy.scheduler_names)}",
        )

    def _foreign_pods(self) -> list[Json]:
        """Return the condition of pods that our controllers do not create."""
        # Without controllers all users have the same name (a local cluster): an owner reference to a job is trusted.
        return self._foreign("not-by-us") or [_condition("not-of-a-job", f"!({_of_a_job(self.bindings)})")]

    def _foreign(self, name: str, further: str = "") -> list[Json]:
        """Return the condition that excludes requests of the controllers, those with a further property if it is given."""
        users = self.policy.controllers
        return [_condition(name, f"!(request.userInfo.username in {_list(users)}{further})")] if users else []

    def _pods_of_jobs(self) -> str:
        """Return the label that pods of jobs have and that validation rejects on those of others; empty if it rejects none.

        A selector costs the API server nothing, conditions a conversion of the pod. Defaults are all that a user can miss who
        sets the label.
        """
        return names.JOB_NAME if self.policy.controllers and VOLCANOPY in self.bindings else ""

    def _webhook(
        self,
        name: str,
        rules: list[Json],
        conditions: list[Json] | None = None,
        *,
        elsewhere: bool = False,
        unlabelled: str = "",
        validates: bool = False,
    ) -> Json:
        """Return a webhook. A mutating one that ``validates`` is called again after changes by other webhooks."""
        made: Json = {
            "name": f"{name}.volcanopy.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail" if self.fail_closed else "Ignore",
            "matchPolicy": "Equivalent",
            "timeoutSeconds": 10,
            "clientConfig": self._client_config(
                "/review" if validates else "/mutate" if ".mutate" in name else "/validate"
            ),
            "rules": rules,
        }
        if validates:
            made["reinvocationPolicy"] = "IfNeeded"
        if conditions:
            made["matchConditions"] = conditions
        if elsewhere:
            made["namespaceSelector"] = {"matchExpressions": [_not_in(self._own_namespaces())]}
        if unlabelled:
            made["objectSelector"] = {"matchExpressions": [{"key": unlabelled, "operator": "DoesNotExist"}]}
        return made

    def _own_namespaces(self) -> list[str]:
        """Return the namespaces of system pods, which must start while the webhook is down."""
        own = self.service.partition("/")[0]
        return sorted({"kube-system", *([own] if own else [])})

    def _client_config(self, path: str) -> Json:
        made: Json
        path = f"{path}/{self.path_part}" if self.path_part else path
        if self.service:
            namespace, _, name = self.service.partition("/")
            made = {"service": {"namespace": namespace, "name": name, "path": path, "port": 443}}
        else:
            made = {"url": f"{self.address}{path}"}
        return made | {"caBundle": base64.b64encode(self.authority).decode()}

    def _configuration(self, kind: Kind[Json], webhooks: list[Json]) -> tuple[Kind[Json], Json]:
        metadata: Json = {"name": CONFIGURATION}
        return kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "webhooks": webhooks}


def _of_a_job(bindings: Sequence[Binding]) -> str:
    """Return the expression that an object is owned by a job of one of the APIs."""
    kinds = [
        f"o.kind == '{kind}'"
        if binding is VOLCANOPY
        else f"(o.kind == '{kind}' && o.apiVersion.startsWith('{binding.group(names.BATCH)}/'))"
        for binding in bindings
        for kind in (binding.kind("BatchJob"),)
    ]
    owners = "object.metadata.ownerReferences"
    return f"has({owners}) && {owners}.exists(o, {' || '.join(kinds)})"


_ENTRY = "(has({0}.metadata.{1}) && '{2}' in {0}.metadata.{1} ? [{0}.metadata.{1}['{2}']] : [])"
"""The value of a label or annotation; none and an empty one are different: an empty ``preemptable`` is not true."""
_SHARED_NPUS = (
    "(has({0}.metadata.annotations) && {0}.metadata.annotations.exists(k, k.startsWith('"
    + names.HAMI_PREFIX
    + "') && k.endsWith('"
    + names.NPU_ALLOCATED_SUFFIX
    + "') && !(has({1}.metadata.annotations) && k in {1}.metadata.annotations"
    " && {1}.metadata.annotations[k] == {0}.metadata.annotations[k])))"
)
"""Whether an object has an annotation of shared NPUs that the other has not."""
_OWNERS = (
    "(has({0}.metadata.ownerReferences)"
    " ? {0}.metadata.ownerReferences.map(o, o.apiVersion + '/' + o.kind + '/' + o.uid) : [])"
)
_CHOSEN_AT_CREATION = (
    *(("annotations", key) for key in (names.SUBMITTED_BY, names.SUBMITTER_GROUPS, names.POD_QUEUE_NAME)),
    *(("annotations", key) for key in (names.GROUP_NAME, names.POD_GROUP_NAME)),
    *powers.CHOSEN_AT_CREATION,
    *(("annotations", key) for key in sorted(names.ASSIGNMENT_KEYS)),
    ("labels", names.JOB_NAME),
    *((part, names.QUEUE_NAME) for part in ("labels", "annotations")),
)


def _rule(group: str, operations: list[str], *resources: str) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": list(resources),
        "operations": operations,
        "scope": "*",
    }


def _condition(name: str, expression: str) -> Json:
    return {"name": name, "expression": expression}


def _changed(bindings: Sequence[Binding]) -> Json:
    """Return the condition that a pod's labels and annotations are changed that are chosen when it is created."""
    chosen = dict.fromkeys((part, binding.key(key)) for binding in bindings for part, key in _CHOSEN_AT_CREATION)
    # A pod has volcanopy's names in every API.
    chosen = dict.fromkeys((*_CHOSEN_AT_CREATION, *chosen))
    return _condition(
        "changed-after-creation",
        " || ".join(
            [f"{_ENTRY.format('object', part, key)} != {_ENTRY.format('oldObject', part, key)}" for part, key in chosen]
            + [_SHARED_NPUS.format("object", "oldObject"), _SHARED_NPUS.format("oldObject", "object")]
            + [f"{_OWNERS.format('object')} != {_OWNERS.format('oldObject')}"]
        ),
    )


def _all(name: str, conditions: list[Json]) -> Json:
    """Return one condition of several: the API server evaluates each of a list, also after one that is false."""
    return _condition(name, " && ".join(f"({condition['expression']})" for condition in conditions))


_NOT_BY_KUBERNETES = _condition(
    "not-by-kubernetes",
    "!(request.userInfo.username.startsWith('system:serviceaccount:kube-system:')"
    " || request.userInfo.username == 'system:kube-controller-manager')",
)

# Only dry-run requests count as trials: on a stored pod the label has no effect.
_NO_TRIAL = _condition(
    "not-our-trial",
    "!(has(request.dryRun) && request.dryRun && has(object.metadata.labels) &&"
    f" '{names.DRY_RUN}' in object.metadata.labels)",
)


def _list(texts: list[str]) -> str:
    return "[" + ", ".join("'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'" for text in texts) + "]"


def _not_in(namespaces: list[str]) -> Json:
    return {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": namespaces}


async def register(client: Client, registration: Registration) -> None:
    """Create or update the configurations; unchanged ones are not written."""
    for kind, target in registration.configurations():
        while True:
            try:
                current = await client.get(kind, None, CONFIGURATION)
            except NotFound:
                try:
                    await client.create(kind, None, target)
                except AlreadyExists:
                    continue
                break
            changed = _merged(current, target)
            if changed != current:
                try:
                    await client.update(kind, None, CONFIGURATION, changed)
                except (Conflict, NotFound):
                    continue
            break


def _merged(current: Json, target: Json) -> Json:
    """Return the current object with the target's fields."""
    there = {webhook.get("name"): webhook for webhook in current.get("webhooks") or ()}
    webhooks = []
    for webhook in target["webhooks"]:
        old = there.get(webhook["name"], {})
        # Fields with defaults of the API server are kept, so that an unchanged object is not written.
        merged = {**old, **webhook}
        for key in ("matchConditions", "namespaceSelector", "objectSelector"):
            if key not in webhook and old.get(key) not in (None, {}, []):
                merged.pop(key)
        webhooks.append(merged)
    return {**current, "webhooks": webhooks}


async def published(client: Client) -> bytes:
    """Return the caBundle of all webhooks, empty if they differ."""
    bundles: set[str] = set()
    for kind in (MUTATING, VALIDATING):
        try:
            current = await client.get(kind, None, CONFIGURATION)
        except NotFound:
            return b""
        bundles |= {webhook["clientConfig"].get("caBundle", "") for webhook in current.get("webhooks") or ()}
    return base64.b64decode(bundles.pop()) if len(bundles) == 1 else b""


async def unregister(client: Client) -> None:
    """Delete the configurations."""
    for kind in (MUTATING, VALIDATING):
        with contextlib.suppress(NotFound):
            await client.delete(kind, None, CONFIGURATION)
