"""Creation of pods by template: the pods of a gang mostly have byte-identical specs, defaulted and validated once.

The completed spec is cached by its text. Pods of one template share it; stored bodies are never changed.
Every other pod takes the general path, which also reports the errors.
"""

import msgspec

from embedded_apiserver.connections import BODY_LIMIT
from embedded_apiserver.context import Call, Context
from embedded_apiserver.kinds.pod_validation import pod_faults
from embedded_apiserver.schema.builtin_types import fits
from embedded_apiserver.store.object_store import Body, decode
from embedded_apiserver.wire.decoding import media

REMEMBERED = 512
"""Specs that are remembered; the one that was learned first is forgotten first."""

LONGEST = 64 * 1024
"""Bytes of a spec that is still worth remembering."""


class _Draft(msgspec.Struct, forbid_unknown_fields=True):
    """A pod as writers send it: no status yet."""

    metadata: dict[str, object]
    spec: msgspec.Raw
    kind: str = "Pod"
    apiVersion: str = "v1"  # noqa: N815 - the field's own name


_read = msgspec.json.Decoder(_Draft).decode


class Templates:
    """The specs seen last. One per server."""

    def __init__(self) -> None:
        self._specs: dict[bytes, Body] = {}

    def __len__(self) -> int:
        return len(self._specs)

    def read(self, ctx: Context, call: Call) -> Body | None:
        """The pod in the body of a create, its spec completed and known to be valid; None if it needs the general path.

        The pod and its metadata are the caller's. Of the spec only the outermost level is; what lies below is shared.
        """
        if len(call.raw) > BODY_LIMIT or media(call) != "application/json":
            return None
        try:
            draft = _read(call.raw)
        except msgspec.MsgspecError:
            return None
        body: Body = {"kind": "Pod", "apiVersion": "v1", "metadata": draft.metadata}
        if draft.kind != "Pod" or draft.apiVersion != "v1" or not fits(ctx.definitions, "", "v1", "Pod", body):
            return None
        if b"null" in call.raw:
            body["metadata"] = ctx.definitions.metadata_as_decoded(draft.metadata)
        text = bytes(draft.spec)
        spec = self._specs.get(text)
        if spec is None:
            spec = self._learned(ctx, call, text)
            if spec is None:
                return None
        body["spec"] = spec.copy()
        return body

    def _learned(self, ctx: Context, call: Call, text: bytes) -> Body | None:
        """Complete a spec and remember it, if nothing is wrong with it."""
        body: Body = {"spec": decode(text)}
        if not isinstance(body["spec"], dict) or not fits(ctx.definitions, "", "v1", "Pod", body):
            return None
        if b"null" in text:
            body = ctx.definitions.as_decoded("", "v1", "Pod", body)
        call.kind.strategy.default(body)
        spec: Body = body["spec"]
        if pod_faults(spec, "spec"):
            return None
        if len(text) > LONGEST:
            return spec
        if len(self._specs) >= REMEMBERED:
            del self._specs[next(iter(self._specs))]
        self._specs[text] = spec
        return spec
