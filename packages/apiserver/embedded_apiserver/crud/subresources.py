"""Subresources: scale, binding, eviction, log, and the finalizers of a namespace."""

from collections.abc import AsyncIterator
from typing import Any

from embedded_apiserver.apply.patches import PatchError, json_patch, merge_patch
from embedded_apiserver.connections import Response, Stream
from embedded_apiserver.context import Call, Context
from embedded_apiserver.crud.delete import DeleteOptions, check_preconditions, remove
from embedded_apiserver.crud.patch import JSON_PATCH
from embedded_apiserver.crud.write import finished, modify, require_namespace
from embedded_apiserver.kinds.pods import stamp
from embedded_apiserver.schema.metadata_validation import required, unsupported
from embedded_apiserver.schema.selectors import label_selector_from_object
from embedded_apiserver.status_errors import (
    STALE,
    ApiError,
    bad_request,
    conflict,
    failed_precondition,
    invalid,
    method_not_allowed,
    not_found,
    success,
    too_many_requests,
)
from embedded_apiserver.store.object_store import Body, StoredObject, encode
from embedded_apiserver.wire.decoding import media, parse
from embedded_apiserver.wire.representation import object_response, respond, served, stored

_TEXT = "text/plain; charset=utf-8"
_BUDGETS = "poddisruptionbudgets.policy"


def existing(ctx: Context, call: Call) -> StoredObject:
    """The object of a request; raises ApiError 404."""
    entry = ctx.bucket(call.kind).get(call.namespace, call.name)
    if entry is None:
        raise not_found(call.kind.plural, call.kind.group, call.name)
    return entry


def _read(call: Call) -> Body:
    body = parse(call.raw, media(call))
    if not isinstance(body, dict):
        raise bad_request(f"the body of {call.subresource} must be an object")
    return body


async def bind(ctx: Context, call: Call) -> Response:
    """POST a Binding: the pod gets its node, once."""
    body = _read(call)
    target = body.get("target") or {}
    node: str = target.get("name") or ""
    if target.get("kind") not in {None, "", "Node"}:
        fault = unsupported("target.kind", target["kind"], ("Node", "<empty>"))
        raise invalid("Binding", "", call.name, [fault])
    if not node:
        raise ApiError(500, "", str(required("target.name")))
    named = (body.get("metadata") or {}).get("name")
    if named and named != call.name:
        raise bad_request("name in URL does not match name in Binding object")
    if ctx.webhooks.active:
        binding = {"kind": "Binding", "apiVersion": "v1"} | body
        body = await ctx.webhooks.mutate(call, "CREATE", binding, None, ("", "v1", "Binding"))
        await ctx.webhooks.validate(call, "CREATE", body, None, ("", "v1", "Binding"))
        node = (body.get("target") or {}).get("name") or ""
    require_namespace(ctx, call)
    entry = existing(ctx, call)
    old = entry.body
    added: Body = body.get("metadata") or {}
    _check_binding(call, entry, added)
    metadata = {**old["metadata"]}
    for key in ("annotations", "labels"):
        if added.get(key):
            metadata[key] = {**(metadata.get(key) or {}), **added[key]}
    moment = ctx.now()
    status = old.get("status") or {}
    conditions = [condition for condition in status.get("conditions") or () if condition["type"] != "PodScheduled"]
    condition = stamp(moment, "PodScheduled", "True")
    made = {
        **old,
        "metadata": metadata,
        "spec": {**old["spec"], "nodeName": node},
        "status": {**status, "conditions": [*conditions, condition]},
    }
    if not call.dry:
        ctx.store.put(ctx.bucket(call.kind), made)
    return respond(_BOUND, 201, call.warnings)


_BOUND = encode(success(code=201))


def _check_binding(call: Call, entry: StoredObject, binding: Body) -> None:
    old = entry.body
    uid, version = binding.get("uid"), binding.get("resourceVersion")
    if (uid and uid != entry.uid) or (version and version != str(entry.version)):
        what = f"UID in precondition: {uid}, UID in object meta: {entry.uid}"
        if uid == entry.uid or not uid:
            what = f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: {entry.version}"
        raise failed_precondition("pods", "", call.namespace, call.name, what)
    if "deletionTimestamp" in old["metadata"]:
        raise conflict("pods/binding", "", call.name, f"pod {call.name} is being deleted, cannot be assigned to a host")
    if old["spec"].get("nodeName"):
        text = f'pod {call.name} is already assigned to node "{old["spec"]["nodeName"]}"'
        raise conflict("pods/binding", "", call.name, text)
    if old["spec"].get("schedulingGates"):
        text = f"pod {call.name} has non-empty .spec.schedulingGates"
        raise conflict("pods/binding", "", call.name, text)


async def evict(ctx: Context, call: Call) -> Response:
    """POST an Eviction: delete the pod if no disruption budget stands against it."""
    body = _read(call)
    named = (body.get("metadata") or {}).get("name")
    if named and named != call.name:
        raise bad_request("name in URL does not match name in Eviction object: {named}".replace("{named}", named))
    entry = existing(ctx, call)
    if ctx.webhooks.active:
        gvk = ("policy", "v1", "Eviction")
        body = await ctx.webhooks.mutate(call, "CREATE", body, None, gvk)
        await ctx.webhooks.validate(call, "CREATE", body, None, gvk)
        entry = existing(ctx, call)
    requested = dict(body.get("deleteOptions") or {})
    if call.dry:
        requested["dryRun"] = ["All"]
    options = DeleteOptions(requested)
    check_preconditions(call.kind, entry, options)
    status = entry.body.get("status") or {}
    done = status.get("phase") in {"Succeeded", "Failed", "Pending"} or "deletionTimestamp" in entry.body["metadata"]
    if not done:
        _ask_budgets(ctx, call, entry, dry=options.dry)
    remove(ctx, call.kind, entry, options)
    return respond(_BOUND, 201, call.warnings)


