"""Speed of admission: `python -m bench.admission`; `--hostile 20000` measures malformed and hostile reviews.

Reviews are those of real work: jobs of one to eight tasks in a tree of 200 queues, changes of queues, PodGroups and pods.
What is measured is the processor time from the bytes of the review to the bytes of the answer, both webhooks.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import msgspec

from tests.admission.golden_cases import world
from volcanopy.admission.context import Context
from volcanopy.admission.pod_dry_run import dry_runs
from volcanopy.admission.request import Request
from volcanopy.admission.review import mutate, validate
from volcanopy.api import names
from volcanopy.installed.job_plugins import job_registry
from volcanopy.services.admission.admission_service import read
from volcanopy.services.admission.pod_dry_run import pod_maker

Json = dict[str, Any]
Judge = Callable[[Json, Context], Json]
COUNT = 2000
LARGEST = 3 * 1024 * 1024


def _world() -> Context:
    parts = [{"name": f"part{n}", "deserved": {"cpu": "1000", "memory": "4Ti"}} for n in range(20)]
    queues = [
        {"name": f"queue{n}", "parent": f"part{n % 20}", "deserved": {"cpu": "50"}, "submitters": {"groups": ["staff"]}}
        for n in range(200)
    ]
    nodes = [{"cpu": str(8 + n % 64), "memory": f"{32 + n % 100}Gi", "pods": 110} for n in range(300)]
    known = world({"queues": [*parts, *queues], "nodes": nodes})
    return replace(known, make_pod=pod_maker(job_registry()))


def _task(number: int) -> Json:
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sh", "-c", "sleep 10"],
        "env": [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(8)],
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }
    spec = {"containers": [container], "restartPolicy": "Never"}
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    return {"name": f"task{number}", "replicas": 4, "template": {"spec": spec}, "policies": policies}


def _objects(number: int) -> Json:
    spec: Json
    match number % 8:
        case 0:
            spec = {"parent": f"part{number % 20}", "deserved": {"cpu": "2"}, "capability": {"cpu": "9"}}
            return _object(names.SCHEDULING, "v1beta1", "Queue", f"new{number}", spec)
        case 1:
            spec = {"minMember": 4, "queue": f"queue{number % 200}", "minResources": {"cpu": "2"}}
            return _object(names.SCHEDULING, "v1beta1", "PodGroup", f"group{number}", spec)
        case 2:
            return _object(
                "", "v1", "Pod", f"pod{number}", {"schedulerName": "volcanopy"} | _task(0)["template"]["spec"]
            )
        case _:
            tasks = [_task(n) for n in range(1 + number % 8)]
            spec = {"tasks": tasks, "queue": f"queue{number % 200}", "plugins": {"env": [], "svc": []}}
            return _object(names.BATCH, "v1alpha1", "BatchJob", f"job{number}", spec)


def _object(group: str, version: str, kind: str, name: str, spec: Json) -> Json:
    api = f"{group}/{version}" if group else version
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "team"}, "spec": spec}


def _review(number: int) -> bytes:
    body = _objects(number)
    group, _, version = body["apiVersion"].rpartition("/")
    request = {
        "uid": f"u{number}",
        "kind": {"group": group, "version": version, "kind": body["kind"]},
        "operation": "CREATE",
        "name": body["metadata"]["name"],
        "namespace": "team",
        "userInfo": {"username": "alice", "groups": ["staff", "system:authenticated"]},
        "object": body,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def _spent(body: bytes, context: Context) -> float:
    """Return the CPU seconds of both webhooks for a review."""
    start = time.process_time()
    for judge in (mutate, _validated):
        msgspec.json.encode(judge(read(body), context))
    return time.process_time() - start


def _validated(body: Json, context: Context) -> Json:
    """The verdict, with the pods made and written that the API server would be asked about."""
    request = Request.of(body)
    for trial in dry_runs(request, context) if request is not None else ():
        msgspec.json.encode(trial.pod, order="deterministic")
    return validate(body, context)


def run() -> dict[str, float]:
    """Reviews a second on one core, and the 99th of a hundred in milliseconds."""
    context = _world()
    bodies = [_review(number) for number in range(COUNT)]
    for body in bodies[:100]:
        _spent(body, context)
    seconds = sorted(_spent(body, context) for body in bodies)
    return {
        "reviews_per_second": COUNT / sum(seconds),
        "p99_milliseconds": seconds[int(COUNT * 0.99)] * 1000,
        "median_milliseconds": median(seconds) * 1000,
    }


def hostile(count: int, seed_number: int) -> tuple[int, float, list[tuple[float, str]]]:
    """Send so many malformed and hostile reviews. Raises where no answer comes.

    Gives how many were answered, the seconds that 99 of 100 answers took at most, and the slowest.

    What is drawn is sent as every kind and for every operation, since drawing costs far more than answering.
    """
    from hypothesis import HealthCheck, given, seed, settings

    from tests.admission.hostile import KINDS, reviews
    from tests.admission.test_hostile import WORLD

    slowest: list[tuple[float, str]] = []
    spent: list[float] = []
    answered = 0
    variants = [(group, kind, operation) for group, kind, _ in KINDS for operation in ("CREATE", "UPDATE", "DELETE")]

    def ask(data: bytes) -> None:
        nonlocal answered
        for judge in (mutate, _validated):
            start = time.process_time()
            try:
                answer = msgspec.json.encode(judge(read(data), WORLD))
            except ValueError:
                answer = b'{"response": {"allowed": false}}'  # the server responds with 400 to such a body
            spent.append(time.process_time() - start)
            slowest.append((spent[-1], f"{judge.__name__} {data[-90:]!r}, {len(data)} bytes: {answer[:160]!r}"))
            assert isinstance(msgspec.json.decode(answer)["response"]["allowed"], bool)
        answered += 1

    @settings(
        max_examples=-(-count // len(variants)), suppress_health_check=list(HealthCheck), deadline=None, database=None
    )
    @seed(seed_number)
    @given(reviews())
    def draw(body: Any) -> None:
        gc.freeze()  # what the drawing has left behind is no server's to look through
        if not isinstance(body, dict) or not isinstance(body.get("request"), dict):
            ask(json.dumps(body).encode())
            return
        for group, kind, operation in variants:
            request = body["request"] | {"kind": {"group": group, "kind": kind}, "operation": operation}
            data = json.dumps(body | {"request": request}).encode()
            if len(data) <= LARGEST:
                ask(data)
        slowest.sort(reverse=True)
        del slowest[10:]

    draw()
    spent.sort()
    return answered, spent[int(len(spent) * 0.99)], slowest


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hostile", type=int, default=0, metavar="COUNT", help="ask so many hostile reviews")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name, value in run().items():
        print(f"{name}: {value:.4g}")
    if given.hostile:
        answered, most, slowest = hostile(given.hostile, given.seed)
        print(f"{answered} hostile reviews answered, 99 of 100 answers within {most * 1000:.2f} ms, the slowest:")
        for seconds, asked in slowest:
            print(f"{seconds * 1000:.1f} ms, {asked}")


if __name__ == "__main__":
    main()
