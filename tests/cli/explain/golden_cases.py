"""What ``explain``, ``queue`` and ``snapshot`` show of a fixed world, in a pipe and in a real terminal: see ``golden/``.

``python -m tests.cli.explain.golden_cases`` writes the texts anew: review the difference like code.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cli.fake_api_server import JOBS, FakeApiServer, a_job, ago, error_status, fake_api_server
from tests.cli.golden_cases import Case, output_of
from volcanopy.kube.client.kinds import Json

GOLDEN = Path(__file__).parent / "golden"
WHY = "4 pods must start together, 3 can be placed: 0/3 nodes are available: 3 Insufficient cpu"
_SCHEDULING = "/apis/scheduling.volcanopy.io/v1beta1"

CASES = (
    Case("job-piped", ("explain", "job", "training")),
    Case("job-terminal", ("explain", "job", "training"), 100),
    Case("job-terminal-no-color", ("explain", "job", "training"), 100, no_color=True),
    Case("job-json", ("explain", "job", "training", "-o", "json")),
    Case("job-yaml", ("explain", "job", "training", "-o", "yaml")),
    Case("job-with-few-rights", ("explain", "job", "elsewhere")),
    Case("job-completed", ("explain", "job", "done")),
    Case("job-missing-terminal", ("explain", "job", "trainin"), 100),
    Case("job-help", ("explain", "job", "--help")),
    Case("queue-piped", ("explain", "queue", "research")),
    Case("queue-terminal", ("explain", "queue", "research"), 100),
    Case("queue-json", ("explain", "queue", "research", "-o", "json")),
    Case("queue-list-piped", ("queue", "list")),
    Case("queue-list-wide", ("queue", "list", "-o", "wide")),
    Case("queue-list-terminal", ("queue", "list"), 100),
    Case("queue-tree-piped", ("queue", "tree")),
    Case("queue-tree-terminal", ("queue", "tree"), 120),
    Case("queue-tree-narrow", ("queue", "tree"), 80),
    Case("queue-describe", ("queue", "describe", "research")),
    Case("queue-describe-usage", ("queue", "describe", "web")),
    Case("usage-decayed", ("usage", "--decayed")),
    Case("usage-decayed-yaml", ("usage", "--decayed", "--resource", "memory", "-o", "yaml")),
    Case("queue-delete-help", ("queue", "delete", "--help")),
    Case("queue-tree-memory", ("queue", "tree", "research", "--resource", "memory")),
    Case("queue-tree-unknown", ("queue", "tree", "--resource", "gpu"), 100),
    Case("queue-help", ("queue", "--help")),
    Case("queue-update-help", ("queue", "update", "--help")),
    Case("queue-bad-flag-terminal", ("queue", "close", "research", "--force"), 100),
    Case("snapshot-help", ("snapshot", "--help")),
    Case("snapshot-forbidden", ("snapshot",)),
)


@contextmanager
def world() -> Iterator[Path]:
    """A server with a few jobs and queues, and things that may not be read; gives the way to it."""
    with fake_api_server() as server, TemporaryDirectory() as folder:
        _create_objects(server)
        yield server.kubeconfig(Path(folder))


def _create_objects(server: FakeApiServer) -> None:
    made = ago(hours=5, minutes=30, seconds=20)
    elsewhere = a_job("elsewhere", "Pending", WHY, created=made, pending=4)
    elsewhere["spec"]["queue"] = "secret"
    jobs = [
        a_job("done", "Completed", "4 pods succeeded", created=made, succeeded=4),
        elsewhere,
        a_job("training", "Pending", WHY, created=made, pending=4),
    ]
    server.has(JOBS.format("default"), *jobs)
    server.answers["GET", "/apis/batch.volcanopy.io/v1alpha1/batchjobs"] = error_status(403, "Forbidden", "no")
    groups = [_group("training", made), _group("elsewhere", made)]
    server.has(f"{_SCHEDULING}/namespaces/default/podgroups", *groups)
    server.answers["GET", f"{_SCHEDULING}/podgroups"] = error_status(403, "Forbidden", "no")
    server.has(f"{_SCHEDULING}/queues", *_queues(made))
    server.answers["GET", f"{_SCHEDULING}/queues/secret"] = error_status(403, "Forbidden", "no")
    server.has("/api/v1/namespaces/default/events")
    server.has("/api/v1/namespaces/default/pods", *(_pod(number) for number in range(4)))
    for path in ("/api/v1/namespaces", "/api/v1/nodes", "/api/v1/pods", "/api/v1/resourcequotas"):
        server.answers["GET", path] = _may_not_list(path.rpartition("/")[2])


def _may_not_list(what: str) -> tuple[int, Json]:
    return error_status(
        403,
        "Forbidden",
        f'{what} is forbidden: User "ada" cannot list resource "{what}" in API group "" at the cluster scope',
    )


def _group(job: str, made: str) -> Json:
    why = {
        "gate": "nodes",
        "message": WHY,
        "unblockedBy": 'release of 2 cpu on node "n1"',
        "numbers": {"needed": "4", "fit": "3", "position": "2"},
        "nodes": {"Insufficient cpu": 3, "node(s) had untolerated taint {dedicated: gpu}": 12},
        "amounts": {
            "requested": {"cpu": "4"},
            "allocated": {"cpu": "6"},
            "available": {"cpu": "2"},
            "limit": {"cpu": "8"},
        },
        "blockedBy": ["job default/first"],
    }
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": WHY}
    return {
        "metadata": {
            "name": f"{job}-uid-of-{job}",
            "namespace": "default",
            "uid": "g",
            "creationTimestamp": made,
            "ownerReferences": [{"kind": "BatchJob", "name": job, "uid": f"uid-of-{job}", "controller": True}],
        },
        "spec": {"minMember": 4, "queue": "research"},
        "status": {"phase": "Inqueue", "conditions": [condition], "explanation": why},
    }


def _queues(made: str) -> list[Json]:
    def queue(name: str, spec: Json, **status: object) -> Json:
        metadata = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1", "creationTimestamp": made}
        return {"metadata": metadata, "spec": spec, "status": {"state": "Open", **status}}

    all_of = {"cpu": "24", "memory": "96Gi"}
    sums = {"cpu": "144000.123456", "memory": "123695058124800"}
    return [
        queue("default", {"weight": 1}, fairShare={"cpu": "6"}),
        queue(
            "root",
            {"weight": 1},
            allocated={"cpu": "18", "memory": "40Gi"},
            fairShare=all_of,
            share="0.75",
            usage=sums,
            creditTime=made,
        ),
        queue("closed", {"weight": 1}, state="Closed"),
        queue(
            "team",
            {"weight": 3, "capability": {"cpu": "20"}},
            allocated={"cpu": "18", "memory": "40Gi"},
            fairShare={"cpu": "18"},
            usage=sums,
            creditTime=made,
        ),
        queue(
            "research",
            {
                "weight": 2,
                "parent": "team",
                "fairShare": {"cpu": "12"},
                "guarantee": {"resource": {"cpu": "2"}},
                "jobOrder": "fair",
            },
            allocated={"cpu": "16", "memory": "32Gi", "pods": "4"},
            fairShare={"cpu": "12"},
            guaranteed={"cpu": "2"},
            borrowed={"cpu": "4"},
            waiting={"cpu": "16"},
            share="1.33",
            credit={"cpu": "-31.52", "memory": "4.25"},
            usage={"cpu": "57600", "memory": "123695058124800", "pods": "14400"},
            creditTime=made,
            users=[
                {
                    "name": "",
                    "allocated": {"cpu": "2"},
                    "share": "0.1",
                    "fairShare": "0.22",
                    "credit": "12.345678",
                    "usage": {"cpu": "14400"},
                },
                {
                    "name": "ana",
                    "allocated": {"cpu": "14"},
                    "share": "0.55",
                    "fairShare": "0.43",
                    "credit": "-12.345678",
                    "usage": {"cpu": "43200"},
                },
            ],
            inqueue=2,
            running=3,
            jobs=5,
        ),
        queue(
            "web",
            {"weight": 1, "parent": "team", "stopPolicy": "Hold", "jobOrder": "usage"},
            allocated={"cpu": "2", "memory": "8Gi"},
            usage={"cpu": "86400.123456"},
            creditTime=made,
            users=[
                {
                    "name": "bo",
                    "allocated": {"cpu": "2", "memory": "8Gi"},
                    "share": "0.05",
                    "fairShare": "0.05",
                    "usage": {"cpu": "86400.123456"},
                }
            ],
        ),
    ]


def _pod(number: int) -> Json:
    labels = {
        "volcanopy.io/job-name": "training",
        "volcanopy.io/task-spec": "worker",
        "volcanopy.io/task-index": str(number),
    }
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": WHY}
    return {
        "metadata": {
            "name": f"training-worker-{number}",
            "namespace": "default",
            "labels": labels,
            "ownerReferences": [{"kind": "BatchJob", "name": "training", "uid": "uid-of-training", "controller": True}],
        },
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Pending", "conditions": [waiting]},
    }


def write() -> None:
    """Write all texts anew."""
    GOLDEN.mkdir(exist_ok=True)
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    with world() as config:
        for case in CASES:
            (GOLDEN / f"{case.name}.txt").write_text(output_of(case, config), encoding="utf-8")


if __name__ == "__main__":
    write()
