"""Admission webhooks: which requests are sent to which of them, over HTTPS, and what a missing answer means."""

import asyncio
import base64
import binascii
import os
import re
import uuid
from dataclasses import dataclass
from functools import partial

import aiohttp
import msgspec

from embedded_apiserver.apply.patches import PatchError, json_patch
from embedded_apiserver.context import Call, Context
from embedded_apiserver.status_errors import ApiError, bad_request, internal
from embedded_apiserver.store.object_store import Body, Bucket, Event
from embedded_apiserver.webhooks.admission_policies import POLICY_BUCKETS, Policies
from embedded_apiserver.webhooks.admission_requests import (
    GROUP,
    AdmissionRequest,
    ConditionError,
    Matching,
    gvk_of,
    review,
)
from embedded_apiserver.webhooks.trust import Trust, TrustError

MUTATING = f"mutatingwebhookconfigurations.{GROUP}"
VALIDATING = f"validatingwebhookconfigurations.{GROUP}"


class NoAnswerError(Exception):
    """The webhook could not be asked, or its answer makes no sense."""


@dataclass(slots=True)
class Hook:
    """One webhook of one configuration object."""

    name: str
    source: Body
    matching: Matching
    trust: Trust | None = None

    @property
    def forgiving(self) -> bool:
        """A webhook that cannot be asked lets the request pass."""
        return bool(self.source.get("failurePolicy") == "Ignore")


