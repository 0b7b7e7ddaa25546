"""DELETE: immediately, after a grace period, or when finalizers and dependents are gone."""

from datetime import UTC, datetime, timedelta

from embedded_apiserver.connections import Response
from embedded_apiserver.context import Call, Context
from embedded_apiserver.crud.get import list_objects
from embedded_apiserver.crud.selection import Filter
from embedded_apiserver.crud.write import finished
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.schema.metadata_validation import unsupported, wrong
from embedded_apiserver.status_errors import ApiError, bad_request, conflict, invalid, not_found, success
from embedded_apiserver.store.object_store import Body, StoredObject, encode
from embedded_apiserver.wire.decoding import media, parse
from embedded_apiserver.wire.representation import object_response, respond

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_POLICIES = ("Foreground", "Background", "Orphan")


class DeleteOptions:
    """DeleteOptions of the body, or else of the query."""

    __slots__ = ("dry", "grace", "policy", "uid", "version")

    def __init__(self, options: Body) -> None:
        grace = options.get("gracePeriodSeconds")
        if grace is not None and not isinstance(grace, int):
            raise bad_request(f"gracePeriodSeconds must be a whole number of seconds, not {grace!r}")
        self.grace: int | None = grace
        preconditions = options.get("preconditions") or {}
        self.uid: str = preconditions.get("uid") or ""
        self.version: str = preconditions.get("resourceVersion") or ""
        self.policy: str = options.get("propagationPolicy") or ""
        self.dry = bool(options.get("dryRun"))
        if "orphanDependents" in options and options["orphanDependents"] is not None:
            if self.policy:
                text = "orphanDependents and deletionPropagation cannot be both set"
                raise invalid("DeleteOptions", "meta.k8s.io", "", [wrong("propagationPolicy", self.policy, text)])
            self.policy = "Orphan" if options["orphanDependents"] else "Background"
        if self.policy and self.policy not in _POLICIES:
            fault = unsupported("propagationPolicy", self.policy, (*_POLICIES, "nil"))
            raise invalid("DeleteOptions", "meta.k8s.io", "", [fault])


def read_options(call: Call) -> DeleteOptions:
    """The options of a delete request."""
    options: Body = {}
    if call.raw:
        given = parse(call.raw, media(call))
        if given is not None and not isinstance(given, dict):
            raise bad_request("the body of a delete must be DeleteOptions")
        options = given or {}
    query = call.query
    if "gracePeriodSeconds" in query:
        text = query["gracePeriodSeconds"]
        if not text.lstrip("-").isdigit():
            raise bad_request(f"gracePeriodSeconds must be a whole number of seconds, not {text!r}")
        options.setdefault("gracePeriodSeconds", int(text))
    for key in ("propagationPolicy", "orphanDependents"):
        if key in query:
            options.setdefault(key, query[key] == "true" if key == "orphanDependents" else query[key])
    if call.dry:
        options["dryRun"] = ["All"]
    return DeleteOptions(options)


async def delete(ctx: Context, call: Call) -> Response:
    """DELETE of one object."""
    kind = call.kind
    options = read_options(call)
    bucket = ctx.bucket(kind)
    entry = bucket.get(call.namespace, call.name)
    if entry is None:
        raise not_found(kind.plural, kind.group, call.name)
    check_preconditions(kind, entry, options)
    if ctx.webhooks.active:
        await ctx.webhooks.validate(call, "DELETE", None, entry.body, mutate_first=True)
        entry = bucket.get(call.namespace, call.name)
        if entry is None:
            raise not_found(kind.plural, kind.group, call.name)
        check_preconditions(kind, entry, options)
    body = entry.body  # a removed entry would have to decode it again
    left = remove(ctx, kind, entry, options)
    if left is not None:
        return object_response(call, left if kind.outgoing is None else kind.outgoing(left))
    if kind.bucket == "pods":
        return object_response(call, _gone(ctx, body))
    details = (
        {"name": entry.name} | ({"group": kind.group} if kind.group else {}) | {"kind": kind.plural, "uid": entry.uid}
    )
    return respond(encode(success(details)), 200, call.warnings)


def _gone(ctx: Context, body: Body) -> Body:
    """A pod that has just ended, as its deletion shows it."""
    metadata = {**body["metadata"], "deletionGracePeriodSeconds": 0}
    if "deletionTimestamp" not in metadata:
        metadata |= {"deletionTimestamp": ctx.now(), "generation": metadata.get("generation", 1) + 1}
    return {**body, "metadata": metadata}


