"""The job controller in a what-if question: BatchJobs are reconciled until nothing changes.

Pods are created under the rules of the API server that can keep a job from its pods: the PriorityClass exists, and the
ResourceQuotas of the namespace have enough left.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from volcanopy.api import core, quantity
from volcanopy.api.batch import BatchJob
from volcanopy.api.builtin import policy
from volcanopy.api.lifecycle import Command
from volcanopy.api.model import InvalidObjectError, Json
from volcanopy.jobcontroller import plan as effects
from volcanopy.jobcontroller.job_podgroup import pod_usage
from volcanopy.jobcontroller.naming import pod_group_name
from volcanopy.jobcontroller.observed import Observed
from volcanopy.jobcontroller.phases import FINISHED
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, Registry
from volcanopy.jobcontroller.reconcile import reconcile
from volcanopy.scheduler.model.pod_fields import is_over
from volcanopy.whatif import kinds
from volcanopy.whatif.cluster import Cluster, Key
from volcanopy.whatif.new_claims import create_claim, create_claims_of_pod

_STEPS = 20
"""The most reconciliations of a job between two cycles."""
_BUILTIN_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


class RejectedError(Exception):
    """The API server would reject a pod; the message is its own."""


class JobControllers:
    """Reconciles the BatchJobs of a cluster. ``troubles`` has the API server's reason by the key of each job whose
    pods it rejects.
    """

    def __init__(
        self,
        cluster: Cluster,
        now: datetime,
        registry: Registry = JOB_PLUGINS,
        troubles: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.cluster, self.now, self.registry = cluster, now, registry
        self.troubles = dict(troubles)
        self._applied: dict[str, dict[str, str]] = {}

    def step(self) -> bool:
        """Reconcile the jobs that changed until nothing changes; return whether anything did."""
        has_changed = False
        for key in sorted(self.cluster.changed_jobs | self.troubles.keys()):
            body = self.cluster.objects.get(("BatchJob", key))
            if body is not None and kinds.phase_of(body) not in FINISHED:
                has_changed |= self._settle(key)
        self.cluster.changed_jobs.clear()
        return has_changed

    def _settle(self, key: str) -> bool:
        has_changed = False
        for _ in range(_STEPS):
            body = self.cluster.objects.get(("BatchJob", key))
            if body is None:
                return has_changed
            job = read_job(body)
            plan = reconcile(job, self._observed(job), self.now, self.registry)
            before = self.troubles.pop(key, "")
            acted = False
            try:
                for effect in plan.effects:
                    acted |= self._apply(body, job, effect)
            except (RejectedError, kinds.ManifestError) as rejection:
                self.troubles[key] = str(rejection)
                acted |= str(rejection) != before
            has_changed |= acted
            if not acted:
                break
        return has_changed

    def _observed(self, job: BatchJob) -> Observed:
        cluster, key = self.cluster, f"{job.metadata.namespace}/{job.metadata.name}"
        classes = {name: item.value for name, item in cluster.state.priority_classes.items()}
        return Observed(
            pods=tuple(cluster.pods_of_owner(str(job.metadata.uid))),
            pod_group=cluster.group(f"{job.metadata.namespace}/{pod_group_name(job)}"),
            commands=tuple(_commands(cluster, job)),
            priorities=classes,
            applied=self._applied.get(key, {}),
            trouble=self.troubles.get(key, ""),
        )

    def _apply(self, body: Json, job: BatchJob, effect: effects.Effect) -> bool:
        """Apply an effect; return whether it changed anything that matters to the job."""
        cluster, namespace = self.cluster, str(job.metadata.namespace)
        key = kinds.key_of(body)
        match effect:
            case effects.UpdateStatus():
                cluster.put_workload({**body, "status": effect.status})
            case effects.CreatePodGroup():
                cluster.put_manifest(self._created(effect.manifest) | {"status": {"phase": "Pending"}})
            case effects.UpdatePodGroup():
                cluster.put_manifest(_merged(cluster.body("PodGroup", f"{namespace}/{effect.name}"), effect.patch))
            case effects.DeletePodGroup():
                cluster.remove("PodGroup", f"{namespace}/{effect.name}")
            case effects.CreatePod():
                create_pod(cluster, self._created(effect.manifest))
            case effects.DeletePod():
                delete_pod(cluster, f"{namespace}/{effect.name}")
            case effects.ApplyObject():
                claim = f"{namespace}/{effect.manifest['metadata']['name']}"
                kind = effect.manifest["kind"]
                if kind == "PersistentVolumeClaim" and (kind, claim) not in cluster.objects:
                    create_claim(cluster, self._created(effect.manifest))
                self._applied[key] = self._applied.get(key, {}) | {effect.key: effect.digest}
            case effects.DeleteCommand():
                cluster.remove("Command", f"{namespace}/{effect.name}")
            case effects.DeleteJob():
                cluster.remove("BatchJob", key)
            case effects.DeleteObject() | effects.RecordEvent():
                return False
        return True

    def _created(self, manifest: Json) -> Json:
        metadata = manifest["metadata"]
        uid = f"whatif-{metadata.get('namespace', '')}-{metadata['name']}"
        created = {"uid": uid, "creationTimestamp": self.now.isoformat()}
        return manifest | {"metadata": {**metadata, **created}}


def read_job(body: Json) -> BatchJob:
    """Return the job of a manifest. Raises kinds.ManifestError."""
    try:
        return BatchJob.read(body, unknown="ignore")
    except InvalidObjectError as error:
        raise kinds.ManifestError("; ".join(map(str, error.problems))) from None


def _commands(cluster: Cluster, job: BatchJob) -> list[Command]:
    commands = [Command.read(body, unknown="ignore") for body in cluster.of_kind("Command").values()]
    return [
        command
        for command in commands
        if command.metadata.namespace == job.metadata.namespace
        and command.target.kind == "BatchJob"
        and command.target.name == job.metadata.name
    ]


def _merged(body: Json, patch: Mapping[str, Any]) -> Json:
    """Return the body after a merge patch."""
    result = dict(body)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = _merged(result[key], value)
        else:
            result[key] = value
    return result


# The API server's rules for pods


def create_pod(cluster: Cluster, manifest: Json) -> None:
    """Insert a pod with its priority, counted in its quotas. Raises RejectedError."""
    spec = with_runtime_class(cluster, dict(manifest["spec"]))
    name, pod_name = spec.get("priorityClassName", ""), manifest["metadata"]["name"]
    classes = cluster.state.priority_classes
    if name and name not in classes and name not in _BUILTIN_CLASSES:
        raise RejectedError(f'pods "{pod_name}" is forbidden: no PriorityClass with name {name} was found')
    defaults = (item for item in classes.values() if item.global_default)
    priority_class = classes.get(name) if name else min(defaults, key=lambda item: item.value, default=None)
    if priority_class is not None:
        spec = {"preemptionPolicy": priority_class.preemption_policy} | spec | {"priority": priority_class.value}
    elif name:
        spec["priority"] = _BUILTIN_CLASSES[name]
    body = {**manifest, "spec": spec, "status": {"phase": "Pending"}}
    quotas = counted(cluster, body, +1)
    for quota in quotas:
        _check(quota, pod_name, pod_usage(spec))
    cluster.put_manifest(body)
    create_claims_of_pod(cluster, body)
    for quota in quotas:
        cluster.put(quota)


def with_runtime_class(cluster: Cluster, spec: Json) -> Json:
    """Return the spec of a pod with overhead, node selector and tolerations of its RuntimeClass, if that is known."""
    body = cluster.objects.get(("RuntimeClass", spec.get("runtimeClassName") or ""))
    if body is None:
        return spec
    scheduling = body.get("scheduling") or {}
    selector = (scheduling.get("nodeSelector") or {}) | (spec.get("nodeSelector") or {})
    tolerations = [*(spec.get("tolerations") or ()), *(scheduling.get("tolerations") or ())]
    overhead = (body.get("overhead") or {}).get("podFixed") or {}
    return spec | {"overhead": overhead, "nodeSelector": selector, "tolerations": tolerations}


def delete_pod(cluster: Cluster, key: str) -> None:
    """Delete a pod, and take it from the usage of its quotas."""
    pod = cluster.pod(key)
    if pod is None:
        return
    if not is_over(pod):
        count_in_quotas(cluster, cluster, pod, -1)
    cluster.remove("Pod", key)


def end_pod(cluster: Cluster, pod: core.Pod) -> None:
    """Let a pod end with success, and take it from the usage of its quotas."""
    count_in_quotas(cluster, cluster, pod, -1)
    cluster.put(replace(pod, status=replace(pod.status, phase="Succeeded")))


def without(cluster: Cluster, is_removed: Callable[[Key, Any], bool]) -> Cluster:
    """Return a new cluster without some objects; pods of them that have not ended are taken from the usage of their quotas."""
    rest = cluster.without(is_removed)
    for key, pod in cluster.of_kind("Pod").items() if cluster.state.quotas else ():
        if rest.pod(key) is None and not is_over(pod):
            count_in_quotas(rest, cluster, pod, -1)
    rest.commit()
    return rest


def count_in_quotas(cluster: Cluster, source: Cluster, pod: core.Pod, sign: int) -> None:
    """Add a pod of a source to the usage of quotas (+1), or take it from there (-1)."""
    if cluster.state.quotas:
        for quota in counted(cluster, source.body("Pod", pod.metadata.key), sign):
            cluster.put(quota)


def counted(cluster: Cluster, pod: Json, sign: int) -> list[policy.ResourceQuota]:
    """Return the quotas of a pod's namespace with the pod added to their usage (+1), or taken from it (-1)."""
    namespace = pod["metadata"]["namespace"]
    if not cluster.state.quotas:
        return []
    usage = pod_usage(pod["spec"])
    result = []
    for quota in cluster.state.quotas.values():
        if quota.metadata.namespace != namespace or quota.spec.scopes or quota.spec.scope_selector:
            continue
        amounts = dict(quota.status.used)
        for name in quota.status.hard:
            if units := usage.get(name, 0):
                unit = name.removeprefix("requests.").removeprefix("limits.")
                total = max(quantity.amount(unit, amounts.get(name, 0)) + sign * units, 0)
                amounts[name] = quantity.text(unit, total)
        result.append(replace(quota, status=replace(quota.status, used=amounts)))
    return result


def _check(quota: policy.ResourceQuota, pod: str, usage: Mapping[str, int]) -> None:
    for name, hard in quota.status.hard.items():
        unit = name.removeprefix("requests.").removeprefix("limits.")
        total, most = quantity.amount(unit, quota.status.used.get(name, 0)), quantity.amount(unit, hard)
        if usage.get(name, 0) and total > most:
            used_amount = quantity.text(unit, total - usage[name])
            raise RejectedError(
                f'pods "{pod}" is forbidden: exceeded quota: {quota.metadata.name}, '
                f"requested: {name}={quantity.text(unit, usage[name])}, used: {name}={used_amount}, limited: {name}={hard}"
            )


def is_replaced(cluster: Cluster, pod: core.Pod) -> bool:
    """Whether a controller other than the job controller creates an evicted pod again."""
    owner = pod.metadata.controller
    if owner is None:
        return False
    return owner.kind != "BatchJob" or ("BatchJob", f"{pod.metadata.namespace}/{owner.name}") not in cluster.objects
