"""PATCH: merge, JSON and strategic-merge patches, and server-side apply."""

from embedded_apiserver.apply.managed_field_entries import ApplyConflict
from embedded_apiserver.apply.managed_fields import apply
from embedded_apiserver.apply.ownership import schema_of
from embedded_apiserver.apply.patches import PatchError, json_patch, merge_patch, strategic_merge
from embedded_apiserver.connections import Response
from embedded_apiserver.context import Call, Context
from embedded_apiserver.crud.write import Change, create_object, modify
from embedded_apiserver.schema.metadata_validation import forbidden_field, required, wrong
from embedded_apiserver.status_errors import ApiError, bad_request, invalid, not_found, unsupported_media
from embedded_apiserver.store.object_store import Body, encode
from embedded_apiserver.wire.decoding import check_object, media, parse
from embedded_apiserver.wire.representation import object_response, stored

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


async def patch(ctx: Context, call: Call) -> Response:
    """Change an object (or its status) by a patch."""
    form = media(call)
    if form == APPLY:
        return await _apply(ctx, call)
    return await modify(ctx, call, reader(ctx, call), careful=form == MERGE)


def reader(ctx: Context, call: Call) -> Change:
    """The change that the request's patch describes."""
    kind, form = call.kind, media(call)
    known = [JSON_PATCH, MERGE, APPLY] if kind.custom else [JSON_PATCH, MERGE, STRATEGIC, APPLY]
    if form not in {JSON_PATCH, MERGE, STRATEGIC}:
        raise unsupported_media("415: Unsupported Media Type")
    if form not in known:
        accepted = ", ".join(known)
        text = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        raise unsupported_media(text)
    if call.flag("force"):
        fault = forbidden_field("force", "may not be specified for non-apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [fault])
    document = parse(call.raw, form)

    def change(body: Body) -> Body:
        try:
            if form == JSON_PATCH:
                made = json_patch(body, document)
            elif form == MERGE:
                made = merge_patch(body, document)
            else:
                made = strategic_merge(body, document, schema_of(ctx, kind))
        except PatchError as error:
            if form == JSON_PATCH and isinstance(document, list):
                text = "the server rejected our request due to an error in our request"
                raise ApiError(422, "Invalid", text, details={}) from None
            raise bad_request(str(error)) from None
        if not isinstance(made, dict) or not isinstance(made.get("metadata"), dict):
            raise bad_request(f"the patch leaves no {kind.kind} behind: {encode(made).decode()[:200]}")
        try:
            return check_object(ctx, call, made)
        except ApiError as error:
            if error.reason != "BadRequest":
                raise
            text = error.message.partition("cannot be handled as a ")[2].partition(": ")[2] or error.message
            shown = document if form == STRATEGIC else made
            fault = wrong("patch", encode(shown).decode(), text)
            raise invalid("", "", "", [fault]) from None

    return change


async def _apply(ctx: Context, call: Call) -> Response:
    kind = call.kind
    manager = call.manager
    if not manager:
        fault = required("fieldManager", "is required for apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [fault])
    applied = parse(call.raw, APPLY)
    if not isinstance(applied, dict):
        raise bad_request("error decoding YAML: the applied configuration must be an object")
    for key in ("kind", "apiVersion"):
        if not applied.get(key):
            raise bad_request(f"Object '{key[0].upper()}{key[1:]}' is missing in '{encode(applied).decode()}'")
    applied = check_object(ctx, call, applied)
    metadata = applied["metadata"]
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    name = metadata.setdefault("name", call.name)
    if name != call.name:
        text = f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        raise bad_request(text)
    if kind.namespaced:
        metadata.setdefault("namespace", call.namespace)
    entry = ctx.bucket(kind).get(call.namespace, call.name)
    if entry is not None:
        return await modify(ctx, call, lambda live: _merged(ctx, call, live, applied), manage=False)
    if call.subresource:
        raise not_found(kind.plural, kind.group, call.name)
    if metadata.get("uid"):
        text = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
        raise ApiError(409, "Conflict", text, details={"name": name, "kind": kind.plural})
    metadata.pop("resourceVersion", None)
    body = _merged(ctx, call, None, applied)
    body, created = await create_object(ctx, call, body, manage=False)
    return stored(call, created, 201) if created is not None else object_response(call, body, 201)


def _merged(ctx: Context, call: Call, live: Body | None, applied: Body) -> Body:
    try:
        return apply(
            live,
            applied,
            manager=call.manager,
            force=call.flag("force"),
            schema=schema_of(ctx, call.kind),
            api_version=call.kind.api_version,
            now=ctx.now(),
            subresource=call.subresource,
        )
    except ApplyConflict as error:
        raise apply_conflict(error) from None
    except PatchError as error:
        raise bad_request(str(error)) from None


def apply_conflict(error: ApplyConflict) -> ApiError:
    """409 that names every field that another manager owns."""
    return ApiError(409, "Conflict", str(error), details={"causes": error.causes})