def check_preconditions(kind: Kind, entry: StoredObject, options: DeleteOptions) -> None:
    """409 unless the object is the one that was meant."""
    if options.uid and options.uid != entry.uid:
        text = f"the UID in the precondition ({options.uid}) does not match the UID in record ({entry.uid}). "
        raise conflict(
            kind.kind, kind.group, entry.name, text + "The object might have been deleted and then recreated"
        )
    if options.version and options.version != str(entry.version):
        text = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record "
        )
        raise conflict(
            kind.kind, kind.group, entry.name, f"{text}({entry.version}). The object might have been modified"
        )


def remove(ctx: Context, kind: Kind, entry: StoredObject, options: DeleteOptions) -> Body | None:
    """Delete the object (returns None), or mark it if finalizers or a grace period delay that; returns the stored object."""
    body = entry.body
    if kind.bucket == "namespaces":
        return _end_namespace(ctx, kind, entry, dry=options.dry)
    metadata = {**body["metadata"]}
    finalizers = _finalizers(ctx, kind, entry, options)
    grace = kind.strategy.grace(body, options.grace)
    pending = "deletionTimestamp" in metadata
    if pending and grace:
        # A second request can only shorten the grace period, if it names one.
        current = metadata.get("deletionGracePeriodSeconds") or 0
        grace = current if options.grace is None else min(grace, current)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    if not finalizers and not grace:
        if not options.dry:
            ctx.store.remove(ctx.bucket(kind), entry)
        return None
    if not pending or grace != metadata.get("deletionGracePeriodSeconds"):
        seconds = grace or 0
        metadata["deletionTimestamp"] = _after(
            ctx.now() if not pending else metadata["deletionTimestamp"],
            seconds - (metadata.get("deletionGracePeriodSeconds") or 0),
        )
        metadata["deletionGracePeriodSeconds"] = seconds
        if kind.strategy.generation and not pending:
            metadata["generation"] = metadata.get("generation", 1) + 1
    made = {**body, "metadata": metadata}
    if metadata == body["metadata"] or options.dry:
        return made
    ctx.store.put(ctx.bucket(kind), made)
    ctx.owner_leaving(entry.uid)
    return made


def _after(moment: str, seconds: int) -> str:
    if not seconds:
        return moment
    return (datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) + timedelta(seconds=seconds)).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


def _finalizers(ctx: Context, kind: Kind, entry: StoredObject, options: DeleteOptions) -> list[str]:
    """The object's finalizers with those that the propagation policy requires."""
    now: list[str] = list(entry.body["metadata"].get("finalizers") or ())
    policy = options.policy
    if not policy:
        if ORPHAN in now or FOREGROUND in now:
            return now
        policy = kind.strategy.propagation
    kept = [name for name in now if name not in {ORPHAN, FOREGROUND}]
    if policy == "Orphan" and ctx.store.owned_by(entry.uid):
        return [*kept, ORPHAN]
    if policy == "Foreground" and ctx.store.owned_by(entry.uid):
        return [*kept, FOREGROUND]
    return kept


def _end_namespace(ctx: Context, kind: Kind, entry: StoredObject, *, dry: bool) -> Body | None:
    body = entry.body
    if "deletionTimestamp" in body["metadata"]:
        return body
    made = {
        **body,
        "metadata": {**body["metadata"], "deletionTimestamp": ctx.now()},
        "status": {**(body.get("status") or {}), "phase": "Terminating"},
    }
    if finished(made):
        if not dry:
            ctx.store.remove(ctx.bucket(kind), entry)
        return None
    if not dry:
        ctx.store.put(ctx.bucket(kind), made)
        ctx.namespace_ending(entry.name)
    return made


async def delete_collection(ctx: Context, call: Call) -> Response:
    """DELETE of a collection: every object that the selectors mean; answers with the list of them."""
    kind = call.kind
    if kind.namespaced and not call.namespace:
        raise ApiError(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={}
        )
    options = read_options(call)
    shown = list_objects(ctx, call)
    for entry in Filter(call).pick(ctx.bucket(kind)):
        if ctx.webhooks.active:
            single_call = Call(call.http, "DELETE", kind, entry.namespace, entry.name, "", call.query, call.user)
            await ctx.webhooks.validate(single_call, "DELETE", None, entry.body, mutate_first=True)
        current = ctx.bucket(kind).get(entry.namespace, entry.name)
        if current is not None and current.uid == entry.uid:
            remove(ctx, kind, current, options)
    return shown
