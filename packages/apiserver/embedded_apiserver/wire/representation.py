"""Objects on the wire: plain JSON, rows of a table for people, or metadata alone; and the responses that carry them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from embedded_apiserver.connections import JSON, Response
from embedded_apiserver.context import Call
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.status_errors import ApiError
from embedded_apiserver.store.object_store import Body, StoredObject, encode
from embedded_apiserver.wire.builtin_columns import builtin_columns
from embedded_apiserver.wire.tables import table


def form(call: Call) -> str:
    """The requested form: "" for the objects themselves, "table", or "partial" for their metadata."""
    accept = call.http.header("accept") or ""
    if "as=" not in accept:
        return ""
    for choice in accept.split(","):
        options = dict(part.strip().partition("=")[::2] for part in choice.split(";")[1:])
        if options.get("g") != "meta.k8s.io" or options.get("v") not in {"v1", "v1beta1"}:
            if choice.strip().startswith(JSON) and "as" not in options:
                return ""
            continue
        if options.get("as") == "Table":
            return "table"
        if options.get("as") in {"PartialObjectMetadata", "PartialObjectMetadataList"}:
            return "partial"
    return ""


def respond(data: bytes, code: int = 200, warnings: Sequence[str] = ()) -> Response:
    """A JSON response, with warnings that kubectl prints."""
    if not warnings:
        return Response(data, code)
    headers: list[tuple[str, str]] = []
    for text in dict.fromkeys(warnings):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        headers.append(("Warning", f'299 - "{escaped}"'))
    return Response(data, code, headers=headers)


def failure(error: ApiError, warnings: Sequence[str] = ()) -> Response:
    """The response of an error."""
    made = respond(encode(error.status()), error.code, warnings)
    if error.retry_after:
        made.headers = [*made.headers, ("Retry-After", str(error.retry_after))]
    return made


def raw(kind: Kind, entry: StoredObject) -> bytes:
    """The object's JSON in the served version."""
    return entry.raw if is_stored_form(kind, entry) else encode(served(kind, entry))


def is_stored_form(kind: Kind, entry: StoredObject) -> bool:
    """Whether the object is stored as it is served."""
    return kind.outgoing is None or entry.raw.startswith(kind.head)


def served(kind: Kind, entry: StoredObject) -> Body:
    """The object in the served version; read only."""
    return entry.body if kind.outgoing is None else kind.outgoing(entry.body)


def partial(body: Body, kind: str = "PartialObjectMetadata") -> Body:
    """The object's metadata alone."""
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]}


def rows(kind: Kind, include: str | None, bodies: Sequence[Body], list_meta: Body) -> Body:
    """The objects as a Table."""
    columns: Any = kind.columns if kind.columns is not None else builtin_columns(kind.group, kind.kind)
    return table(columns, bodies, include=include or "Metadata", list_meta=list_meta, now=datetime.now(UTC))


def object_response(call: Call, body: Body, code: int = 200) -> Response:
    """A response with one object that is given as a body in the served version."""
    requested_form = form(call)
    if requested_form == "table":
        metadata = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
        return respond(encode(rows(call.kind, call.query.get("includeObject"), [body], metadata)), code, call.warnings)
    if requested_form == "partial":
        return respond(encode(partial(body)), code, call.warnings)
    return respond(encode(body), code, call.warnings)


def stored(call: Call, entry: StoredObject, code: int = 200) -> Response:
    """A response with one stored object."""
    if "as=" in (call.http.header("accept") or ""):
        return object_response(call, served(call.kind, entry), code)
    return respond(raw(call.kind, entry), code, call.warnings)


def list_response(call: Call, entries: Iterable[StoredObject], metadata: Body) -> Response:
    """A response with a list."""
    kind = call.kind
    requested_form = form(call)
    if requested_form == "table":
        return respond(
            encode(rows(kind, call.query.get("includeObject"), [served(kind, entry) for entry in entries], metadata))
        )
    if requested_form == "partial":
        items = [partial(entry.body) for entry in entries]
        made = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "items": items,
        }
        return respond(encode(made))
    head = b'{"kind":"%bList","apiVersion":"%b","metadata":%b,"items":[' % (
        kind.kind.encode(),
        kind.api_version.encode(),
        encode(metadata),
    )
    if kind.custom and kind.outgoing is None:
        return respond(b"%b%b]}\n" % (head, b",".join([entry.raw for entry in entries])))
    if kind.outgoing is None:
        # Items of built-in lists do not repeat the apiVersion and kind of the list; the store writes these two keys first.
        start = len(kind.head)
        return respond(b"%b%b]}\n" % (head, b",".join([b"{" + entry.raw[start:] for entry in entries])))
    return respond(b"%b%b]}\n" % (head, b",".join([raw(kind, entry) for entry in entries])))
