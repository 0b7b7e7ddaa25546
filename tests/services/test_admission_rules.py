"""The rules of admission through an API server: who may, who asked, what races, what is only warned about."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.services.service_cluster import Cluster, task
from tests.services.test_admission import admission
from volcanopy.api import names
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS, QUEUES
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.connection import Connection, Credentials
from volcanopy.kube.client.errors import ApiError
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import FLOWS, JOBS, TEMPLATES

RBAC = "rbac.authorization.k8s.io"
ROLES: Kind[Json] = Kind(RBAC, "v1", "ClusterRole", "clusterroles", False, dict)
BINDINGS: Kind[Json] = Kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False, dict)


def queue(name: str, **spec: Any) -> Json:
    return {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


class Acting(Credentials):
    """The cluster's own credentials, impersonating another user."""

    def __init__(self, whose: Credentials, user: str, groups: Sequence[str] = ()) -> None:
        super().__init__()
        self._whose, self._user, self._groups = whose, user, groups

    async def headers(self) -> Any:
        headers = (await self._whose.headers()).copy()
        headers["Impersonate-User"] = self._user
        for group in self._groups:
            headers.add("Impersonate-Group", group)
        return headers


def acting(connection: Connection, user: str) -> Connection:
    return replace(connection, credentials=Acting(connection.credentials, user))


async def grant_all_volcanopy_resources(cluster: Cluster, *users: str) -> None:
    """Users for whom only admission stands in the way."""
    groups = [names.BATCH, names.SCHEDULING, names.BUS, names.FLOW, ""]
    role = f"role-{cluster.namespace}"
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    await cluster.client.create(
        ROLES,
        None,
        {"apiVersion": ROLES.api_version, "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules},
    )
    subjects = [{"kind": "User", "name": user, "apiGroup": RBAC} for user in users]
    reference = {"kind": "ClusterRole", "name": role, "apiGroup": RBAC}
    await cluster.client.create(
        BINDINGS, None, {"metadata": {"name": role}, "roleRef": reference, "subjects": subjects}
    )


def job(cluster: Cluster, name: str, notes: dict[str, str] | None = None, **spec: Any) -> Json:
    metadata: Json = {"name": name, "namespace": cluster.namespace, "annotations": notes or {}}
    return {
        "apiVersion": JOBS.api_version,
        "kind": "BatchJob",
        "metadata": metadata,
        "spec": {"tasks": [task()], **spec},
    }


async def test_only_submitters_submit_and_the_submitter_cannot_be_forged(cluster: Cluster) -> None:
    name = f"science-{cluster.namespace}"
    async with admission(cluster):
        await grant_all_volcanopy_resources(cluster, "alice", "bob")
        await cluster.client.create(QUEUES.raw, None, queue(name, submitters={"users": ["bob"]}))
        async with (
            Client(acting(cluster.connection, "alice")) as alice,
            Client(acting(cluster.connection, "bob")) as bob,
        ):
            with pytest.raises(ApiError, match=f'user "alice" may not submit to queue "{name}".*user "bob"'):
                await alice.create(JOBS, cluster.namespace, job(cluster, "a", queue=name))
            made = await bob.create(
                JOBS, cluster.namespace, job(cluster, "b", {names.SUBMITTED_BY: "alice"}, queue=name)
            )
            assert made["metadata"]["annotations"][names.SUBMITTED_BY] == "bob"
            forged = {"metadata": {"annotations": {names.SUBMITTED_BY: "alice"}}}
            with pytest.raises(ApiError, match="annotation is immutable"):
                await bob.patch(JOBS, cluster.namespace, "b", forged)
            await bob.patch(JOBS, cluster.namespace, "b", {"metadata": {"annotations": {names.SUBMITTED_BY: None}}})
            result = await bob.get(JOBS, cluster.namespace, "b")
            assert result["metadata"]["annotations"][names.SUBMITTED_BY] == "bob"


async def test_a_queue_is_changed_by_its_administrators(cluster: Cluster) -> None:
    name = f"science-{cluster.namespace}"
    async with admission(cluster):
        await grant_all_volcanopy_resources(cluster, "alice", "bob")
        await cluster.client.create(QUEUES.raw, None, queue(name, administrators={"users": ["bob"]}))
        async with (
            Client(acting(cluster.connection, "alice")) as alice,
            Client(acting(cluster.connection, "bob")) as bob,
        ):
            with pytest.raises(
                ApiError, match=f'user "alice" may not change queue "{name}": administrators are user "bob"'
            ):
                await alice.patch(QUEUES.raw, None, name, {"spec": {"administrators": {"users": ["alice"]}}})
            await bob.patch(QUEUES.raw, None, name, {"spec": {"weight": 3}})
            with pytest.raises(ApiError, match=f'user "alice" may not delete queue "{name}"'):
                await alice.delete(QUEUES.raw, None, name)
            await bob.delete(QUEUES.raw, None, name)


async def test_a_job_gets_the_default_queue_of_its_namespace(cluster: Cluster) -> None:
    name = f"science-{cluster.namespace}"
    spaces: Kind[Json] = Kind("", "v1", "Namespace", "namespaces", False, dict)
    notes = {"metadata": {"annotations": {names.POD_QUEUE_NAME: name}}}
    await cluster.client.patch(spaces, None, cluster.namespace, notes)
    async with admission(cluster):
        await cluster.client.create(QUEUES.raw, None, queue(name))
        made = await cluster.client.create(JOBS, cluster.namespace, job(cluster, "j"))
        assert made["spec"]["queue"] == name
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "loose"},
            "spec": {"schedulerName": names.SCHEDULER, "containers": [{"name": "c", "image": "busybox"}]},
        }
        loose = await cluster.client.create(PODS.raw, cluster.namespace, pod)
        assert loose["metadata"]["annotations"][names.POD_QUEUE_NAME] == name
        forged = {"metadata": {"annotations": {names.SUBMITTED_BY: "boss"}}}
        with pytest.raises(ApiError, match="annotation is immutable"):
            await cluster.client.patch(PODS.raw, cluster.namespace, "loose", forged)


