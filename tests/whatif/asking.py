"""What-if questions about worlds in the notation of the scheduler's tests."""

from collections.abc import Iterable
from typing import Any

from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import SchedulerConfig, default
from volcanopy.whatif.answer import Answer, JobAnswer, Limits, answer
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.engine import Budget, Engine
from volcanopy.whatif.kinds import body_of
from volcanopy.whatif.load import Loaded, load, submit
from volcanopy_testing.notation import NOW, world

Json = dict[str, Any]


def bodies(text: str) -> list[Json]:
    """The manifests of a world."""
    return [body_of(item) for item in world(text)]


def batch_job(name: str, replicas: int = 1, cpu: str = "1", **fields: Any) -> Json:
    """A new BatchJob with one task; ``pod`` and ``task`` are fields of the pod's and the task's spec."""
    pod, task = fields.pop("pod", {}), fields.pop("task", {})
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"containers": [container], **pod}}
    tasks = [{"name": "w", "replicas": replicas, "template": template, **task}]
    return {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": name},
        "spec": {"tasks": tasks, **fields},
    }


def loaded(manifests: Iterable[Json]) -> Loaded:
    """The cluster of manifests, with the new ones submitted."""
    result = load(manifests)
    submit(result, NOW)
    return result


def engine(cluster: Cluster, config: SchedulerConfig | None = None) -> Engine:
    """The engine of a cluster in which the controllers have handled everything."""
    made = Engine(cluster, config or default(builtin()), NOW)
    made.settle()
    return made


def ask(
    manifests: Iterable[Json],
    config: SchedulerConfig | None = None,
    *,
    cycles: int = 5000,
) -> Answer:
    """The answer about the waiting jobs of manifests."""
    made = engine(loaded(manifests).cluster, config)
    return answer(made, Limits(Budget(200), Budget(cycles), estimates=Budget(cycles)))


def find(result: Answer, name: str) -> JobAnswer | None:
    """The answer about a job, with or without its namespace."""
    return next(
        (job for job in result.jobs if name in {job.target.name, f"{job.target.namespace}/{job.target.name}"}), None
    )


def job(text: str, name: str, config: SchedulerConfig | None = None, *new: Json) -> JobAnswer:
    """The answer about one job of a world with new manifests."""
    result = find(ask([*bodies(text), *new], config), name)
    assert result is not None, name
    return result


def remedies(text: str, name: str, config: SchedulerConfig | None = None, *new: Json) -> list[str]:
    """The sentences of the remedies of a job."""
    return [remedy.text for remedy in job(text, name, config, *new).remedies]
