"""Reviews are answered for the API server only: it alone knows the path."""

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from datetime import UTC, datetime

from tests.services.service_cluster import Cluster
from tests.services.test_admission import admission
from volcanopy.api.model import Json
from volcanopy.kube.cache.followed_kinds import QUEUES
from volcanopy.services.admission.review_paths import PERIOD, ReviewPaths
from volcanopy.services.admission.webhook_configuration import CONFIGURATION, VALIDATING

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Server:
    """A server with a key and a clock; ``shared`` is what it reads when it reads the key again."""

    def __init__(self, key: str, shared: str = "") -> None:
        self.key, self.shared, self.now, self.reads = key, shared or key, NOW, 0
        self.paths = ReviewPaths(lambda: self.key, self._read, lambda: self.now)

    async def _read(self) -> None:
        await asyncio.sleep(0)
        self.key, self.reads = self.shared, self.reads + 1


async def test_servers_with_one_key_accept_the_same_paths_for_twenty_minutes() -> None:
    one, other = Server("key"), Server("key")
    part = one.paths.current()
    for shift, expected in ((-1, True), (0, True), (1, True), (2, False)):
        other.now = NOW + shift * PERIOD
        assert await other.paths.accepts(part) is expected


async def test_another_key_is_read_at_once_and_at_most_once_a_second() -> None:
    renewed, late = Server("new"), Server("old", shared="new")
    part = late.paths.current()
    assert await late.paths.accepts(renewed.paths.current())
    assert await late.paths.accepts(part), "the API server may not have the new path yet"
    assert [await late.paths.accepts("forged") for _ in range(100)] == [False] * 100
    assert late.reads == 1


async def test_requests_that_come_while_the_key_is_read_wait_for_it() -> None:
    renewed, late = Server("new"), Server("old", shared="new")
    accepted = await asyncio.gather(*(late.paths.accepts(renewed.paths.current()) for _ in range(4)))
    assert (accepted, late.reads) == ([True] * 4, 1)


async def test_without_the_key_no_path_is_guessed() -> None:
    server = Server("key")
    for guess in ("", "é", "0" * 32, Server("other").paths.current()):
        assert not await server.paths.accepts(guess)


async def test_a_forged_review_gets_no_verdict(cluster: Cluster) -> None:
    """Otherwise anybody could ask what is in other namespaces, and keep the server busy."""
    async with admission(cluster):
        configuration = await cluster.client.get(VALIDATING, None, CONFIGURATION)
        config = configuration["webhooks"][0]["clientConfig"]
        host, part = config["url"].rpartition("/")[0], config["url"].rpartition("/")[2]
        assert await asyncio.to_thread(_post, host) == 404
        assert await asyncio.to_thread(_post, f"{host}/{part[::-1]}") == 403
        assert await asyncio.to_thread(_post, config["url"]) == 200


def _post(url: str) -> int:
    meta: Json = {"name": "forged"}
    queue: Json = {
        "apiVersion": QUEUES.api_version,
        "kind": "Queue",
        "metadata": meta,
        "spec": {"capability": {"cpu": "1"}},
    }
    request: Json = {
        "uid": "1",
        "kind": {"group": "scheduling.volcanopy.io", "version": "v1beta1", "kind": "Queue"},
        "operation": "CREATE",
        "name": "forged",
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
        "object": queue,
    }
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, data=body, timeout=60, context=context) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
