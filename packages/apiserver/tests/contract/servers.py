"""Two API servers under one roof, and what their answers have in common once everything accidental is taken out."""

import asyncio
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

JSON = "application/json"
MERGE = "application/merge-patch+json"
PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_GENERATED = re.compile(r"(generated-)[bcdfghjklmnpqrstvwxz2456789]{5}")
_VERSION = re.compile(
    r"(resourceVersion[^0-9]{0,20}|in record \(|resource version: |current: |ResourceVersion in [a-z ]+: )\d+"
)
_DROPPED = frozenset(
    {"resourceVersion", "managedFields", "uid", "selfLink", "continue", "serviceAccount", "serviceAccountName"}
)


@dataclass(frozen=True)
class Step:
    """One request; `{ns}` in the path stands for the case's namespace."""

    method: str
    path: str
    body: Any = None
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    """Keys that this step's comparison leaves out, at any depth."""
    keep: tuple[str, ...] = ()
    """Keys that comparisons leave out otherwise, and this one does not."""
    only: tuple[str, ...] = ()
    """If given, only these top-level keys of the answer are compared."""
    code: int = 0
    """If given, the step is repeated on each server until it answers so: for what happens beside the requests."""
    why: str = ""
    """Why the servers may differ in what `drop` names."""


@dataclass(frozen=True)
class Answer:
    """The response of a server: code, body, and the texts of its warnings."""

    code: int
    body: Any
    warnings: tuple[str, ...] = ()


class Server:
    """One of the two."""

    def __init__(self, name: str, url: str, token: str, ca: str) -> None:
        self.name = name
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "contract/1"}
        self._tls = ssl.create_default_context(cadata=ca) if ca else False
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, step: Step, namespace: str) -> Answer:
        """Send the request; the answer as it came."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30))
        data = None
        if step.body is not None:
            data = json.dumps(step.body).replace("{ns}", namespace).encode()
        headers = {**self._headers, "Content-Type": step.media, "Accept": JSON, **step.headers}
        url = self.url + step.path.replace("{ns}", namespace)
        async with self._session.request(step.method, url, data=data, headers=headers, ssl=self._tls) as response:
            text = await response.text()
            try:
                body = json.loads(text)
            except ValueError:
                body = [json.loads(line) for line in text.splitlines()] if "watch=" in url else text
            warnings = tuple(response.headers.getall("Warning", []))
            return Answer(response.status, body, warnings)

    async def settled(self, step: Step, namespace: str, seconds: float = 120.0) -> Answer:
        """The answer to the step, once its code is the expected one if it names one."""
        answer = await self.ask(step, namespace)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while step.code and answer.code != step.code and loop.time() < deadline:
            await asyncio.sleep(0.1)
            answer = await self.ask(step, namespace)
        return answer

    async def cached(self, path: str, namespace: str) -> None:
        """Wait until the server's watch cache has the newest version of the object, if there is one.

        kube-apiserver first decides a deletion by the object in its cache, and keeps the grace period of that decision
        when it repeats it with the newest version: a pod that was bound just before is deleted without grace.
        """
        newest = await self.ask(Step("GET", path), namespace)
        version = newest.body.get("metadata", {}).get("resourceVersion") if newest.code == 200 else None
        if version is not None:
            await self.ask(Step("GET", f"{path}?resourceVersion={version}"), namespace)

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()


def comparable(answer: Answer, step: Step) -> Any:
    """The answer without versions, uids, times and what the step leaves out."""
    body = answer.body
    if step.only:
        body = {key: body[key] for key in step.only if key in body} if isinstance(body, dict) else {}
    plain = _plain(body, (frozenset(step.drop) | _DROPPED) - frozenset(step.keep))
    warnings = [] if "warnings" in step.drop else list(answer.warnings)
    return {"code": answer.code, "body": plain, "warnings": warnings}


def _plain(value: Any, dropped: frozenset[str]) -> Any:
    if isinstance(value, dict):
        kept = {key: _plain(item, dropped) for key, item in value.items() if key not in dropped}
        return {key: item for key, item in kept.items() if item is not None}
    if isinstance(value, list):
        return [_plain(item, dropped) for item in value]
    if isinstance(value, str):
        value = _VERSION.sub(r"\1<version>", _TIME.sub("<time>", _UID.sub("<uid>", value)))
        return _GENERATED.sub(r"\1<name>", value)
    return value
