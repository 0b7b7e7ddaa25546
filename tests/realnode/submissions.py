"""Jobs that are submitted, and requests that call the webhooks, while something happens to the cluster."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPSConnection
from itertools import count
from threading import Event
from urllib.parse import urlsplit

from tests.realnode.cluster_client import ENDED, JOBS, ClusterClient, Json, job, shell, task
from volcanopy.kube.client.kubeconfig import load_connection

PAUSE = 0.5
"""Seconds between two submissions."""
CALLERS, CALLER_PAUSE = 4, 0.1
"""Connections with requests that call the webhooks, and seconds between two requests of one."""


def api_server(client: ClusterClient) -> HTTPSConnection:
    """Return a connection of the administrator to the API server."""
    cluster = load_connection(client.cluster.kubeconfig, None)
    url = urlsplit(cluster.url)
    return HTTPSConnection(url.hostname or "", url.port, context=cluster.ssl)


def post(server: HTTPSConnection, path: str, body: Json) -> tuple[int, str]:
    """Send a request, which is not repeated, and return status and text of the answer."""
    server.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = server.getresponse()
    return answer.status, answer.read().decode()


def rejections(client: ClusterClient, ended: Event) -> list[str]:
    """Create a job that is not stored, again and again on one connection; return the answers other than success."""
    body = job("unstored", task("t", 1, shell("true")))
    path = f"/apis/batch.volcanopy.io/v1alpha1/namespaces/{client.namespace}/batchjobs?dryRun=All"
    answers = []
    with closing(api_server(client)) as server:
        while not ended.wait(CALLER_PAUSE):
            answers.append(post(server, path, body))
    print(f"{len(answers)} requests")
    return [text for status, text in answers if status != 201]


@contextmanager
def submissions(client: ClusterClient) -> Iterator[None]:
    """Submit jobs one after the other, of which each must be accepted, until the end of the context; so must the requests be
    that call the webhooks meanwhile."""
    ended = Event()

    def submit() -> None:
        for number in count():
            client.submit(job(f"during-{number}", task("t", 1, shell("true"))))
            if ended.wait(PAUSE):
                return

    with ThreadPoolExecutor(1 + CALLERS) as pool:
        submitter = pool.submit(submit)
        callers = [pool.submit(rejections, client, ended) for _ in range(CALLERS)]
        try:
            yield
        finally:
            ended.set()
        submitter.result()
        rejected = Counter(text for caller in callers for text in caller.result())
        assert not rejected, rejected


def ended_jobs(client: ClusterClient) -> dict[str, str]:
    """Return the phases of the submitted jobs when all have ended; the job "long" goes on."""
    phases: dict[str, str] = {}

    def all_ended() -> bool:
        for item in client.items(JOBS):
            phases[item["metadata"]["name"]] = item.get("status", {}).get("state", {}).get("phase", "")
        phases.pop("long")
        return set(phases.values()) <= set(ENDED)

    client.until(all_ended)
    return phases
