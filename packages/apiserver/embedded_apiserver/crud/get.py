"""GET: one object, or a list in consistent pages."""

import base64
import binascii
from collections.abc import Iterable
from itertools import islice

import msgspec

from embedded_apiserver.connections import Response
from embedded_apiserver.context import Call, Context
from embedded_apiserver.crud.selection import Filter
from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.schema.metadata_validation import forbidden_field, wrong
from embedded_apiserver.status_errors import ApiError, bad_request, invalid, not_found
from embedded_apiserver.store.object_store import Body, StoredObject
from embedded_apiserver.wire.representation import list_response, stored


def get(ctx: Context, call: Call) -> Response:
    """One object; 404 if it is not there."""
    kind = call.kind
    entry = ctx.bucket(kind).get(call.namespace, call.name)
    if entry is None:
        raise not_found(kind.plural, kind.group, call.name)
    check_version(ctx, call)
    return stored(call, entry)


def version_of(call: Call) -> int | None:
    """The resourceVersion that the request names: None if it names none."""
    text = call.query.get("resourceVersion", "")
    if not text:
        return None
    if not text.isdigit():
        fault = wrong("resourceVersion", text, f'strconv.ParseUint: parsing "{text}": invalid syntax')
        raise bad_request(f"invalid resource version: {fault}")
    return int(text)


def check_version(ctx: Context, call: Call) -> int | None:
    """The requested resourceVersion, which must not be in the future."""
    version = version_of(call)
    if version is not None and version > ctx.store.version:
        text = f"Too large resource version: {version}, current: {ctx.store.version}"
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        details = {"causes": causes, "retryAfterSeconds": 1}
        raise ApiError(504, "Timeout", f"Timeout: {text}", details=details, retry_after=1)
    return version


def list_objects(ctx: Context, call: Call) -> Response:
    """A list: the newest, an exact version, or the next page of one that was begun."""
    chosen = Filter(call)
    bucket = ctx.bucket(call.kind)
    limit = _number(call, "limit")
    token = call.query.get("continue", "")
    _check_match(call)
    if token:
        if call.query.get("resourceVersion") not in {None, "", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
        version, start = _read_token(token)
        space = None if chosen.everything else chosen.namespace
        picked: Iterable[StoredObject] = filter(chosen.matches, bucket.entries_at(version, space, start))
    else:
        asked = check_version(ctx, call)
        if asked and call.query.get("resourceVersionMatch") == "Exact":
            version = asked
            space = None if chosen.everything else chosen.namespace
            picked = filter(chosen.matches, bucket.entries_at(version, space))
        else:
            version = ctx.store.version
            picked = chosen.pick(bucket)
    # With a selector, how many remain is not in the answer: objects behind the page are not compared.
    entries = list(islice(picked, limit + 1 if limit and chosen.selective else None))
    metadata: Body = {"resourceVersion": str(version)}
    if limit and len(entries) > limit:
        rest = len(entries) - limit
        entries = entries[:limit]
        metadata["continue"] = _write_token(version, entries[-1])
        if not chosen.selective:
            metadata["remainingItemCount"] = rest
    return list_response(call, entries, metadata)


def _check_match(call: Call) -> None:
    """resourceVersionMatch goes with a resourceVersion only."""
    match = call.query.get("resourceVersionMatch", "")
    if not match:
        return
    faults: list[FieldError] = []
    if not call.query.get("resourceVersion"):
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        faults.append(forbidden_field("resourceVersionMatch", text))
    if match not in {"Exact", "NotOlderThan"}:
        faults.append(wrong("resourceVersionMatch", match, 'supported values: "Exact", "NotOlderThan", ""'))
    if match == "Exact" and call.query.get("resourceVersion") == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        faults.append(forbidden_field("resourceVersionMatch", text))
    if faults:
        raise invalid("ListOptions", "meta.k8s.io", "", faults)


def _number(call: Call, key: str) -> int:
    text = call.query.get(key, "")
    if not text:
        return 0
    try:
        return max(int(text), 0)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _write_token(version: int, last: StoredObject) -> str:
    document = {"v": "meta.k8s.io/v1", "rv": version, "start": [last.namespace, last.name]}
    return base64.urlsafe_b64encode(msgspec.json.encode(document)).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        document = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = document["start"]
        return int(document["rv"]), (str(namespace), str(name))
    except (binascii.Error, msgspec.DecodeError, LookupError, TypeError, ValueError):
        raise bad_request(
            "invalid continue token: continue key is not valid: the token was not given by this server"
        ) from None
