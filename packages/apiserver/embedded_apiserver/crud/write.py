"""Creates and changes of objects: what every write goes through between the decoded body and the store.

The order is the real server's: defaults, mutating admission, preparation, validation, validating admission, then the store.
Nothing is awaited between the last look at the stored object and the write, so a write is
built on what is there or not done at all.
"""

from collections.abc import Callable

from embedded_apiserver.apply.ownership import record_manager
from embedded_apiserver.connections import Response
from embedded_apiserver.context import Call, Context
from embedded_apiserver.crud.builtin_admission import admit_create, complete_resources
from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.schema.metadata_validation import forbidden_field, metadata_faults, wrong
from embedded_apiserver.status_errors import (
    STALE,
    ApiError,
    already_exists,
    bad_request,
    conflict,
    failed_precondition,
    forbidden,
    invalid,
    method_not_allowed,
    not_found,
)
from embedded_apiserver.store.object_store import Body, Bucket, Store, StoredObject
from embedded_apiserver.wire.decoding import read_object
from embedded_apiserver.wire.representation import object_response, stored

Change = Callable[[Body], Body]
"""Given a fresh copy of the stored object in the served version, what it should become."""

_ATTEMPTS = 5
_SYSTEM = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "generateName",
)


async def create(ctx: Context, call: Call) -> Response:
    """POST to a collection."""
    if call.kind.namespaced and not call.namespace:
        raise method_not_allowed()
    body, entry = await create_object(ctx, call, read_object(ctx, call))
    return stored(call, entry, 201) if entry is not None else object_response(call, body, 201)


async def create_object(
    ctx: Context, call: Call, body: Body, *, manage: bool = True
) -> tuple[Body, StoredObject | None]:
    """Create a checked body; returns it with its entry, or with None if the request was a dry run."""
    kind, strategy = call.kind, call.kind.strategy
    metadata = body["metadata"]
    _check_namespace(call, metadata)
    if kind.namespaced:
        metadata["namespace"] = call.namespace  # webhooks read it
    if metadata.get("resourceVersion"):
        raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
    bucket = ctx.bucket(kind)
    if kind.incoming is not None:
        body = kind.incoming(body)
    strategy.default(body)
    require_namespace(ctx, call)
    if manage:
        if strategy.status and not strategy.keeps_status:
            body.pop("status", None)
        body = record_manager(ctx, call, None, body)
    admit_create(ctx, kind, body)
    complete_resources(ctx, call.namespace, kind, body)
    if ctx.webhooks.active:
        body = await ctx.webhooks.mutate(call, "CREATE", body, None)
        strategy.default(body)
    metadata = body["metadata"]
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = ctx.fresh_name(metadata["generateName"], bucket.objects.get(call.namespace, {}))
    name: str = metadata.get("name", "")
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(key, None)
    metadata["uid"] = ctx.fresh_uid()
    metadata["creationTimestamp"] = ctx.now()
    if kind.namespaced:
        metadata["namespace"] = call.namespace
    strategy.prepare_create(body)
    faults: list[FieldError] = [
        *metadata_faults(metadata, strategy.name_rule, builtin=not kind.custom),
        *strategy.validate(body),
    ]
    if faults:
        raise invalid(kind.kind, kind.group, name, faults)
    if ctx.webhooks.active:
        await ctx.webhooks.validate(call, "CREATE", body, None)
        require_namespace(ctx, call)
    if bucket.get(call.namespace, name) is not None:
        raise already_exists(kind.plural, kind.group, name)
    ctx.check_quota(call.namespace, kind, body)
    if call.dry:
        return (body if kind.outgoing is None else kind.outgoing(body)), None
    entry = ctx.store.put(bucket, body)
    return body, entry


def require_namespace(ctx: Context, call: Call) -> None:
    """The namespace must exist and not be on its way out."""
    if not call.kind.namespaced:
        return
    entry = ctx.store.bucket("namespaces").get("", call.namespace)
    if entry is None:
        raise not_found("namespaces", "", call.namespace)
    if "deletionTimestamp" in entry.body["metadata"]:
        space = call.namespace
        why = f"unable to create new content in namespace {space} because it is being terminated"
        text = f"namespace {space} is being terminated"
        causes = [{"reason": "NamespaceTerminating", "message": text, "field": "metadata.namespace"}]
        raise forbidden(call.kind.plural, call.kind.group, call.name or "unknown", why, causes=causes)


def _check_namespace(call: Call, metadata: Body) -> None:
    given = metadata.get("namespace", "")
    if given and given != call.namespace:
        if not call.kind.namespaced:
            metadata.pop("namespace")
            return
        raise bad_request(
            f"the namespace of the provided object does not match the namespace sent on the request"
            f" ({given} vs {call.namespace})".partition(" (")[0]
        )