async def test_a_queue_in_use_cannot_be_deleted(cluster: Cluster) -> None:
    """A PodGroup of a job, or with pods, uses its queue; one without either does not."""
    cluster.plays = False
    name, space = f"busy-{cluster.namespace}", cluster.namespace
    about = {"apiVersion": names.SCHEDULING_V1BETA1, "kind": "PodGroup", "spec": {"minMember": 1, "queue": name}}
    owner = {"apiVersion": "example.com/v1", "kind": "Train", "name": "t", "uid": "1"}
    notes = {names.GROUP_NAME: "g", names.POD_QUEUE_NAME: name}
    spec = {"schedulerName": names.SCHEDULER, "containers": [{"name": "c", "image": "busybox"}]}
    member = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m", "annotations": notes}, "spec": spec}
    async with admission(cluster):
        await cluster.client.create(QUEUES.raw, None, queue(name))
        await cluster.client.create(POD_GROUPS.raw, space, {**about, "metadata": {"name": "g"}})
        await cluster.client.create(PODS.raw, space, member)
        await cluster.client.create(
            POD_GROUPS.raw, space, {**about, "metadata": {"name": "owned", "ownerReferences": [owner]}}
        )
        with pytest.raises(ApiError, match="has 2 unfinished PodGroups: it cannot be deleted until they are finished"):
            await cluster.client.delete(QUEUES.raw, None, name)
        await cluster.client.delete(POD_GROUPS.raw, space, "owned")
        with pytest.raises(ApiError, match="has 1 unfinished PodGroup: it cannot be deleted until they are finished"):
            await cluster.client.delete(QUEUES.raw, None, name)
        await cluster.client.delete(PODS.raw, space, "m")
        await cluster.client.delete(QUEUES.raw, None, name)


async def test_a_change_is_judged_by_the_tree_after_the_change_before(cluster: Cluster) -> None:
    """Each of the two alone would be right; the watch cache may not show the first one yet."""
    parent = f"p-{cluster.namespace}"
    children = [f"a-{cluster.namespace}", f"b-{cluster.namespace}"]
    raised = {"spec": {"deserved": {"cpu": "7"}}}
    async with admission(cluster):
        await cluster.client.create(QUEUES.raw, None, queue(parent, deserved={"cpu": "10"}))
        for child in children:
            await cluster.client.create(QUEUES.raw, None, queue(child, parent=parent, deserved={"cpu": "2"}))
        await cluster.client.patch(QUEUES.raw, None, children[0], raised)
        with pytest.raises(ApiError, match=r'Invalid value: "7": sum of deserved of the child queues \(14: '):
            await cluster.client.patch(QUEUES.raw, None, children[1], raised)


