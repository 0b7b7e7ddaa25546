"""The HTTP extender: a plan with a real server, and the same plan from the recorded answers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from tests.scheduler.plugins.scene import configured, seen
from volcanopy.kube.metrics import registry
from volcanopy.scheduler.core import schedule
from volcanopy.services.scheduler.extender_client import HttpExtender

WORLD = """
    node n1 cpu=8
    node n2 cpu=8
    node n3 cpu=8
    job a: 2 x cpu=1
"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections: ClassVar[set[Any]] = set()
    released: ClassVar[threading.Event] = threading.Event()

    def do_POST(self) -> None:
        self.connections.add(self.client_address)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = 200, b"{}"
        if self.path == "/v1/predicate":
            answer = json.dumps({"status": "" if body["node"]["Name"] != "n1" else "n1 is kept"}).encode()
        elif self.path == "/v1/prioritize":
            answer = json.dumps({"nodeScore": {"n3": 5}}).encode()
        elif self.path == "/v1/broken":
            status = 500
        elif self.path == "/v1/slow":
            self.released.wait()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Nothing: a client that waits no longer has closed its connection."""


@contextmanager
def _server() -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), _Handler)
    _Handler.connections.clear()
    _Handler.released.clear()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        _Handler.released.set()
        server.shutdown()
        server.server_close()


def test_a_plan_follows_the_answers_of_an_extender() -> None:
    verbs = {"extender.predicateVerb": "predicate", "extender.prioritizeVerb": "prioritize"}
    with _server() as url, HttpExtender() as extender:
        plugins = {"gang": {}, "predicates": {}, "extender": {"extender.urlPrefix": url} | verbs}
        config = configured(plugins)
        plan = schedule(seen(WORLD), config, extender=extender)
        connections = len(_Handler.connections)
    assert str(plan).splitlines()[:2] == ["bind a-0 -> n3", "bind a-1 -> n3"]
    assert connections <= 17  # they stay open: one for each of the requests at once, and that of the deciding thread
    assert "bind a-0 -> n1" in str(schedule(seen(WORLD), config))


def test_errors_are_one_sentence_and_counted() -> None:
    with _server() as url, HttpExtender() as extender:
        (answer,) = extender.ask(f"{url}/broken", 5, [b"{}"])
        assert answer.error == f"extender {url}/broken returned 500, not 200"
        assert not answer.down
        slow = extender.ask(f"{url}/slow", 0.05, [b"{}"] * 40)
    assert {answer.error for answer in slow} == {f"extender {url}/slow does not answer within 0.05 s: timed out"}
    assert all(answer.down for answer in slow)
    down = registry.REGISTRY.get_sample_value("volcanopy_extender_requests_total", {"verb": "slow", "result": "down"})
    assert down is not None
    assert 1 <= down <= 16  # those that had not begun fail with the first


def test_a_server_that_is_not_there_is_named() -> None:
    with _server() as url:
        pass
    with HttpExtender() as extender:
        (answer,) = extender.ask(f"{url}/predicate", 5, [b"{}"])
    assert answer.down
    assert answer.error.startswith(f"extender {url}/predicate does not answer within 5 s: ")
