"""Role-based access control: which requests the roles of a user allow.

A request is allowed if a binding gives its user, one of the groups or the service account a ClusterRole or Role with a rule that
names its verb, API group, resource and name. Members of `system:masters` may do everything. Roles that aggregate others have the
rules of these. A user who may write roles and bindings may give any right: escalation is not checked.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from embedded_apiserver.context import Call, Context, User
from embedded_apiserver.schema.selectors import label_selector_from_object
from embedded_apiserver.status_errors import ApiError, forbidden
from embedded_apiserver.store.object_store import Body, Store

GROUP = "rbac.authorization.k8s.io"
MASTERS = "system:masters"
_ACCOUNT = "system:serviceaccount"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_OPEN_PAGES = ("/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz")
"""What everybody with a name may read, as by the roles system:discovery and system:public-info-viewer."""
_OPEN_REVIEWS = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})


@dataclass(frozen=True, slots=True)
class Attributes:
    """An action of a user, in the terms of rules; `resource` has the subresource behind a slash."""

    user: User
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


class Authorizer:
    """The rights of users; where RBAC is not enforced everything is allowed."""

    def __init__(self, store: Store, *, enforced: bool) -> None:
        self._store = store
        self.enforced = enforced

    def check(self, call: Call) -> None:
        """Raise the 403 of a request that no rule allows."""
        if not self.enforced:
            return
        attributes = attributes_of(call)
        if call.kind.plural in _OPEN_REVIEWS or self.allows(attributes):
            return
        raise _rejection(call, attributes)

    def check_impersonation(self, user: User, impersonated: User) -> None:
        """Raise the 403 of a user who may not act as another."""
        if not self.enforced or impersonated == user:
            return
        requested = [("users", impersonated.name)]
        requested += [("groups", group) for group in impersonated.groups if group != "system:authenticated"]
        for resource, name in requested:
            if not self.allows(Attributes(user, "impersonate", "", resource, "", name)):
                text = (
                    f'User "{user.name}" cannot impersonate resource "{resource}" in API group "" at the cluster scope'
                )
                raise forbidden(resource, "", name, text)

    def check_page(self, user: User, method: str, path: str) -> None:
        """Raise the 403 of a request for something that is no object."""
        verb = "get" if method in {"GET", "HEAD"} else method.lower()
        if not self.allows_page(user, verb, path):
            raise ApiError(403, "Forbidden", f'forbidden: User "{user.name}" cannot {verb} path "{path}"', details={})

    def allows_page(self, user: User, verb: str, path: str) -> bool:
        """Whether a user may do this with something that is no object."""
        if not self.enforced or MASTERS in user.groups or path == "/":
            return True
        if verb == "get" and any(path == page or path.startswith(f"{page}/") for page in _OPEN_PAGES):
            return True
        rules = (rule for rule in self._rules(user, "") if _among(rule, "verbs", verb))
        return any(_fits(pattern, path) for rule in rules for pattern in rule.get("nonResourceURLs") or ())

    def allows(self, attributes: Attributes) -> bool:
        """Whether a rule allows this."""
        if not self.enforced or MASTERS in attributes.user.groups:
            return True
        return any(_allows(rule, attributes) for rule in self._rules(attributes.user, attributes.namespace))

    def rules(self, user: User, namespace: str) -> list[Body]:
        """The rules of a user in a namespace and in the whole cluster."""
        if not self.enforced or MASTERS in user.groups:
            return [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
            ]
        return list(self._rules(user, namespace))

    def _rules(self, user: User, namespace: str) -> Iterator[Body]:
        bindings = list(self._store.bucket(f"clusterrolebindings.{GROUP}").entries())
        if namespace:
            bindings += self._store.bucket(f"rolebindings.{GROUP}").entries(namespace)
        for entry in bindings:
            binding = entry.body
            own = binding["metadata"].get("namespace", "")
            if any(_is_subject(subject, user, own) for subject in binding.get("subjects") or ()):
                yield from self._rules_of(binding["roleRef"], own)

    def _rules_of(self, reference: Body, namespace: str) -> Iterator[Body]:
        if reference["kind"] == "Role":
            entry = self._store.bucket(f"roles.{GROUP}").get(namespace, reference["name"])
            yield from (entry.body.get("rules") or ()) if entry is not None else ()
            return
        roles = self._store.bucket(f"clusterroles.{GROUP}")
        entry = roles.get("", reference["name"])
        if entry is None:
            return
        yield from entry.body.get("rules") or ()
        selectors = (entry.body.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        for selector in map(label_selector_from_object, selectors):
            for other in roles.entries():
                if other.name != entry.name and selector.matches(other.labels):
                    yield from self._rules_of({"kind": "ClusterRole", "name": other.name}, namespace)


def attributes_of(call: Call) -> Attributes:
    """What a request does."""
    kind, verb = call.kind, _VERBS.get(call.method, call.method.lower())
    if verb == "get" and not call.subresource:
        verb = "watch" if call.flag("watch") else "get" if call.name else "list"
    elif verb == "delete" and not call.name:
        verb = "deletecollection"
    elif call.subresource in {"exec", "attach", "portforward"}:
        verb = "create"
    resource = f"{kind.plural}/{call.subresource}" if call.subresource else kind.plural
    namespace = call.name if kind.bucket == "namespaces" else call.namespace
    return Attributes(call.user, verb, kind.group, resource, namespace, call.name)


def _rejection(call: Call, attributes: Attributes) -> ApiError:
    place = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    text = (
        f'User "{attributes.user.name}" cannot {attributes.verb} resource "{attributes.resource}" '
        f'in API group "{attributes.group}" {place}'
    )
    return forbidden(call.kind.plural, call.kind.group, call.name, text if call.name else f"is forbidden: {text}")


def _allows(rule: Body, attributes: Attributes) -> bool:
    if not (_among(rule, "verbs", attributes.verb) and _among(rule, "apiGroups", attributes.group)):
        return False
    _, slash, subresource = attributes.resource.partition("/")
    accepted = {"*", attributes.resource, *([f"*/{subresource}"] if slash else [])}
    if accepted.isdisjoint(rule.get("resources") or ()):
        return False
    named = rule.get("resourceNames") or ()
    return not named or attributes.name in named


def _among(rule: Body, key: str, value: str) -> bool:
    allowed: Iterable[str] = rule.get(key) or ()
    return "*" in allowed or value in allowed


def _fits(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def _is_subject(subject: Body, user: User, namespace: str) -> bool:
    kind, name = subject["kind"], subject["name"]
    if kind == "Group":
        return name in user.groups
    if kind == "ServiceAccount":
        return user.name == f"{_ACCOUNT}:{subject.get('namespace') or namespace}:{name}"
    return bool(user.name == name)


def bootstrap_roles() -> dict[str, Body]:
    """The cluster roles that every cluster has, by name: `admin` has the rules of `edit`, `edit` those of `view`."""
    read, write = ["get", "list", "watch"], ["create", "delete", "deletecollection", "patch", "update"]
    core = [
        "configmaps",
        "endpoints",
        "events",
        "persistentvolumeclaims",
        "pods",
        "pods/log",
        "pods/status",
        "services",
    ]
    core += ["limitranges", "resourcequotas", "serviceaccounts", "replicationcontrollers"]
    workloads = [("apps", ["*"]), ("batch", ["*"]), ("networking.k8s.io", ["*"]), ("policy", ["poddisruptionbudgets"])]
    workloads.append(("autoscaling", ["horizontalpodautoscalers"]))
    running = ["pods/attach", "pods/eviction", "pods/exec", "pods/portforward", "secrets"]
    view = [_rule(read, "", core), *(_rule(read, group, resources) for group, resources in workloads)]
    view += [_rule(read, "", ["namespaces"]), _rule(read, "discovery.k8s.io", ["endpointslices"])]
    edit = [_rule(write, "", [*core, *running]), _rule(read, "", running)]
    edit += [_rule(write, group, resources) for group, resources in workloads]
    admin = [_rule([*read, *write], GROUP, ["roles", "rolebindings"])]
    roles: dict[str, Body] = {
        "cluster-admin": {"rules": [_rule(["*"], "*", ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}]}
    }
    for name, rules, above in (("view", view, "edit"), ("edit", edit, "admin"), ("admin", admin, "")):
        label = {f"{GROUP}/aggregate-to-{name}": "true"}
        roles[f"system:aggregate-to-{name}"] = {"labels": label, "rules": rules}
        roles[name] = {
            "labels": {f"{GROUP}/aggregate-to-{above}": "true"} if above else {},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]},
        }
    return roles


def _rule(verbs: list[str], group: str, resources: list[str]) -> Body:
    return {"verbs": verbs, "apiGroups": [group], "resources": resources}


def create_missing_roles(ctx: Context) -> None:
    """Create the cluster roles that are missing."""
    bucket = ctx.store.bucket(f"clusterroles.{GROUP}")
    for name, role in bootstrap_roles().items():
        if bucket.get("", name) is None:
            metadata = {"name": name, "uid": ctx.fresh_uid(), "creationTimestamp": ctx.now()}
            if role.get("labels"):
                metadata["labels"] = role["labels"]
            body = {
                "kind": "ClusterRole",
                "apiVersion": f"{GROUP}/v1",
                "metadata": metadata,
                "rules": role.get("rules"),
            }
            if "aggregationRule" in role:
                body["aggregationRule"] = role["aggregationRule"]
            ctx.store.put(bucket, body)
