"""The admission service behind an API server, with its messages to users."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, TCPConnector, web
from aiohttp.test_utils import TestClient, TestServer

from tests.services.service_cluster import Cluster, task
from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.request import Request, at
from volcanopy.admission.review import mutated
from volcanopy.api import names
from volcanopy.kube.cache.followed_kinds import QUEUES
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.errors import AlreadyExists, ApiError, NotFound
from volcanopy.kube.client.raw_kinds import JOBS
from volcanopy.kube.machine import utc_now
from volcanopy.services.admission.admission_service import AdmissionSettings, ReviewHandlers, application, run, serving
from volcanopy.services.admission.certificate_rotation import Keyring
from volcanopy.services.admission.cluster_cache import ClusterCache
from volcanopy.services.admission.pod_dry_run import PodDryRuns
from volcanopy.services.admission.webhook_configuration import CONFIGURATION, MUTATING, VALIDATING, Registration


@asynccontextmanager
async def admission(
    cluster: Cluster, settings: AdmissionSettings | None = None, *, default_queue: bool = True
) -> AsyncIterator[None]:
    """Admission at work, with the default queue there."""
    with contextlib.suppress(AlreadyExists):
        if default_queue:
            await cluster.client.create(QUEUES.raw, None, {**_queue("default"), "spec": {}})
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(run(cluster.connection, settings, stop, ready))
    try:
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        await _in_force(cluster)
        yield
    finally:
        stop.set()
        await running


def _queue(name: str) -> dict[str, object]:
    return {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}}


async def _in_force(cluster: Cluster) -> None:
    """A real server takes a moment to apply a new configuration: send requests until it rejects what it must."""
    probe = {"apiVersion": JOBS.api_version, "kind": "BatchJob", "metadata": {"name": "probe"}}
    probe["spec"] = {"tasks": [task()], "queue": "no-such-queue"}
    async with asyncio.timeout(60):
        while True:
            try:
                await cluster.client.try_create(JOBS, cluster.namespace, probe)
            except ApiError as refusal:
                if "Not found: queue" in str(refusal):
                    return
                raise
            await asyncio.sleep(0.05)


async def test_all_problems_are_reported_together(cluster: Cluster) -> None:
    async with admission(cluster):
        circle = [task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})]
        with pytest.raises(ApiError) as caught:
            await cluster.submit("bad", *circle, queue="nope", plugins={"svx": []})
        message = str(caught.value)
        assert "spec.tasks: Invalid value: dependsOn has a cycle: a -> b -> a" in message
        assert 'spec.plugins.svx: Not found: job plugin "svx": job plugins are "env", "svc", "ssh"' in message
        assert 'spec.queue: Not found: queue "nope"' in message


async def test_a_job_is_admitted_before_the_scheduler_has_created_the_default_queue(embedded: Cluster) -> None:
    async with admission(embedded, default_queue=False):
        await embedded.submit("early", task())
        assert (await embedded.client.get(JOBS, embedded.namespace, "early"))["spec"]["queue"] == "default"


async def test_a_task_without_a_name_gets_a_default(cluster: Cluster) -> None:
    async with admission(cluster):
        unnamed = task("x", 3)
        del unnamed["name"]
        await cluster.submit("filled", unnamed, task("b", 2, minAvailable=1))
        await cluster.until(lambda: "filled" in cluster.jobs)
        assert [task["name"] for task in cluster.jobs["filled"]["spec"]["tasks"]] == ["default0", "b"]


async def test_the_default_queue_stays(cluster: Cluster) -> None:
    async with admission(cluster):
        with pytest.raises(ApiError, match='queue "default" is required by volcanopy and cannot be deleted'):
            await cluster.client.delete(QUEUES.raw, None, "default")


async def test_a_stopped_server_removes_its_webhooks(cluster: Cluster) -> None:
    async with admission(cluster):
        await cluster.client.get(VALIDATING, None, CONFIGURATION)
    for kind in (MUTATING, VALIDATING):
        with pytest.raises(NotFound):
            await cluster.client.get(kind, None, CONFIGURATION)


async def test_no_review_is_answered_before_the_first_lists(cluster: Cluster) -> None:
    """The API server may still call the address of an earlier process; rules that need the caches would be left out."""
    client = cluster.client
    apis = ApiViews(client)
    unsynced = ClusterCache(apis, lambda *_: ())
    handlers = ReviewHandlers(unsynced, PodDryRuns(client), fail_closed=True, apis=apis)
    async with TestClient(TestServer(application(handlers.by_path))) as caller:
        for path in ("/mutate", "/validate"):
            answer = await caller.post(path, json={"request": {}})
            assert (answer.status, await answer.json()) == (503, {"error": "the caches are not synced, try again"})


async def test_a_server_that_ends_answers_and_closes_the_connections_of_its_clients() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    app, keyring = web.Application(), Keyring(["127.0.0.1"], utc_now)
    app.router.add_get("/", answer)
    await keyring.renew()
    ending, context = asyncio.Event(), serving(app, AdmissionSettings(drain=3600), keyring)
    address = await context.__aenter__()

    async def end() -> None:
        ending.set()
        await context.__aexit__(None, None, None)

    async with ClientSession(connector=TCPConnector(ssl=False)) as client:
        async with client.get(address) as response:
            assert "Connection" not in response.headers
        running = asyncio.create_task(end())
        await ending.wait()
        async with client.get(address) as response:
            assert (response.status, response.headers["Connection"]) == (200, "close")
    running.cancel()
    await asyncio.wait({running})


def test_behind_a_service_the_configuration_names_the_service() -> None:
    registration = Registration("https://127.0.0.1:1", service="system/hooks", authority=b"PEM", fail_closed=False)
    for _, made in registration.configurations():
        for webhook in made["webhooks"]:
            assert webhook["failurePolicy"] == "Ignore"
            assert webhook["clientConfig"]["caBundle"] == "UEVN"
            assert webhook["clientConfig"]["service"]["name"] == "hooks"
            assert "url" not in webhook["clientConfig"]


def test_pods_of_jobs_pass_the_mutating_webhook_without_an_evaluation_of_its_conditions() -> None:
    """Validation rejects their label on the pods of others, as far as it can distinguish users."""
    named, unnamed = (
        {webhook["name"]: webhook.get("objectSelector") for webhook in made["webhooks"]}
        for policy in (AdmissionPolicy(controllers=["the-controller"]), AdmissionPolicy())
        for kind, made in Registration("https://127.0.0.1:1", authority=b"PEM", policy=policy).configurations()
        if kind is MUTATING
    )
    selector = {"matchExpressions": [{"key": names.JOB_NAME, "operator": "DoesNotExist"}]}
    assert {name: given for name, given in named.items() if given} == {"pods.mutate.volcanopy.io": selector}
    assert not any(unnamed.values())


async def test_a_job_takes_one_review_which_validates_the_mutated_job(cluster: Cluster) -> None:
    async with admission(cluster):
        mutating, validating = [await cluster.client.get(kind, None, CONFIGURATION) for kind in (MUTATING, VALIDATING)]
    of_jobs = [
        hook
        for configuration in (mutating, validating)
        for hook in configuration["webhooks"]
        if any("batchjobs" in rule["resources"] for rule in hook["rules"])
    ]
    (hook,) = of_jobs
    assert hook in mutating["webhooks"]
    assert hook["reinvocationPolicy"] == "IfNeeded"
    assert "/review/" in hook["clientConfig"]["url"]


def test_the_mutated_review_is_what_the_validating_webhook_gets() -> None:
    job = {"metadata": {"name": "a"}, "spec": {"tasks": [{"template": {}}]}}
    kind = {"group": "batch.volcanopy.io", "version": "v1alpha1", "kind": "BatchJob"}
    review = {"request": {"uid": "1", "kind": kind, "operation": "CREATE", "namespace": "ns", "object": job}}
    request = Request.of(review)
    assert request is not None
    changed, patch = mutated(request, Context())
    assert at(changed.object, "spec", "tasks")[0]["name"] == "default0"
    assert mutated(changed, Context())[1] == []
    assert patch