def _ask_budgets(ctx: Context, call: Call, entry: StoredObject, *, dry: bool) -> None:
    bucket = ctx.store.bucket(_BUDGETS)
    labels = entry.labels
    budgets = []
    for budget in bucket.entries(entry.namespace):
        selector = budget.body["spec"].get("selector")
        if selector is not None and label_selector_from_object(selector).matches(labels):
            budgets.append(budget)
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "InternalError", text)
    for budget in budgets:
        status = budget.body.get("status") or {}
        allowed = status.get("disruptionsAllowed", 0)
        if allowed < 1:
            needs = f"The disruption budget {budget.name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
            needs += f"{status.get('currentHealthy', 0)} currently"
            text = "Cannot evict pod as it would violate the pod's disruption budget."
            raise too_many_requests(text, 0, [{"reason": "DisruptionBudget", "message": needs}])
        if not dry:
            disrupted = {**(status.get("disruptedPods") or {}), call.name: ctx.now()}
            made = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
            ctx.store.put(bucket, {**budget.body, "status": made})


async def logs(ctx: Context, call: Call) -> Response | Stream:
    """GET a container's log."""
    entry = existing(ctx, call)
    container = container_of(entry.body, call)
    if not entry.body["spec"].get("nodeName"):
        # A real server has no kubelet to ask either and answers with an empty body.
        return Response(b"", content_type=_TEXT)
    source = ctx.log_source(entry.body, container, call.query)
    if isinstance(source, bytes):
        return Response(source, content_type=_TEXT)
    return await _stream(call, source)


def container_of(pod: Body, call: Call) -> str:
    """The container that a request names, or the only one of the pod."""
    spec = pod["spec"]
    names: list[str] = [container["name"] for container in (*spec["containers"], *(spec.get("initContainers") or ()))]
    container = call.query.get("container", "")
    if not container:
        if len(spec["containers"]) > 1:
            listed = " ".join(container["name"] for container in spec["containers"])
            text = f"a container name must be specified for pod {call.name}, choose one of: [{listed}]"
            raise bad_request(text)
        return names[0]
    if container not in names:
        raise bad_request(f"container {container} is not valid for pod {call.name}")
    return container


async def _stream(call: Call, source: AsyncIterator[bytes]) -> Stream:
    response = call.http.stream("text/plain", [("Cache-Control", "no-cache, private")])
    try:
        async for piece in source:
            if piece:
                await response.write(piece)
        response.end()
    except ConnectionError:
        pass  # the reader has left
    return response


async def scale(ctx: Context, call: Call) -> Response:
    """GET, PUT or PATCH the number of replicas."""
    entry = existing(ctx, call)
    if call.method == "GET":
        return object_response(call, _scale_of(call, served(call.kind, entry)))
    document = parse(call.raw, media(call))
    path = call.kind.scale["specReplicasPath"]

    def change(body: Body) -> Body:
        now = _scale_of(call, body)
        if call.method == "PUT":
            scale = document
        else:
            try:
                scale = json_patch(now, document) if media(call) == JSON_PATCH else merge_patch(now, document)
            except PatchError as error:
                raise bad_request(str(error)) from None
        version = (scale.get("metadata") or {}).get("resourceVersion")
        if version and version != now["metadata"]["resourceVersion"]:
            raise conflict(call.kind.plural, call.kind.group, call.name, STALE)
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            raise bad_request(f"spec.replicas of a Scale must be a whole number of at least 0, not {replicas!r}")
        _set(body, path, replicas)
        return body

    inner = Call(call.http, call.method, call.kind, call.namespace, call.name, "", call.query, call.user)
    response = await modify(ctx, inner, change)
    current = ctx.bucket(call.kind).get(call.namespace, call.name)
    if response.status != 200 or current is None:
        return response
    return object_response(call, _scale_of(call, served(call.kind, current)))


def _scale_of(call: Call, body: Body) -> Body:
    paths, metadata = call.kind.scale, body["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Body = {"replicas": _at(body, paths.get("statusReplicasPath", "")) or 0}
    selector = _at(body, paths.get("labelSelectorPath", ""))
    if isinstance(selector, dict):
        selector = ",".join(f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items())
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": _at(body, paths["specReplicasPath"]) or 0},
        "status": status,
    }


def _at(body: Body, path: str) -> Any:
    value: Any = body
    for part in path.strip(".").split(".") if path else ():
        value = value.get(part) if isinstance(value, dict) else None
    return value if path else None


def _set(body: Body, path: str, value: Any) -> None:
    *above, last = path.strip(".").split(".")
    for part in above:
        body = body.setdefault(part, {})
    body[last] = value


async def finalize(ctx: Context, call: Call) -> Response:
    """PUT a namespace's own finalizers; with the last one it goes."""
    if call.method != "PUT":
        raise method_not_allowed()
    body = _read(call)
    entry = existing(ctx, call)
    finalizers = (body.get("spec") or {}).get("finalizers") or []
    made = {**entry.body, "spec": {**entry.body["spec"], "finalizers": finalizers}}
    bucket = ctx.bucket(call.kind)
    if finished(made) and not any(True for _ in ctx.store.in_namespace(entry.name)):
        ctx.store.remove(bucket, entry)
        return object_response(call, made)
    return stored(call, ctx.store.put(bucket, made))
