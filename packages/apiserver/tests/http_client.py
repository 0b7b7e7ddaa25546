"""A plain HTTP client and objects for the tests of the server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


class Client:
    """Requests by method and path; answers as (code, body)."""

    def __init__(self, url: str, headers: dict[str, str] | None = None, *, tls: Any = True) -> None:
        self.url = url
        self.warnings: list[str] = []
        self._headers = headers or {}
        self._tls = tls
        self._session = aiohttp.ClientSession()

    async def close(self) -> None:
        await self._session.close()

    async def ask(
        self, method: str, path: str, body: Any = None, media: str = "application/json", **headers: str
    ) -> tuple[int, Any]:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {**self._headers, "Content-Type": media, **{k.replace("_", "-"): v for k, v in headers.items()}}
        async with self._session.request(method, self.url + path, data=data, headers=sent, ssl=self._tls) as response:
            text = await response.text()
            self.warnings = response.headers.getall("Warning", [])
            return response.status, json.loads(text) if text.startswith(("{", "[")) else text

    async def get(self, path: str) -> Any:
        code, body = await self.ask("GET", path)
        assert code == 200, body
        return body

    async def create(self, path: str, body: Any) -> Any:
        code, made = await self.ask("POST", path, body)
        assert code == 201, made
        return made

    async def patch(self, path: str, body: Any, media: str = MERGE) -> Any:
        code, made = await self.ask("PATCH", path, body, media)
        assert code in {200, 201}, made
        return made

    async def delete(self, path: str, **options: Any) -> Any:
        code, made = await self.ask("DELETE", path, options or None)
        assert code == 200, made
        return made

    async def until(self, path: str, code: int, seconds: float = 120.0) -> Any:
        """Ask until the answer has this code."""
        async with asyncio.timeout(seconds):
            while True:
                got, body = await self.ask("GET", path)
                if got == code:
                    return body
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def watching(self, path: str) -> AsyncIterator["Watching"]:
        joint = "&" if "?" in path else "?"
        async with self._session.get(
            f"{self.url}{path}{joint}watch=true", headers=self._headers, ssl=self._tls
        ) as response:
            assert response.status == 200, await response.text()
            yield Watching(response)


class Watching:
    """An open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self, seconds: float = 120.0) -> dict[str, Any]:
        """The next event; an empty one at the end."""
        async with asyncio.timeout(seconds):
            line = await self._response.content.readline()
            return json.loads(line) if line else {}

    async def brief(self, count: int) -> list[str]:
        """The next events as `TYPE name`."""
        events = [await self.next() for _ in range(count)]
        return [f"{event['type']} {event['object']['metadata']['name']}" for event in events]


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod with one container."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def map_of(name: str, labels: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    """A ConfigMap."""
    return {"metadata": {"name": name, "labels": labels or {}, **metadata}, "data": {"k": "v"}}


def owner(body: dict[str, Any], kind: str = "ConfigMap", *, block: bool = False) -> dict[str, Any]:
    """A reference to the object as an owner."""
    metadata = body["metadata"]
    reference = {"apiVersion": "v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**reference, "blockOwnerDeletion": True} if block else reference


def binding(name: str, node: str) -> dict[str, Any]:
    """A Binding."""
    return {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
