"""An API server with fixed responses: lists, objects by path, and errors.

The output of commands can be compared exactly, since nothing changes.
"""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from volcanopy.kube.client.kinds import Json

JOBS = "/apis/batch.volcanopy.io/v1alpha1/namespaces/{}/batchjobs"
USER = "ada"


class _Server(ThreadingHTTPServer):
    """Ignores clients that have closed their connection."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let go of a connection that the other side has reset; anything else is a fault of ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@dataclass
class FakeApiServer:
    """The responses by method and path (without the query), and the requests received."""

    url: str = ""
    answers: dict[tuple[str, str], tuple[int, Json]] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, list[str]], Any]] = field(default_factory=list)
    otherwise: tuple[int, Json] | None = None
    """The response to all other requests; by default 404."""
    warnings: tuple[str, ...] = ()
    """Warnings in the responses to requests that write."""

    def kubeconfig(self, folder: Path, namespace: str = "default") -> Path:
        """Write a kubeconfig for this server and return its path."""
        path = folder / "canned.kubeconfig"
        context = {"cluster": "canned", "user": USER, "namespace": namespace}
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "canned", "cluster": {"server": self.url}}],
                    "users": [{"name": USER, "user": {"token": "t"}}],
                    "contexts": [{"name": "canned", "context": context}],
                    "current-context": "canned",
                }
            )
        )
        return path

    def has(self, path: str, *bodies: Json) -> None:
        """Serve a list of these objects, and each of them by its name."""
        self.answers["GET", path] = (200, {"metadata": {"resourceVersion": "7"}, "items": list(bodies)})
        for body in bodies:
            self.answers["GET", f"{path}/{body['metadata']['name']}"] = (200, body)

    def answer(self, method: str, path: str) -> tuple[int, Json]:
        """Return the response to a request."""
        if (method, path) in self.answers:
            return self.answers[method, path]
        if self.otherwise is not None:
            return self.otherwise
        above, _, name = path.rpartition("/")
        if ("GET", above) in self.answers and method == "GET":
            return error_status(404, "NotFound", f'batchjobs.batch.volcanopy.io "{name}" not found', name)
        return error_status(404, "NotFound", "the server could not find the requested resource")


def error_status(code: int, reason: str, message: str, name: str = "") -> tuple[int, Json]:
    """A Status."""
    details = {"name": name, "kind": "batchjobs"} if name else {}
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason}
    return code, {**status, "details": details, "code": code}


def forbidden(verb: str, what: str = "batchjobs", namespace: str = "default") -> tuple[int, Json]:
    """Return the Status of a request that RBAC forbids."""
    message = (
        f'{what}.batch.volcanopy.io is forbidden: User "{USER}" cannot {verb} resource "{what}" '
        f'in API group "batch.volcanopy.io" in the namespace "{namespace}"'
    )
    return error_status(403, "Forbidden", message)


NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
"""The time of fixed worlds; commands get it by the environment variable ``CLOCK``."""


def ago(**span: float) -> str:
    """A time before ``NOW``, as the API writes it."""
    return (NOW - timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_job(
    name: str, phase: str, message: str = "", *, created: str = "", namespace: str = "default", **more: Any
) -> Json:
    """A job as its controller leaves it; ``more`` is of its status."""
    task = {"name": "worker", "replicas": 4, "template": {"spec": {"containers": [{"name": "c", "image": "trainer"}]}}}
    created = created or ago(days=3, hours=4, minutes=2)
    state = {"phase": phase, "reason": "PodGroupPending", "message": message, "lastTransitionTime": created}
    return {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{name}",
            "resourceVersion": "5",
            "creationTimestamp": created,
            "managedFields": [{"manager": "m"}],
        },
        "spec": {"queue": "research", "minAvailable": 4, "tasks": [task]},
        "status": {"state": state, "minAvailable": 4, **more},
    }


@contextmanager
def fake_api_server() -> Iterator[FakeApiServer]:
    """A server that runs until the end of the block."""
    api = FakeApiServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            api.asked.append((self.command, url.path, parse_qs(url.query), body))
            code, said = api.answer(self.command, url.path)
            text = json.dumps(said).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            if self.command != "GET":
                for warning in api.warnings:
                    self.send_header("Warning", f'299 - "{warning}"')
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """The tests' output is no access log."""

    for method in ("GET", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._answer)
    server = _Server(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    # It looks so often whether it is to stop.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