class Webhooks:
    """The webhooks and admission policies of one server; while none is configured, `active` is false and nothing is asked."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._session: aiohttp.ClientSession | None = None
        self._mutating: list[Hook] = []
        self._validating: list[Hook] = []
        self._policies = Policies(ctx.store)
        self.active = False
        ctx.store.listeners.append(self._changed)
        self._read()

    def _changed(self, bucket: Bucket, _event: Event) -> None:
        if bucket.name in {MUTATING, VALIDATING, *POLICY_BUCKETS}:
            self._read()

    def _read(self) -> None:
        store = self._ctx.store
        self._mutating = [hook for entry in store.bucket(MUTATING).entries() for hook in _hooks(entry.body)]
        self._validating = [hook for entry in store.bucket(VALIDATING).entries() for hook in _hooks(entry.body)]
        self._policies.read()
        self.active = bool(self._mutating or self._validating or self._policies.active)

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()

    async def mutate(
        self, call: Call, operation: str, body: Body, old: Body | None, gvk: tuple[str, str, str] | None = None
    ) -> Body:
        """The body as patched by the mutating webhooks, called in order; raises a rejection."""
        kind = call.kind
        shown = body if kind.outgoing is None else kind.outgoing(body)
        before = old if old is None or kind.outgoing is None else kind.outgoing(old)
        changed = False
        for hook in self._mutating:
            request = AdmissionRequest(call, operation, shown, before, gvk or gvk_of(kind))
            if not self._concerns(hook, request):
                continue
            response = await self._ask(hook, request)
            if response is not None and response.get("patch"):
                shown = _patched(hook, response, shown)
                changed = True
        if not changed:
            return body
        return shown if kind.incoming is None else kind.incoming(shown)

    async def validate(
        self,
        call: Call,
        operation: str,
        body: Body | None,
        old: Body | None,
        gvk: tuple[str, str, str] | None = None,
        *,
        mutate_first: bool = False,
    ) -> None:
        """Ask the policies, then the validating webhooks concurrently; raises the first rejection.

        Deletions call the mutating webhooks too.
        """
        kind = call.kind
        if kind.outgoing is not None:
            body = kind.outgoing(body) if body is not None else None
            old = kind.outgoing(old) if old is not None else None
        request = AdmissionRequest(call, operation, body, old, gvk or gvk_of(kind))
        if mutate_first:
            for hook in self._mutating:
                if self._concerns(hook, request):
                    await self._ask(hook, request)
        self._policies.check(request)
        asked = [hook for hook in self._validating if self._concerns(hook, request)]
        answers = await asyncio.gather(*(self._ask(hook, request) for hook in asked), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    def _concerns(self, hook: Hook, request: AdmissionRequest) -> bool:
        return hook.matching.matches(request, self._ctx.store) and self._conditions_hold(hook, request)

    def _conditions_hold(self, hook: Hook, request: AdmissionRequest) -> bool:
        try:
            return hook.matching.conditions_hold(request)
        except ConditionError as error:
            if hook.forgiving:
                return False
            raise internal(f'failed to evaluate {error} of webhook "{hook.name}": {error.reason}') from None

    async def _ask(self, hook: Hook, request: AdmissionRequest) -> Body | None:
        """The webhook's response if it allows; None if it cannot be asked and that is forgiven."""
        call = request.call
        if call.dry and hook.source.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            response = await self._post(hook, request)
        except NoAnswerError as error:
            if hook.forgiving:
                call.warnings.append(f'webhook "{hook.name}" could not be asked: {error}')
                return None
            raise internal(f'failed calling webhook "{hook.name}": {error}') from None
        call.warnings += [str(text) for text in response.get("warnings") or ()]
        if not response.get("allowed"):
            raise _rejection(hook, response)
        return response

    async def _post(self, hook: Hook, request: AdmissionRequest) -> Body:
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        url, host = self._address(hook)
        uid = str(uuid.uuid4())
        data = msgspec.json.encode(review(request, uid))
        seconds = float(hook.source.get("timeoutSeconds") or 10)
        try:
            trust = hook.trust = hook.trust or Trust(hook.source["clientConfig"].get("caBundle") or "")
        except TrustError as error:
            raise NoAnswerError(f"failed to call webhook: {error}") from None
        send = partial(_send, self._session, url, data, server_hostname=host, seconds=seconds)
        try:
            try:
                text = await send(trust)
            except aiohttp.ClientConnectorCertificateError as error:
                if not await trust.extends_to(error.host, error.port, error.certificate_error):
                    raise
                text = await send(trust)
        except TimeoutError:
            raise NoAnswerError(
                f'failed to call webhook: Post "{url}?timeout={seconds:g}s": context deadline exceeded'
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoAnswerError(f'failed to call webhook: Post "{url}?timeout={seconds:g}s": {_cause(error)}') from None
        return _response(text, uid)

    def _address(self, hook: Hook) -> tuple[str, str | None]:
        """Where to send, and the name that the certificate must carry if it is not the address's own."""
        client = hook.source["clientConfig"]
        if client.get("url"):
            return client["url"], None
        service = client["service"]
        name, port = f"{service['namespace']}/{service['name']}", service.get("port", 443)
        addresses = self._ctx.service_addresses
        where = addresses.get(f"{name}:{port}") or addresses.get(name)
        if where is None:
            raise NoAnswerError(f'failed to call webhook: no address is known for service "{name}" (port {port})')
        path = (service.get("path") or "").lstrip("/")
        return f"https://{where}/{path}", f"{service['name']}.{service['namespace']}.svc"


def _hooks(configuration: Body) -> list[Hook]:
    return [Hook(source["name"], source, Matching.of_webhook(source)) for source in configuration.get("webhooks") or ()]


async def _send(
    session: aiohttp.ClientSession, url: str, data: bytes, trust: Trust, *, server_hostname: str | None, seconds: float
) -> bytes:
    """POST a review; the answer. Raises NoAnswerError, and what the client raises."""
    async with session.post(
        url,
        data=data,
        headers={"Content-Type": "application/json"},
        ssl=trust.context,
        server_hostname=server_hostname,
        timeout=aiohttp.ClientTimeout(total=seconds),
        params={"timeout": f"{seconds:g}s"},
    ) as reply:
        text = await reply.read()
        if reply.status != 200:
            raise NoAnswerError(
                f"failed to call webhook: the server answered {reply.status}: {text[:200].decode(errors='replace')}"
            )
        return text


def _cause(error: Exception) -> str:
    """The error; of a connection that was not made, in the form of Go, which names no Python objects."""
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        number = error.os_error.errno
        if number is not None and number > 0:
            return f"dial tcp {error.host}:{error.port}: connect: {os.strerror(number).lower()}"
    return str(error)


def _response(text: bytes, uid: str) -> Body:
    try:
        review = msgspec.json.decode(text)
        response = review["response"]
        if response["uid"] != uid:
            raise NoAnswerError(f'expected response.uid="{uid}", got "{response["uid"]}"')
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise NoAnswerError(f"received invalid webhook response: {error}") from None
    if not isinstance(response, dict):
        raise NoAnswerError("received invalid webhook response: response is no object")
    return response


def _rejection(hook: Hook, response: Body) -> ApiError:
    status: Body = response.get("status") or {}
    prefix = f'admission webhook "{hook.name}" denied the request'
    reason = re.sub(r"\s", "", status.get("reason") or "")
    text = status.get("message") or status.get("reason")
    message = f"{prefix}: {text}" if text else f"{prefix} without explanation"
    code = int(status.get("code") or 0)
    return ApiError(max(code, 400), reason, message, details=status.get("details"))


def _patched(hook: Hook, response: Body, body: Body) -> Body:
    if response.get("patchType") != "JSONPatch":
        raise internal(
            f'webhook "{hook.name}" answered with a patch of type {response.get("patchType")!r}: only JSONPatch is known'
        )
    try:
        operations = msgspec.json.decode(base64.b64decode(response["patch"]))
        made: Body = json_patch(body, operations)
    except (binascii.Error, msgspec.DecodeError, PatchError) as error:
        raise internal(f'the patch of webhook "{hook.name}" cannot be applied: {error}') from None
    return made