async def update(ctx: Context, call: Call) -> Response:
    """PUT of an object, or of its status."""
    kind = call.kind
    body = read_object(ctx, call)
    metadata = body["metadata"]
    if not metadata.get("name"):
        metadata["name"] = call.name if not kind.custom else ""
    if metadata["name"] != call.name:
        text = f"the name of the object ({metadata['name']}) does not match the name on the URL ({call.name})"
        raise bad_request(text)
    _check_namespace(call, metadata)
    existing = ctx.bucket(kind).get(call.namespace, call.name)
    if existing is None and kind.strategy.create_on_update and not call.subresource:
        metadata.pop("resourceVersion", None)
        made, entry = await create_object(ctx, call, body)
        return stored(call, entry, 201) if entry is not None else object_response(call, made, 201)
    if existing is not None and not metadata.get("resourceVersion") and not kind.strategy.unconditional_update:
        fault = wrong("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(kind.plural, kind.group, call.name, [fault])
    return await modify(ctx, call, lambda _: body)


async def modify(ctx: Context, call: Call, change: Change, *, manage: bool = True, careful: bool = False) -> Response:
    """Change one object; begins anew, on the newer version, when another write came between.

    `careful`: `change` copies what it changes, which spares the status of a built-in object a copy of the whole.
    """
    kind = call.kind
    bucket = ctx.bucket(kind)
    shallow = careful and call.subresource == "status" and not kind.custom and kind.outgoing is None
    for _ in range(_ATTEMPTS):
        entry = bucket.get(call.namespace, call.name)
        if entry is None:
            raise not_found(kind.plural, kind.group, call.name)
        if shallow:
            new = change({**entry.body, "metadata": {**entry.body["metadata"]}})
        else:
            new = change(entry.copy() if kind.outgoing is None else kind.outgoing(entry.copy()))
        asked = new["metadata"].get("resourceVersion")
        body = await _prepare(ctx, call, entry, new, manage=manage)
        if bucket.get(call.namespace, call.name) is not entry:
            if asked and asked != str(entry.version):
                break
            continue
        return _commit(ctx, call, entry, body)
    raise conflict(kind.plural, kind.group, call.name, STALE)


async def _prepare(ctx: Context, call: Call, entry: StoredObject, new: Body, *, manage: bool) -> Body:
    """The object to store in place of `entry`: restored where a write may not reach, admitted and judged."""
    kind, strategy, old = call.kind, call.kind.strategy, entry.body
    if kind.incoming is not None:
        new = kind.incoming(new)
    _check_identity(kind, new, entry)
    _restore(new, old)
    status = call.subresource == "status"
    if status:
        new = strategy.prepare_status(new, old)
    else:
        strategy.default(new)
        strategy.prepare_update(new, old)
    if manage:
        new = record_manager(ctx, call, old, new)
    if ctx.webhooks.active:
        new = await ctx.webhooks.mutate(call, "UPDATE", new, old)
        _restore(new, old)
        if not status:
            strategy.default(new)
            strategy.prepare_update(new, old)
    if new["metadata"] != old["metadata"]:
        _judge_metadata(kind, new, old)
    faults = strategy.validate_status(new, old) if status else strategy.validate_update(new, old)
    if faults:
        raise invalid(kind.kind, kind.group, call.name, faults)
    if ctx.webhooks.active:
        await ctx.webhooks.validate(call, "UPDATE", new, old)
    return new


def _check_identity(kind: Kind, new: Body, entry: StoredObject) -> None:
    metadata = new["metadata"]
    asked = metadata.get("resourceVersion")
    if asked and asked != str(entry.version):
        raise conflict(kind.plural, kind.group, entry.name, STALE)
    uid = metadata.get("uid")
    if uid and uid != entry.uid:
        what = f"UID in precondition: {uid}, UID in object meta: {entry.uid}"
        raise failed_precondition(kind.plural, kind.group, entry.namespace, entry.name, what)
    if metadata.get("name") != entry.name:
        text = f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL ({entry.name})"
        raise bad_request(text)


def _restore(new: Body, old: Body) -> None:
    """Put back what only the server writes."""
    metadata, before = new["metadata"], old["metadata"]
    for key in _SYSTEM:
        if key in before:
            metadata[key] = before[key]
        else:
            metadata.pop(key, None)
    if "namespace" in before:
        metadata["namespace"] = before["namespace"]
    metadata["resourceVersion"] = before["resourceVersion"]


def _judge_metadata(kind: Kind, new: Body, old: Body) -> None:
    metadata, before = new["metadata"], old["metadata"]
    faults: list[FieldError] = list(metadata_faults(metadata, lambda _: (), builtin=not kind.custom))
    if "deletionTimestamp" in before:
        added = [name for name in metadata.get("finalizers") or () if name not in (before.get("finalizers") or ())]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
            faults.append(forbidden_field("metadata.finalizers", text))
    if faults:
        raise invalid(kind.kind, kind.group, before["name"], faults)


def _commit(ctx: Context, call: Call, entry: StoredObject, body: Body) -> Response:
    """Store the change, unless there is none; an object whose last finalizer went is gone with it."""
    kind = call.kind
    if body == entry.body:
        return stored(call, entry)
    if call.dry:
        return object_response(call, body if kind.outgoing is None else kind.outgoing(body))
    bucket = ctx.bucket(kind)
    if finished(body):
        ctx.store.remove(bucket, entry)
        return object_response(call, body if kind.outgoing is None else kind.outgoing(body))
    return stored(call, ctx.store.put(bucket, body))


def finished(body: Body) -> bool:
    """Whether the object is marked for deletion and has no finalizers left."""
    metadata = body["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (body.get("kind") == "Namespace" and (body.get("spec") or {}).get("finalizers"))
    )


def release(store: Store, bucket: Bucket, entry: StoredObject, finalizer: str) -> None:
    """Take a finalizer off an object; with the last one the object goes."""
    metadata = {**entry.body["metadata"]}
    metadata["finalizers"] = [name for name in metadata.get("finalizers") or () if name != finalizer]
    if not metadata["finalizers"]:
        del metadata["finalizers"]
    made = {**entry.body, "metadata": metadata}
    if finished(made):
        store.remove(bucket, entry)
    else:
        store.put(bucket, made)
