"""CustomResourceDefinitions: objects that make the server serve more kinds, and the rules of the objects of those kinds."""

import asyncio
from typing import Any

from embedded_apiserver.context import Context
from embedded_apiserver.crud.delete import DeleteOptions, remove
from embedded_apiserver.crud.write import release
from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.kinds.kinds import FIELDS, Kind
from embedded_apiserver.kinds.strategy import Strategy
from embedded_apiserver.schema.cel_rules import RuleError
from embedded_apiserver.schema.formats import PatternError
from embedded_apiserver.schema.metadata_validation import forbidden_field, required, unsupported, wrong
from embedded_apiserver.schema.structural import Structural
from embedded_apiserver.store.object_store import Body, Bucket, Event
from embedded_apiserver.wire.tables import crd_columns

GROUP = "apiextensions.k8s.io"
BUCKET = "customresourcedefinitions.apiextensions.k8s.io"
APPROVED = "api-approved.kubernetes.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class CustomStrategy(Strategy):
    """Objects of one version of a custom resource, validated by its schema."""

    generation = True
    unconditional_update = False

    def __init__(self, structural: Structural, *, status: bool) -> None:
        super().__init__(status=status)
        self.structural = structural

    def default(self, body: Body) -> None:
        """The schema's defaults."""
        made = self.structural.default(body)
        if made is not body:
            body.clear()
            body.update(made)

    def content(self, body: Body) -> Body:
        """Everything but metadata, the version, and status where that is a subresource."""
        hidden = {"metadata", "apiVersion", "status"} if self.status else {"metadata", "apiVersion"}
        return {key: value for key, value in body.items() if key not in hidden}

    def validate(self, body: Body) -> list[FieldError]:
        """Schema and rules."""
        return list(self.structural.validate(body))

    def validate_update(self, new: Body, old: Body) -> list[FieldError]:
        """Schema and rules, transition rules among them."""
        return list(self.structural.validate(new, old))

    def validate_status(self, new: Body, old: Body) -> list[FieldError]:
        """The same: a status has a schema too."""
        return list(self.structural.validate(new, old))


