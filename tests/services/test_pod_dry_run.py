"""Dry runs of a job's pods before it is admitted: no pod is stored, and requests have a timeout."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.services.service_cluster import NAMESPACES, Cluster, task
from tests.services.test_admission import admission
from tests.services.test_admission_rules import acting, job, queue
from volcanopy.admission.context import AdmissionPolicy, DryRun, DryRunResult
from volcanopy.api.model import Json
from volcanopy.kube.cache.followed_kinds import PODS, QUEUES
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError, NoAnswer
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import JOBS
from volcanopy.services.admission.admission_service import AdmissionSettings
from volcanopy.services.admission.pod_dry_run import KEPT, PodDryRuns

QUOTAS: Kind[Json] = Kind("", "v1", "ResourceQuota", "resourcequotas", True, dict)


def broken(**spec: Any) -> Json:
    """A task whose pods no API server takes."""
    containers = [{"name": "main", "image": "busybox", "volumeMounts": [{"name": "none", "mountPath": "/x"}]}]
    return {"name": "b", "replicas": 1, "template": {"spec": {"containers": containers, **spec}}}


def only_real(cluster: Cluster) -> None:
    """For what the embedded server does not have: policies of namespaces, permissions."""
    if cluster.embedded:
        pytest.skip("the embedded API server forbids nothing to anybody")


async def test_rejections_of_the_api_server_are_reported_for_the_template(cluster: Cluster) -> None:
    async with admission(cluster):
        tasks = [task("a"), broken(restartPolicy="Sometimes")]
        with pytest.raises(ApiError) as caught:
            await cluster.client.create(JOBS, cluster.namespace, job(cluster, "j", tasks=tasks, queue="nope"))
        message = str(caught.value)
        assert 'spec.tasks[1].template.spec.containers[0].volumeMounts[0].name: Not found: "none"' in message
        assert 'spec.tasks[1].template.spec.restartPolicy: Unsupported value: "Sometimes"' in message
        assert 'spec.queue: Not found: queue "nope"' in message


async def test_templates_and_cron_jobs_are_dry_run(cluster: Cluster) -> None:
    crons: Kind[Json] = Kind("batch.volcanopy.io", "v1alpha1", "CronBatchJob", "cronbatchjobs", True, dict)
    templates: Kind[Json] = Kind("flow.volcanopy.io", "v1alpha1", "JobTemplate", "jobtemplates", True, dict)
    async with admission(cluster):
        spec = {"schedule": "@daily", "jobTemplate": {"spec": {"tasks": [broken()]}}}
        made = {"apiVersion": crons.api_version, "kind": "CronBatchJob", "metadata": {"name": "c"}, "spec": spec}
        with pytest.raises(
            ApiError,
            match=r"spec.jobTemplate.spec.tasks\[0\].template.spec.containers\[0\].volumeMounts\[0\].name: Not",
        ):
            await cluster.client.create(crons, cluster.namespace, made)
        made = {"apiVersion": templates.api_version, "kind": "JobTemplate", "metadata": {"name": "t"}}
        made["spec"] = {"tasks": [broken()]}
        with pytest.raises(
            ApiError, match=r"spec.tasks\[0\].template.spec.containers\[0\].volumeMounts\[0\].name: Not"
        ):
            await cluster.client.create(templates, cluster.namespace, made)


@pytest.mark.parametrize("controllers", [[], ["system:serviceaccount:volcanopy-system:volcanopy-controller"]])
async def test_a_dry_run_stores_no_pod_and_does_not_call_our_webhook(cluster: Cluster, controllers: list[str]) -> None:
    """A pod without a queue would be rejected here, since there is no default queue."""
    name = f"q-{cluster.namespace}"
    policy = AdmissionPolicy(default_queue="none-such", controllers=controllers)
    async with admission(cluster, AdmissionSettings(policy=policy)):
        await cluster.client.create(QUEUES.raw, None, queue(name))
        warnings = await cluster.client.try_create(JOBS, cluster.namespace, job(cluster, "dry", queue=name))
        assert warnings == ()
        await cluster.client.create(JOBS, cluster.namespace, job(cluster, "j", queue=name))
        assert not (await cluster.client.list(PODS.raw, cluster.namespace)).items
        labelled = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "loose", "labels": {"volcanopy.io/dry-run": "true"}},
            "spec": {"schedulerName": "volcanopy", "containers": [{"name": "c", "image": "busybox"}]},
        }
        with pytest.raises(ApiError, match='Not found: queue "none-such"'):
            await cluster.client.create(PODS.raw, cluster.namespace, labelled)


async def test_additions_of_plugins_and_volumes_are_part_of_the_dry_run(cluster: Cluster) -> None:
    """The template alone would be rejected: it mounts a volume that only the plugin's pod has."""
    async with admission(cluster):
        tasks = [task("mpimaster"), task("mpiworker", 2)]
        volumes = [{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]
        volumes[0]["volumeClaim"]["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[index]
        plugins = {"mpi": ["--master=mpimaster", "--worker=mpiworker"], "env": []}
        result = job(cluster, "full", tasks=tasks, volumes=volumes, plugins=plugins)
        assert await cluster.client.try_create(JOBS, cluster.namespace, result) == ()


async def test_rules_of_the_namespace_are_reported(cluster: Cluster) -> None:
    only_real(cluster)
    async with admission(cluster):
        await _enforce(cluster, "warn")
        (warning,) = await cluster.client.try_create(JOBS, cluster.namespace, job(cluster, "w"))
        assert warning.startswith('spec.tasks[0].template: would violate PodSecurity "restricted:latest"')
        await _enforce(cluster, "enforce")
        with pytest.raises(ApiError, match='rejects the pod: violates PodSecurity "restricted:latest"'):
            await cluster.client.create(JOBS, cluster.namespace, job(cluster, "e", plugins={"env": []}))


async def _enforce(cluster: Cluster, mode: str) -> None:
    labels = {
        f"pod-security.kubernetes.io/{item}": "restricted" if item == mode else None for item in ("warn", "enforce")
    }
    await cluster.client.patch(NAMESPACES, None, cluster.namespace, {"metadata": {"labels": labels}})
    # The server reads namespaces from a cache: it applies the labels some moments later.
    pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    async with asyncio.timeout(60):
        while True:
            try:
                warnings = await cluster.client.try_create(PODS.raw, cluster.namespace, pod)
            except ApiError:
                return  # only "enforce" rejects
            if warnings and mode == "warn":
                return


async def test_an_exhausted_quota_is_a_warning(cluster: Cluster) -> None:
    only_real(cluster)
    async with admission(cluster):
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": 0}}}
        await cluster.client.create(QUOTAS, cluster.namespace, quota)
        await cluster.all_of(QUOTAS, lambda quotas: any(item.get("status", {}).get("hard") for item in quotas))
        (warning,) = await cluster.client.try_create(JOBS, cluster.namespace, job(cluster, "j"))
        assert "the API server currently rejects the pod: exceeded quota: q, requested: pods=1" in warning


async def test_missing_permission_to_create_pods_is_a_warning(cluster: Cluster) -> None:
    only_real(cluster)
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trial", "namespace": cluster.namespace}}
    pod["spec"] = {"containers": [{"name": "c", "image": "busybox"}]}
    async with Client(acting(cluster.connection, "nobody")) as client, PodDryRuns(client) as tried:
        ((_, answer),) = await tried.answers([DryRun("spec", {}, pod)])
    assert answer.code == 403
    assert 'cannot create resource "pods"' in answer.message


class Server:
    """Replaces a client: counts its requests, returns scripted responses."""

    def __init__(self, answer: Callable[[], Awaitable[tuple[str, ...]]]) -> None:
        self.asked: list[bytes] = []
        self._answer = answer

    async def try_create(self, _: object, __: str, body: bytes, deadline: float) -> tuple[str, ...]:
        self.asked.append(body)
        return await self._answer()


def trial(number: int = 0) -> DryRun:
    return DryRun(f"spec.tasks[{number}].template", {}, {"metadata": {"namespace": "n", "name": "trial"}, "spec": {}})


async def fine() -> tuple[str, ...]:
    return ()


async def never() -> tuple[str, ...]:
    await asyncio.Event().wait()
    raise AssertionError


async def gone() -> tuple[str, ...]:
    raise NoAnswer("https://api", "connection refused", maybe_applied=False)


async def test_equal_pods_share_one_dry_run_until_it_expires() -> None:
    server, now = Server(fine), 0.0
    async with PodDryRuns(server, lambda: now) as tried:  # type: ignore[arg-type]
        await asyncio.gather(*(tried.answers([trial(n), trial(n + 1)]) for n in range(5)))
        await tried.answers([trial()])
        assert len(server.asked) == 1
        now += KEPT + 1
        await tried.answers([trial()])
        assert len(server.asked) == 2


async def test_temporary_rejections_are_not_cached() -> None:
    async def full() -> tuple[str, ...]:
        raise ApiError(403, "Forbidden", "exceeded quota")

    server = Server(full)
    async with PodDryRuns(server) as tried:  # type: ignore[arg-type]
        for _ in range(2):
            assert (await tried.answers([trial()]))[0][1] == DryRunResult(403, "exceeded quota")
    assert len(server.asked) == 2


async def test_a_dry_run_has_a_timeout() -> None:
    async with PodDryRuns(Server(never), deadline=0.05) as tried:  # type: ignore[arg-type]
        ((_, answer),) = await tried.answers([trial()])
    assert answer == DryRunResult(0, "it did not answer within 0.05 s")


async def test_an_unreachable_server_is_reported_as_a_warning() -> None:
    async with PodDryRuns(Server(gone)) as tried:  # type: ignore[arg-type]
        ((_, answer),) = await tried.answers([trial()])
    assert answer == DryRunResult(0, "no answer from https://api: connection refused")


async def test_without_pods_no_request_is_sent() -> None:
    server = Server(fine)
    async with PodDryRuns(server) as tried:  # type: ignore[arg-type]
        ((_, answer),) = await tried.answers([DryRun("spec", {}, "there is none")])
    assert answer == DryRunResult(0, "there is none")
    assert not server.asked
