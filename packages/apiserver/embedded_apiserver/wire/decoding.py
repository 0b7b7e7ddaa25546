"""A request's body, from bytes to an object of the kind that the path names."""

from typing import Any

import msgspec
import yaml

from embedded_apiserver.connections import BODY_LIMIT
from embedded_apiserver.context import Call, Context
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.schema.builtin_types import fits
from embedded_apiserver.status_errors import ApiError, bad_request, unsupported_media
from embedded_apiserver.store.object_store import Body
from embedded_apiserver.wire.protobuf import decode as decode_protobuf
from embedded_apiserver.wire.yaml_budget import check_budget

PROTOBUF = "application/vnd.kubernetes.protobuf"


def media(call: Call) -> str:
    """The body's content type without parameters; JSON if the client names none."""
    text: str = call.http.header("content-type") or ""
    return text.partition(";")[0].strip().lower() or "application/json"


def parse(raw: bytes, form: str) -> Any:
    """The body as plain data."""
    if len(raw) > BODY_LIMIT:
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")
    try:
        if form in {"application/json", ""} or form.endswith("+json"):
            return msgspec.json.decode(raw)
        if form in {"application/yaml", "application/apply-patch+yaml"}:
            # JSON is YAML, and clients that apply mostly send JSON: the quick reader goes first.
            try:
                return msgspec.json.decode(raw)
            except msgspec.DecodeError:
                check_budget(raw)
                return yaml.safe_load(raw)
        if form == PROTOBUF:
            return decode_protobuf(raw)
    except (msgspec.DecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise bad_request(f"error decoding the body: {error}") from None
    raise unsupported_media(
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, "
        + PROTOBUF
    )


def read_object(ctx: Context, call: Call) -> Body:
    """The object in the body of a create or an update, checked against the path and the kind's fields."""
    body = parse(call.raw, media(call))
    kind = call.kind
    if not isinstance(body, dict):
        text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: json: cannot unmarshal into Go value'
        raise bad_request(text)
    return check_object(ctx, call, body)


def check_object(ctx: Context, call: Call, body: Body) -> Body:
    """The object without unknown fields; 400 where its kind, types or (if the request is strict) fields are wrong."""
    kind = call.kind
    if kind.custom:
        for key in ("kind", "apiVersion"):
            if not body.get(key):
                name = "Object 'Kind'" if key == "kind" else "Object 'apiVersion'"
                text = f"{name} is missing in '{msgspec.json.encode(body).decode()}'"
                raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {text}")
    else:
        body.setdefault("kind", kind.kind)
        body.setdefault("apiVersion", kind.api_version)
    if body["apiVersion"] != kind.api_version:
        raise bad_request(
            f"the API version in the data ({body['apiVersion']}) does not match the expected API version ({kind.api_version})"
        )
    if body["kind"] != kind.kind:
        internal = kind.group.partition(".")[0] or "core"
        raise bad_request(
            f'{body["kind"]} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"converting ({kind.version}.{body['kind']}) to ({internal}.{kind.kind}): unknown conversion"
        )
    if not isinstance(body.get("metadata"), dict):
        if body.get("metadata") is not None:
            raise _unreadable(
                kind, f"json: cannot unmarshal string into Go struct field {kind.kind}.metadata of type v1.ObjectMeta"
            )
        body["metadata"] = {}
    body, unknown = _prune(ctx, kind, body, b"null" in call.raw or not media(call).endswith("json"))
    if unknown:
        _complain(call, unknown)
    return body


def _prune(ctx: Context, kind: Kind, body: Body, has_nulls: bool) -> tuple[Body, list[str]]:
    """The object without unknown fields, and their paths; ``has_nulls``: it may have nulls, which are not stored."""
    definitions = ctx.definitions
    if kind.custom:
        errors = definitions.metadata_errors(body["metadata"])
        if errors:
            raise _unreadable(kind, errors[0].replace("ObjectMeta.metadata.", "ObjectMeta."))
        if has_nulls:
            body = {**body, "metadata": definitions.metadata_as_decoded(body["metadata"])}
        return kind.structural.prune(body) if kind.structural is not None else (body, [])
    if fits(definitions, kind.group, kind.version, kind.kind, body):
        return definitions.as_decoded(kind.group, kind.version, kind.kind, body) if has_nulls else body, []
    errors = definitions.type_errors(kind.group, kind.version, kind.kind, body)
    if errors:
        raise _unreadable(kind, errors[0])
    return definitions.prune(kind.group, kind.version, kind.kind, body)


def _unreadable(kind: Kind, why: str) -> ApiError:
    return bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')


def _complain(call: Call, unknown: list[str]) -> None:
    mode = call.query.get("fieldValidation", "Warn")
    texts = [f'unknown field "{path}"' for path in unknown]
    if mode == "Strict":
        raise _unreadable(call.kind, f"strict decoding error: {', '.join(texts)}")
    if mode == "Warn":
        call.warnings += texts
