"""With RBAC, requests are allowed by the roles of their user and rejected with the words of a real server."""

from collections.abc import AsyncIterator

import pytest

from embedded_apiserver.context import User
from embedded_apiserver.server import ApiServer
from http_client import MAPS, PODS, Client

RBAC = "/apis/rbac.authorization.k8s.io/v1"
USERS = {"a": User("ana", ("students", "system:authenticated")), "r": User("system:serviceaccount:default:robot")}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    started = await ApiServer.start(rbac=True, users=USERS)
    yield started
    await started.stop()


def speaking(server: ApiServer, token: str = "", **headers: str) -> Client:
    return Client(server.url, {"Authorization": f"Bearer {token or server.token}", **headers})


async def bind(server: ApiServer, role: str, *subjects: dict[str, str], kind: str = "ClusterRole") -> None:
    admin = speaking(server)
    body = {
        "metadata": {"generateName": "b-"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": list(subjects),
    }
    await admin.create(f"{RBAC}/namespaces/default/rolebindings", body)
    await admin.close()


async def test_what_no_role_allows_is_rejected_with_user_verb_and_place(server: ApiServer) -> None:
    ana = speaking(server, "a")
    code, status = await ana.ask("GET", PODS)
    assert (code, status["reason"]) == (403, "Forbidden")
    text = 'pods is forbidden: User "ana" cannot list resource "pods" in API group "" in the namespace "default"'
    assert status["message"] == text
    code, status = await ana.ask("GET", "/api/v1/nodes/n")
    text = 'nodes "n" is forbidden: User "ana" cannot get resource "nodes" in API group "" at the cluster scope'
    assert (code, status["message"]) == (403, text)
    assert (await ana.ask("GET", "/version"))[0] == 200, "discovery is open to every user"
    assert (await ana.ask("GET", "/metrics"))[0] == 403
    await ana.close()
    nobody = Client(server.url)
    assert (await nobody.ask("GET", PODS))[0] == 401
    await nobody.close()


async def test_a_binding_of_a_group_gives_the_aggregated_rules_of_edit_in_its_namespace(server: ApiServer) -> None:
    admin = speaking(server)
    rules = [{"verbs": ["create"], "apiGroups": ["batch.volcanopy.io"], "resources": ["batchjobs"]}]
    labels = {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}
    await admin.create(f"{RBAC}/clusterroles", {"metadata": {"name": "jobs", "labels": labels}, "rules": rules})
    await admin.close()
    await bind(server, "edit", {"kind": "Group", "name": "students"})
    ana = speaking(server, "a")
    await ana.create(MAPS, {"metadata": {"name": "m"}})
    await ana.get(PODS)
    assert (await ana.ask("GET", "/api/v1/namespaces/kube-system/pods"))[0] == 403
    assert (await ana.ask("GET", f"{RBAC}/namespaces/default/roles"))[0] == 403, "that needs admin"
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"namespace": "default", "verb": "create", "group": "batch.volcanopy.io", "resource": "batchjobs"}
    for verb, allowed in (("create", True), ("delete", False)):
        review = await ana.create(reviews, {"spec": {"resourceAttributes": asked | {"verb": verb}}})
        assert review["status"] == {"allowed": allowed}
    await ana.close()


async def test_a_role_for_one_name_and_subresource_allows_no_other(server: ApiServer) -> None:
    admin = speaking(server)
    rules = [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]},
    ]
    await admin.create(f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "r"}, "rules": rules})
    for name in ("mine", "other"):
        await admin.create(MAPS, {"metadata": {"name": name}})
    await admin.close()
    await bind(server, "r", {"kind": "ServiceAccount", "name": "robot"}, kind="Role")
    robot = speaking(server, "r")
    codes = [(await robot.ask("GET", f"{MAPS}/{name}"))[0] for name in ("mine", "other")]
    assert codes == [200, 403]
    assert [(await robot.ask("GET", f"{PODS}/p{part}"))[0] for part in ("/log", "")] == [404, 403]
    await robot.close()


async def test_only_who_may_impersonate_speaks_for_others(server: ApiServer) -> None:
    admin = speaking(server, **{"Impersonate-User": "ben"})
    code, status = await admin.ask("GET", PODS)
    assert (code, 'User "ben" cannot list' in status["message"]) == (403, True)
    await admin.close()
    ana = speaking(server, "a", **{"Impersonate-User": "kubernetes-admin", "Impersonate-Group": "system:masters"})
    code, status = await ana.ask("GET", PODS)
    assert (code, 'User "ana" cannot impersonate resource "users"' in status["message"]) == (403, True)
    await ana.close()


async def test_a_service_account_gets_a_token_with_its_rights_until_it_is_deleted(server: ApiServer) -> None:
    admin = speaking(server)
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await admin.create(accounts, {"metadata": {"name": "robot"}})
    made = await admin.create(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    assert made["spec"]["expirationSeconds"] == 600
    token = made["status"]["token"]
    review = await admin.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    assert review["status"]["user"]["username"] == "system:serviceaccount:default:robot"
    robot = speaking(server, token)
    assert (await robot.ask("GET", PODS))[0] == 403
    await bind(server, "view", {"kind": "Group", "name": "system:serviceaccounts:default"})
    await robot.get(PODS)
    await admin.delete(f"{accounts}/robot")
    assert (await robot.ask("GET", PODS))[0] == 401
    await robot.close()
    assert (await admin.ask("POST", f"{accounts}/robot/token", {}))[0] == 404
    code, status = await admin.ask("POST", f"{accounts}/default/token", {"spec": {"expirationSeconds": 5}})
    assert (code, "less than 10 minutes" in status["message"]) == (400, True)
    await admin.close()