class DefinitionStrategy(Strategy):
    """CustomResourceDefinitions themselves."""

    generation = True
    unconditional_update = False

    def default(self, body: Body) -> None:
        """Names derived from the kind's, and the plain conversion."""
        spec = body.setdefault("spec", {})
        names = spec.setdefault("names", {})
        kind = names.get("kind")
        if kind:
            names.setdefault("singular", kind.lower())
            names.setdefault("listKind", kind + "List")
        spec.setdefault("conversion", {"strategy": "None"})
        for version in spec.get("versions") or ():
            for column in version.get("additionalPrinterColumns") or ():
                column.setdefault("priority", column.get("priority", 0))
                if not column["priority"]:
                    column.pop("priority")

    def prepare_create(self, body: Body) -> None:
        """Accepted and established at once: nothing here takes time."""
        super().prepare_create(body)
        moment = body["metadata"]["creationTimestamp"]
        spec = body["spec"]
        stored = [version.get("name", "") for version in spec.get("versions") or () if version.get("storage")]
        body["metadata"].setdefault("finalizers", []).append(CLEANUP)
        body["status"] = {
            "conditions": [
                _condition(moment, "NamesAccepted", "NoConflicts", "no conflicts found"),
                _condition(moment, "Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
            "acceptedNames": spec["names"],
            "storedVersions": stored,
        }

    def prepare_update(self, new: Body, old: Body) -> None:
        """Every version that ever stored objects stays listed."""
        super().prepare_update(new, old)
        stored = [version["name"] for version in new["spec"].get("versions") or () if version.get("storage")]
        status = new.get("status") or {}
        listed = status.get("storedVersions") or []
        more = [name for name in stored if name not in listed]
        new["status"] = {**status, "acceptedNames": new["spec"]["names"], "storedVersions": [*listed, *more]}

    def validate(self, body: Body) -> list[FieldError]:
        """Names, one storage version, and schemas that compile."""
        spec = body["spec"]
        names, versions = spec.get("names") or {}, spec.get("versions") or []
        faults: list[FieldError] = [required(f"spec.{key}") for key in ("group", "scope") if not spec.get(key)]
        faults += [required(f"spec.names.{key}") for key in ("plural", "kind") if not names.get(key)]
        full = f"{names.get('plural', '')}.{spec.get('group', '')}"
        if not faults and body["metadata"]["name"] != full:
            faults.append(wrong("metadata.name", body["metadata"]["name"], 'must be spec.names.plural+"."+spec.group'))
        if spec.get("scope") and spec["scope"] not in {"Cluster", "Namespaced"}:
            faults.append(unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
        if sum(bool(version.get("storage")) for version in versions) != 1:
            text = "must have exactly one version marked as storage version"
            faults.append(wrong("spec.versions", [version.get("name") for version in versions], text))
        if (spec.get("conversion") or {}).get("strategy") == "Webhook":
            text = "the embedded server converts by renaming apiVersion only: use strategy None"
            faults.append(forbidden_field("spec.conversion.strategy", text))
        for index, version in enumerate(versions):
            faults += _version_faults(version, f"spec.versions[{index}]")
        return faults + _storage_faults(body) + _approval_faults(body)

    def validate_status(self, new: Body, old: Body) -> list[FieldError]:
        """A version leaves `storedVersions` only if it is not the one that objects are stored in."""
        return _storage_faults(new)


def _approval_faults(body: Body) -> list[FieldError]:
    """A definition in a group of Kubernetes itself must have an annotation for its approval."""
    group = "." + (body["spec"].get("group") or "")
    if not group.endswith((".k8s.io", ".kubernetes.io")):
        return []
    approval = (body["metadata"].get("annotations") or {}).get(APPROVED) or ""
    path, about = f"metadata.annotations[{APPROVED}]", "https://github.com/kubernetes/enhancements/pull/1111"
    text = f'protected groups must have approval annotation "{APPROVED}"'
    if not approval:
        return [required(path, f"{text}, see {about}")]
    scheme, separator, rest = approval.partition("://")
    if approval.startswith("unapproved") or (scheme and separator and rest.partition("/")[0]):
        return []
    return [wrong(path, approval, f'{text} with either a URL or a reason starting with "unapproved", see {about}')]


def _storage_faults(body: Body) -> list[FieldError]:
    """What contradicts `status.storedVersions`: the storage version is one of them, and each of them is a version."""
    names = [version.get("name") for version in body["spec"].get("versions") or ()]
    listed = (body.get("status") or {}).get("storedVersions")
    if listed is None:
        return []
    path = "status.storedVersions"
    faults: list[FieldError] = [
        wrong(path, listed, f"must have the storage version {version['name']}")
        for version in body["spec"].get("versions") or ()
        if version.get("storage") and version.get("name") not in listed
    ]
    return faults + [
        wrong(
            f"{path}[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a "
            f"storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions",
        )
        for index, name in enumerate(listed)
        if name not in names
    ]


def _version_faults(version: Body, path: str) -> list[FieldError]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        return [required(f"{path}.schema.openAPIV3Schema", "schemas are required")]
    if schema.get("type") != "object":
        return [wrong(f"{path}.schema.openAPIV3Schema.type", schema.get("type", ""), "must be object at the root")]
    try:
        Structural.compile(schema)
    except (RuleError, PatternError) as error:
        return [wrong(f"{path}.schema.openAPIV3Schema", "", str(error))]
    return []


def _condition(moment: str, type_: str, reason: str, message: str) -> Body:
    return {"type": type_, "status": "True", "lastTransitionTime": moment, "reason": reason, "message": message}


def kinds_of(definition: Body) -> list[Kind]:
    """The kinds that a CustomResourceDefinition makes the server serve."""
    spec = definition["spec"]
    names, versions = spec["names"], spec["versions"]
    stored = next(f"{spec['group']}/{version['name']}" for version in versions if version.get("storage"))
    several = len(versions) > 1
    made: list[Kind] = []
    for version in versions:
        if not version.get("served"):
            continue
        schema = version["schema"]["openAPIV3Schema"]
        structural = Structural.compile(schema)
        sub = version.get("subresources") or {}
        selectable = [field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()]
        kind = Kind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            namespaced=spec["scope"] == "Namespaced",
            strategy=CustomStrategy(structural, status="status" in sub),
            singular=names.get("singular", ""),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=tuple(name for name in ("scale", "status") if name in sub),
            fields=(*FIELDS, *selectable),
            stored_version=stored,
            custom=True,
            schema=schema,
            structural=structural,
            columns=crd_columns(version),
            scale=sub.get("scale") or {},
        )
        if several:
            kind.incoming = _renamed(stored)
            kind.outgoing = _renamed(kind.api_version)
        made.append(kind)
    return made


def _renamed(api_version: str) -> Any:
    return lambda body: body if body["apiVersion"] == api_version else {**body, "apiVersion": api_version}


def definition_kind() -> Kind:
    """The kind CustomResourceDefinition."""
    return Kind(
        GROUP,
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
        DefinitionStrategy(status=True),
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=("status",),
    )


class CustomResources:
    """Keeps the registry in step with the stored CustomResourceDefinitions."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._served: dict[str, list[Kind]] = {}
        self._ending: set[str] = set()
        ctx.store.listeners.append(self._changed)

    def resume(self) -> None:
        """Serve what an earlier life of the server had defined."""
        for entry in self._ctx.store.bucket(BUCKET).entries():
            self._serve(entry.name, entry.body)
            if "deletionTimestamp" in entry.body["metadata"]:
                self._end(entry.name)

    def _changed(self, bucket: Bucket, event: Event) -> None:
        name = event.entry.name
        if bucket.name == BUCKET:
            if event.type == "DELETED":
                self._drop(name)
                self._ending.discard(name)
                self._ctx.store.drop(name)
                return
            previous = event.previous
            if previous is None or previous.body["spec"] != event.entry.body["spec"]:
                self._serve(name, event.entry.body)
            if "deletionTimestamp" in event.entry.body["metadata"] and name not in self._ending:
                self._end(name)
        elif event.type == "DELETED" and bucket.name in self._ending and not bucket.count:
            asyncio.get_running_loop().call_soon(self._release, bucket.name)

    def _serve(self, name: str, definition: Body) -> None:
        self._drop(name)
        self._served[name] = kinds_of(definition)
        for kind in self._served[name]:
            self._ctx.registry.add(kind)

    def _drop(self, name: str) -> None:
        for kind in self._served.pop(name, ()):
            self._ctx.registry.remove(kind)

    def _end(self, name: str) -> None:
        """The definition is to be deleted: its objects go first."""
        self._ending.add(name)
        asyncio.get_running_loop().call_soon(self._purge, name)

    def _purge(self, name: str) -> None:
        bucket = self._ctx.store.bucket(name)
        kind = self._ctx.registry.of_bucket(name)
        for entry in bucket.entries():
            if kind is not None:
                remove(self._ctx, kind, entry, DeleteOptions({"propagationPolicy": "Background"}))
        self._release(name)

    def _release(self, name: str) -> None:
        """Let the definition go once none of its objects is left."""
        bucket = self._ctx.store.bucket(BUCKET)
        entry = bucket.get("", name)
        if entry is None or self._ctx.store.bucket(name).count:
            return
        release(self._ctx.store, bucket, entry, CLEANUP)
