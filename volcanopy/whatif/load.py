"""Loading of a cluster from manifests, and the submission of new ones to admission and controllers."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from volcanopy.admission.request import User
from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.builtin.template_types import template_problems
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.lifecycle import Command
from volcanopy.api.model import InvalidObjectError, Json, Model, Problem
from volcanopy.api.quantity import QuantityError
from volcanopy.api.times import format_time
from volcanopy.jobcontroller.cron import reconcile_cron
from volcanopy.jobcontroller.flow_jobs import FlowObserved
from volcanopy.jobcontroller.flows import reconcile_flow
from volcanopy.jobcontroller.job_podgroup import pod_usage
from volcanopy.jobcontroller.plan import CreateJob
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, Registry
from volcanopy.whatif import kinds
from volcanopy.whatif.admission import SUPERUSER, admit, problems_of_new, templates_of
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.kinds import KINDS, WORKLOADS, ManifestError
from volcanopy.whatif.new_claims import create_claim

_MODELS: dict[str, type[Model]] = {
    model.__name__: model for model in (BatchJob, CronBatchJob, JobFlow, JobTemplate, Command)
}
_INPUTS = frozenset({"JobTemplate", "Command", "ResourceClaimTemplate", "RuntimeClass"})
"""Kinds from which others are made: they are not submitted."""
_REVIEWED = ("Queue", "HyperNode")
"""Kinds of which new objects are reviewed where they are."""
_MOST_WAIT = timedelta(days=366 * 5)


@dataclass
class Loaded:
    """A cluster, and the manifests that are new: not seen by any controller.

    ``rejected`` has the problems of new manifests by kind and key, ``warnings`` the warnings of admission, ``notes`` what
    was assumed, ``unknown`` the kinds that were left out.
    """

    cluster: Cluster
    rejected: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    new: dict[tuple[str, str], Json] = field(default_factory=dict)


def load(
    bodies: Iterable[Json],
    scheduler_names: Iterable[str] = (names.SCHEDULER,),
    default_queue: str = names.DEFAULT_QUEUE,
) -> Loaded:
    """Return the cluster of manifests; of two with the same name the later one counts. Raises ManifestError.

    Workloads that no API server has stored (without uid) are kept apart for :func:`submit`.
    """
    items: dict[tuple[str, str], Any] = {}
    manifests: dict[tuple[str, str], Json] = {}
    workloads: dict[tuple[str, str], Json] = {}
    unknown: list[str] = []
    for body in bodies:
        identity = (kinds.group_of(body), str(body.get("kind")))
        if kind := KINDS.get(identity):
            whole = kinds.with_namespace(body, kind.namespaced)
            key = (kind.kind, kinds.key_of(whole))
            items[key], manifests[key] = kinds.read(whole, kind), whole
        elif identity in WORKLOADS:
            whole = kinds.with_namespace(body, WORKLOADS[identity])
            if whole["metadata"].get("uid"):
                _check_stored(whole)
            workloads[identity[1], kinds.key_of(whole)] = whole
        else:
            unknown.append(identity[1])
    cluster = Cluster(items.values(), scheduler_names, default_queue)
    cluster.bodies.update(manifests)
    result = Loaded(cluster, unknown=unknown)
    for key, body in workloads.items():
        if body["metadata"].get("uid") or body["kind"] in _INPUTS:
            cluster.put_workload(body)
        else:
            result.new[key] = body
    cluster.commit()
    return result


def _check_stored(body: Json) -> None:
    """Check the types of a workload that an API server has stored. Raises ManifestError.

    Fields that are unknown are those of another version.
    """
    try:
        item = _MODELS[body["kind"]].read(body, unknown="ignore") if body["kind"] in _MODELS else None
    except InvalidObjectError as error:
        raise ManifestError("; ".join(map(str, error.problems))) from None
    for number, task in enumerate(item.spec.tasks if isinstance(item, BatchJob) else ()):
        pod = {"metadata": {"name": task.name}, "spec": task.template.get("spec") or {}}
        try:
            kinds.read(pod, kinds.BY_NAME["Pod"])
        except ManifestError as error:
            raise ManifestError(f"spec.tasks[{number}].template.{error}") from None


def review(loaded: Loaded) -> None:
    """Review the queues and HyperNodes that no API server has stored, and remove rejected ones."""
    cluster = loaded.cluster
    items = [(kind, key, item) for kind in _REVIEWED for key, item in cluster.of_kind(kind).items()]
    new = [(kind, key) for kind, key, item in items if not item.metadata.uid]
    for identity, problems in problems_of_new(cluster, new).items():
        loaded.rejected[identity] = problems
        cluster.remove(*identity)
    cluster.commit()


def submit(loaded: Loaded, now: datetime, user: User = SUPERUSER, registry: Registry = JOB_PLUGINS) -> None:
    """Submit the new claims and workloads: review these, and create the jobs of cron jobs and flows. Raises ManifestError."""
    cluster = loaded.cluster
    for name, claim in cluster.of_kind("PersistentVolumeClaim").items():
        if not claim.metadata.uid and not claim.spec.volume_name:
            create_claim(cluster, kinds.created(cluster.body("PersistentVolumeClaim", name), now))
    cluster.commit()
    if loaded.new:
        add_default_queue(loaded)
        if not loaded.cluster.of_kind("Node"):
            loaded.notes.append(
                "no manifest is a Node, so no pod can be placed: add -f FILE with a snapshot (volcanopy snapshot > FILE) or nodes"
            )
    for key, body in loaded.new.items():
        _submit(loaded, key, body, (now, user, registry))


def add_default_queue(loaded: Loaded) -> None:
    """Add the default queue if the manifests lack it: the scheduler creates it when it starts."""
    cluster = loaded.cluster
    name = cluster.state.default_queue
    if name in cluster.of_kind("Queue"):
        return
    metadata = {"name": name, "uid": name}
    spec = {"weight": 1, "reclaimable": True}
    cluster.put_manifest({"apiVersion": names.SCHEDULING_V1BETA1, "kind": "Queue", "metadata": metadata, "spec": spec})
    cluster.commit()
    loaded.notes.append(f'queue "{name}" is in no manifest: planned with the one that the scheduler creates')


def _submit(loaded: Loaded, key: tuple[str, str], body: Json, context: tuple[datetime, User, Registry]) -> None:
    now, user, registry = context
    cluster = loaded.cluster
    if body["kind"] == "BatchJob" and (problems := tuple(map(str, type_problems(body)))):
        loaded.rejected[key] = problems
        return
    result = admit(cluster, body, user, registry)
    loaded.warnings += [f"{key[0]} {key[1]}: {warning}" for warning in result.warnings]
    if problems := result.problems:
        loaded.rejected[key] = problems
        return
    stored = kinds.created(result.body, now)
    cluster.put_workload(stored)
    try:
        jobs = _jobs_of(loaded, stored, now)
    except InvalidObjectError as error:
        raise ManifestError("; ".join(map(str, error.problems))) from None
    for job in jobs:
        _submit(loaded, ("BatchJob", kinds.key_of(job)), job, context)


def type_problems(body: Json) -> list[Problem]:
    """Return what an API server rejects before admission reviews a job: wrong types, unknown fields and malformed quantities."""
    spec = body.get("spec")
    tasks = spec.get("tasks") if isinstance(spec, dict) else None
    templates = {
        f"spec.tasks[{number}].template": task["template"]
        for number, task in enumerate(tasks if isinstance(tasks, list) else ())
        if isinstance(task, dict) and "template" in task
    }
    problems = list(BatchJob.problems(body))
    problems += [problem for path, template in templates.items() for problem in template_problems(template, path)]
    if problems:
        return problems
    for path, template in templates.items():
        try:
            pod_usage(template["spec"])
        except QuantityError as error:
            problems.append(Problem(f"{path}.spec", str(error)))
    return problems


def _jobs_of(loaded: Loaded, body: Json, now: datetime) -> list[Json]:
    """Return the jobs that a cron job creates next, or a flow at once."""
    cluster, namespace = loaded.cluster, body["metadata"]["namespace"]
    if body["kind"] == "CronBatchJob":
        cron = CronBatchJob.read(body, unknown="ignore")
        due = reconcile_cron(cron, {}, now).again
        name = f"CronBatchJob {kinds.key_of(body)}"
        if due is None or due - now > _MOST_WAIT:
            loaded.notes.append(f"{name}: no job is due")
            return []
        loaded.notes.append(f"{name}: the job that is due at {format_time(due)} is planned as of now")
        plan = reconcile_cron(cron, {}, due)
        return [effect.manifest for effect in plan.effects if isinstance(effect, CreateJob)]
    if body["kind"] == "JobFlow":
        observed = FlowObserved(templates=templates_of(cluster, namespace))
        flow = reconcile_flow(JobFlow.read(body, unknown="ignore"), observed, now)
        return [effect.manifest for effect in flow.effects if isinstance(effect, CreateJob)]
    return []