async def test_fields_of_a_job_that_decide_its_pods_are_immutable(cluster: Cluster) -> None:
    async with admission(cluster):
        await cluster.submit("fixed", task("a", 2), task("b", 1), plugins={"svc": []})

        async def change(path: str, value: Any) -> None:
            patch = [{"op": "add", "path": path, "value": value}]
            await cluster.client.patch(JOBS, cluster.namespace, "fixed", patch, PatchType.JSON)

        for path, value, rejection in [
            ("/spec/plugins", {}, "spec.plugins: Forbidden: field is immutable: create a new job"),
            (
                "/spec/tasks/0/template/spec/containers/0/image",
                "other",
                "spec.tasks[0].template: Forbidden: field is immutable: create a new job",
            ),
            (
                "/spec/tasks/-",
                task("c"),
                "spec.tasks: Forbidden: tasks cannot be added, removed or renamed: create a new job",
            ),
            ("/spec/minAvailable", 4, "must not be greater"),
            ("/spec/tasks/0/replicas", -1, "greater than or equal to 0"),
        ]:
            with pytest.raises(ApiError, match=re.escape(rejection)):
                await change(path, value)
        for path, value in [("/spec/tasks/0/replicas", 5), ("/spec/minAvailable", 1), ("/spec/priorityClassName", "x")]:
            await change(path, value)
        status = {"phase": "Pending", "message": "0/1 pods running"}
        written = await cluster.client.update_status(
            JOBS, await cluster.client.get(JOBS, cluster.namespace, "fixed"), {"state": status}
        )
        assert written["status"]["state"] == status
        assert written["spec"]["tasks"][0]["replicas"] == 5
        assert written["metadata"]["annotations"]["volcanopy.io/submitted-by"]


async def test_a_flow_is_admitted_only_if_the_jobs_of_its_templates_can_be(cluster: Cluster) -> None:
    def of(kind: Kind[Json], name: str, spec: Json) -> Json:
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}

    def flow(name: str, **patch: Any) -> Json:
        return of(FLOWS, name, {"flows": [{"name": "t", "patch": {"jobSpec": patch}}]})

    pod = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}}
    rejected: dict[str, Json] = {
        "spec.flows[0].patch.jobSpec.minAvailable: Invalid value: 3": {"minAvailable": 3},
        "spec.flows[0].patch.jobSpec.tasks[0].template.spec.containers[0].resources.requests": {
            "tasks": [{"name": "b", "template": pod}]
        },
    }
    client, namespace = cluster.client, cluster.namespace
    async with admission(cluster):
        await client.create(FLOWS, namespace, flow("early", minAvailable=3))
        await client.create(TEMPLATES, namespace, of(TEMPLATES, "t", {"tasks": [task("a"), task("b")]}))
        for message, patch in rejected.items():
            with pytest.raises(ApiError, match=re.escape(message)):
                await client.create(FLOWS, namespace, flow("late", **patch))
        await client.create(FLOWS, namespace, flow("late", minAvailable=1))


async def test_the_pods_of_moved_podgroups_are_listed_for_one_review_of_a_namespace_at_a_time(
    embedded: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, listing = embedded, 0
    most, list_all = 0, Client.list

    async def counted(self: Client, kind: Kind[Any], *args: Any, **more: Any) -> Any:
        nonlocal listing, most
        listing += kind.plural == "pods"
        most = max(most, listing)
        try:
            return await list_all(self, kind, *args, **more)
        finally:
            listing -= kind.plural == "pods"

    async with admission(cluster):
        await cluster.client.create(QUEUES.raw, None, queue("other"))
        for number in range(8):
            metadata = {"name": f"group-{number}"}
            of_kind = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
            body = {**of_kind, "metadata": metadata, "spec": {"minMember": 1}}
            await cluster.client.create(POD_GROUPS.raw, cluster.namespace, body)
        monkeypatch.setattr(Client, "list", counted)
        patch = {"spec": {"queue": "other"}}
        moves = (cluster.client.patch(POD_GROUPS.raw, cluster.namespace, f"group-{n}", patch) for n in range(8))
        await asyncio.gather(*moves)
    assert most == 1
