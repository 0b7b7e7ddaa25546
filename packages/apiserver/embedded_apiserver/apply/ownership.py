"""`metadata.managedFields` of ordinary writes.

It is recorded for writers that name themselves (`fieldManager`, as kubectl does), and for objects that have it already. The bulk
traffic of controllers, which does neither, passes through unrecorded: recording costs more than the write itself.
"""

from embedded_apiserver.apply.managed_fields import track
from embedded_apiserver.context import Call, Context
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.store.object_store import Body


def schema_of(ctx: Context, kind: Kind) -> Body | None:
    """The schema that defines how the kind's lists merge."""
    if kind.custom:
        return kind.schema
    api_version = kind.stored_version
    group, _, version = api_version.rpartition("/")
    return ctx.definitions.schema(group, version, kind.kind)


def manager_of(call: Call) -> str:
    """The writer's name: as given, else the program's name from its User-Agent."""
    return call.manager or (call.http.header("user-agent") or "").partition("/")[0] or "unknown"


def record_manager(ctx: Context, call: Call, old: Body | None, new: Body) -> Body:
    """The object with its managedFields brought up to date, or as it is where they are not kept."""
    before = old["metadata"].get("managedFields") if old is not None else None
    if not (call.manager or before):
        new["metadata"].pop("managedFields", None)
        return new
    return track(
        old,
        new,
        manager=manager_of(call),
        subresource=call.subresource,
        schema=schema_of(ctx, call.kind),
        api_version=call.kind.api_version,
        now=ctx.now(),
    )
