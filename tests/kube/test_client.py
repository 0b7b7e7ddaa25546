"""The client: paths, errors, retries, and its guarantees when the network fails."""

import json
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.kube.faulty_server import FakeTime, Fault, FaultyServer, connect
from tests.kube.shapes import NODES, PODS, RAW_PODS, Thing, ThingSpec
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NoAnswer,
    NotFound,
    ServerTimeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreadable,
)
from volcanopy.kube.client.kinds import Kind


def test_a_kind_knows_the_paths_of_its_objects() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("a b") == "/api/v1/namespaces/a%20b/pods"
    assert PODS.path("ns", "p", "binding") == "/api/v1/namespaces/ns/pods/p/binding"
    assert NODES.path(None, "n/1") == "/api/v1/nodes/n%2F1"
    queues = Kind("scheduling.volcanopy.io", "v1beta1", "Queue", "queues", False, dict)
    assert queues.path(None, "q", "status") == "/apis/scheduling.volcanopy.io/v1beta1/queues/q/status"
    assert (queues.api_version, PODS.api_version) == ("scheduling.volcanopy.io/v1beta1", "v1")


def test_a_path_that_does_not_fit_the_kind_raises_a_one_line_error() -> None:
    with pytest.raises(ValueError, match="Node is not namespaced: namespace 'ns'"):
        NODES.path("ns", "n")
    with pytest.raises(ValueError, match="Pod 'p': its namespace is missing"):
        PODS.path(None, "p")
    with pytest.raises(ValueError, match="Pod/status: the object's name is missing"):
        PODS.path("ns", None, "status")


def test_a_struct_without_identity_cannot_be_a_kind() -> None:
    class NoMetadata(msgspec.Struct):
        spec: ThingSpec

    class Meta(msgspec.Struct):
        name: str

    class NoSpec(msgspec.Struct):
        metadata: Meta

    for shape, complaint in (
        (NoMetadata, "needs a field `metadata`"),
        (NoSpec, "needs the field uid, resourceVersion"),
    ):
        with pytest.raises(TypeError, match=complaint):
            _ = Kind("", "v1", "X", "xs", True, shape).identify


async def test_objects_are_created_read_updated_and_deleted(client: Client, server: FaultyServer) -> None:
    made = await client.create(PODS, "ns", {"metadata": {"name": "p"}, "spec": {"size": 1}})
    assert made.spec.size == 1
    assert (await client.get(PODS, "ns", "p")) == made
    patched = await client.patch(PODS, "ns", "p", {"spec": {"size": 2}})
    assert patched.spec.size == 2
    raw = await client.get(RAW_PODS, "ns", "p")
    raw["spec"]["size"] = 3
    assert (await client.update(RAW_PODS, "ns", "p", raw))["spec"]["size"] == 3
    await client.patch_status(RAW_PODS, "ns", "p", {"status": {"phase": "Running"}})
    assert server.requests[-1] == ("PATCH", "/api/v1/namespaces/ns/pods/p/status?fieldManager=volcanopy")
    await client.delete(PODS, "ns", "p", uid=made.metadata.uid, propagation="Background", grace=0)
    options = json.loads(server.bodies[-1])
    assert options["preconditions"] == {"uid": made.metadata.uid}
    assert (options["propagationPolicy"], options["gracePeriodSeconds"]) == ("Background", 0)
    with pytest.raises(NotFound, match="not found"):
        await client.get(PODS, "ns", "p")


async def test_the_media_type_gives_the_type_of_a_patch(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "p")
    media_types: list[str] = []

    async def note(request: Any) -> None:
        media_types.append(request.headers["Content-Type"])

    server.on_request = note
    for form in (PatchType.MERGE, PatchType.STRATEGIC, PatchType.APPLY):
        await client.patch(PODS, "ns", "p", b"{}", form, force=form is PatchType.APPLY, field_manager="me")
    assert media_types == [
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ]
    assert server.requests[-1][1].endswith("?fieldManager=me&force=true")


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ApiError),
        (500, "ServerTimeout", ServerTimeout),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", ServerTimeout),
        (418, "", ApiError),
    ],
)
async def test_an_error_has_the_type_of_its_reason(
    client: Client, server: FaultyServer, code: int, reason: str, expected: type[ApiError]
) -> None:
    server.faults.extend(Fault("POST", code=code, reason=reason, details={"name": "x"}) for _ in range(40))
    with pytest.raises(ApiError) as caught:
        await client.create(PODS, "ns", {"metadata": {"name": "x"}}, deadline=1.0)
    assert type(caught.value) is expected
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert caught.value.details
    assert caught.value.details.name == "x"
    assert caught.value.maybe_applied == (code >= 500)


async def test_a_response_without_a_status_still_gives_a_message(client: Client, server: FaultyServer) -> None:
    server.faults.append(Fault("GET", code=403, body=b"<html>go away</html>"))
    with pytest.raises(Forbidden, match="HTTP status 403: <html>go away"):
        await client.get(PODS, "ns", "p")


async def test_a_malformed_object_is_named_in_the_error(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "p", spec={"size": "many"})
    with pytest.raises(Unreadable, match=r"Pod from the API server: .*spec\.size"):
        await client.get(PODS, "ns", "p")


async def test_reads_are_retried_with_growing_jittered_backoff(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    server.put("pods", "ns", "p")
    server.faults.extend([Fault("GET", cut="before"), Fault("GET", code=503), Fault("GET", code=504)])
    server.faults.append(Fault("GET", code=502, body=b"bad gateway"))
    assert (await client.get(PODS, "ns", "p")).metadata.name == "p"
    assert len(time.pauses) == 4
    for number, pause in enumerate(time.pauses):
        assert 0.05 * 2**number <= pause <= 0.1 * 2**number


async def test_an_internal_error_is_not_retried_until_the_deadline(client: Client, server: FaultyServer) -> None:
    server.faults.extend(Fault("GET", code=500, reason="InternalError") for _ in range(10))
    with pytest.raises(ApiError):
        await client.get(PODS, "ns", "p")
    assert server.count("GET") == 3


async def test_retry_after_is_respected(client: Client, server: FaultyServer, time: FakeTime) -> None:
    server.faults.append(Fault("POST", code=429, reason="TooManyRequests", headers={"Retry-After": "7"}))
    server.faults.append(Fault("POST", code=429, reason="TooManyRequests", details={"retryAfterSeconds": 3}))
    await client.create(PODS, "ns", {"metadata": {"name": "p"}})
    assert 7.0 <= time.pauses[0] <= 7.7
    assert 3.0 <= time.pauses[1] <= 3.3
    assert server.count("POST") == 3


async def test_the_deadline_covers_all_attempts(client: Client, server: FaultyServer, time: FakeTime) -> None:
    server.faults.extend(Fault("GET", code=503) for _ in range(100))
    with pytest.raises(Unavailable):
        await client.get(PODS, "ns", "p", deadline=10.0)
    assert 4.0 < time.now < 10.0


async def test_a_hanging_server_is_a_timeout(server: FaultyServer) -> None:
    async def hang(_: Any) -> None:
        await server.closed.wait()

    server.on_request = hang
    async with Client(connect(server)) as client:
        with pytest.raises(NoAnswer) as caught:
            await client.create(PODS, "ns", {"metadata": {"name": "p"}}, deadline=0.1)
    assert caught.value.maybe_applied
    assert "/api/v1/namespaces/ns/pods" in str(caught.value)


async def test_an_unreachable_server_is_named_with_its_url(time: FakeTime) -> None:
    async with Client(Connection("http://127.0.0.1:1"), rng=Random(1), sleep=time.sleep, clock=time.clock) as client:
        with pytest.raises(NoAnswer, match=r"no answer from http://127\.0\.0\.1:1/api/v1/pods") as caught:
            await client.create(PODS, None, {"metadata": {"name": "p"}}, deadline=5.0)
    assert not caught.value.in_doubt
    assert len(time.pauses) > 3


async def test_a_create_with_a_lost_response_is_not_sent_again(client: Client, server: FaultyServer) -> None:
    server.faults.append(Fault("POST", cut="after"))
    with pytest.raises(NoAnswer) as caught:
        await client.create(PODS, "ns", {"metadata": {"name": "p"}})
    assert caught.value.in_doubt
    assert server.count("POST") == 1
    with pytest.raises(AlreadyExists) as second:
        await client.create(PODS, "ns", {"metadata": {"name": "p"}})
    assert not second.value.in_doubt


async def test_a_create_has_an_unknown_outcome_after_a_server_error(client: Client, server: FaultyServer) -> None:
    server.faults.append(Fault("POST", code=504, reason="Timeout"))
    with pytest.raises(ServerTimeout) as caught:
        await client.create(PODS, "ns", {"metadata": {"name": "p"}})
    assert caught.value.in_doubt
    assert server.count("POST") == 1


NO_WEBHOOK = 'Internal error occurred: failed calling webhook "jobs.review.volcanopy.io": context deadline exceeded'


def no_webhook() -> Fault:
    """The answer while the Service of a webhook names a pod on a lost node."""
    body = json.dumps({"kind": "Status", "code": 500, "reason": "InternalError", "message": NO_WEBHOOK})
    return Fault("POST", code=500, body=body.encode())


async def test_a_create_whose_webhook_did_not_answer_is_sent_again(client: Client, server: FaultyServer) -> None:
    server.faults.append(no_webhook())
    await client.create(PODS, "ns", {"metadata": {"name": "p"}})
    assert server.count("POST") == 2


async def test_a_create_whose_webhook_never_answers_fails_and_is_not_in_doubt(
    client: Client, server: FaultyServer
) -> None:
    server.faults.extend(no_webhook() for _ in range(10))
    with pytest.raises(ApiError, match="failed calling webhook") as caught:
        await client.create(PODS, "ns", {"metadata": {"name": "p"}})
    assert not caught.value.in_doubt
    assert server.count("POST") == 3


async def test_a_json_patch_with_a_lost_response_is_not_sent_again(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "p")
    server.faults.append(Fault("PATCH", cut="before"))
    with pytest.raises(NoAnswer):
        await client.patch(PODS, "ns", "p", [{"op": "add", "path": "/x/-", "value": 1}], PatchType.JSON)
    assert server.count("PATCH") == 1


async def test_a_delete_with_a_lost_response_succeeds(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "p")
    server.faults.append(Fault("DELETE", cut="after"))
    await client.delete(PODS, "ns", "p")
    with pytest.raises(NotFound):
        await client.delete(PODS, "ns", "p")


async def test_deleting_another_object_of_the_same_name_is_a_conflict(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "p")
    with pytest.raises(Conflict):
        await client.delete(PODS, "ns", "p", uid="somebody else")


async def test_a_collection_is_deleted_in_one_namespace_only(client: Client, server: FaultyServer) -> None:
    server.put("pods", "a", "p")
    server.put("pods", "b", "p")
    await client.delete_collection(PODS, "a", label_selector="x=y")
    assert [key[1] for key in server.objects] == ["b"]
    assert server.requests[-1][1] == "/api/v1/namespaces/a/pods?labelSelector=x%3Dy"
    with pytest.raises(ValueError, match="in one namespace, and none is given"):
        await client.delete_collection(PODS, None)


async def test_a_bind_sets_the_node_and_the_annotations(client: Client, server: FaultyServer) -> None:
    uid = server.put("pods", "ns", "p")["metadata"]["uid"]
    await client.bind("ns", "p", "n1", uid=uid, annotations={"volcanopy.io/gpu": "0"})
    bound = server.objects["pods", "ns", "p"]
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"volcanopy.io/gpu": "0"}
    with pytest.raises(Conflict):
        await client.bind("ns", "p", "n2", uid=uid)


async def test_binding_another_pod_of_the_same_name_is_a_conflict(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "p")
    with pytest.raises(Conflict):
        await client.bind("ns", "p", "n1", uid="an earlier pod")
    assert "spec" not in server.objects["pods", "ns", "p"]


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_bind_with_a_lost_response_is_verified(client: Client, server: FaultyServer, cut: str) -> None:
    uid = server.put("pods", "ns", "p")["metadata"]["uid"]
    server.faults.append(Fault("POST", cut=cut))
    await client.bind("ns", "p", "n1", uid=uid)
    assert server.objects["pods", "ns", "p"]["spec"]["nodeName"] == "n1"
    assert sum(what == "MODIFIED" for _, what, _, _ in server.history) == 1


async def test_a_lost_bind_overtaken_by_another_writer_is_a_conflict(client: Client, server: FaultyServer) -> None:
    uid = server.put("pods", "ns", "p")["metadata"]["uid"]

    async def overtake(request: Any) -> None:
        if request.method == "POST":
            server.put("pods", "ns", "p", spec={"nodeName": "elsewhere"})

    server.faults.append(Fault("POST", cut="before"))
    server.on_request = overtake
    with pytest.raises(Conflict):
        await client.bind("ns", "p", "n1", uid=uid)


async def test_a_list_has_pages_of_one_resource_version(client: Client, server: FaultyServer) -> None:
    for number in range(7):
        server.put("pods", "ns", f"p{number}")
    listing = await client.list(PODS, page=3)
    assert [pod.metadata.name for pod in listing.items] == [f"p{number}" for number in range(7)]
    assert listing.resource_version == str(server.revision)
    assert server.count("GET") == 3


async def test_each_page_of_a_long_list_may_have_a_deadline_of_its_own(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    for number in range(7):
        server.put("pods", "ns", f"p{number}")

    async def slowly(_: Any) -> None:
        time.now += 25.0
        if server.count("GET") in {3, 6}:
            server.faults.append(Fault("GET", code=503))

    server.on_request = slowly
    with pytest.raises(Unavailable):
        await client.list(PODS, page=3, deadline=60.0)
    assert len((await client.list(PODS, page=3, page_deadline=60.0)).items) == 7


async def test_the_objects_of_each_page_are_transformed(client: Client, server: FaultyServer) -> None:
    for number in range(7):
        server.put("pods", "ns", f"p{number}")
    listing = await client.list(PODS, page=3, transform=lambda pod: replace(pod, spec=ThingSpec(node_name="n1")))
    assert [(pod.metadata.name, pod.spec.node_name) for pod in listing.items] == [(f"p{n}", "n1") for n in range(7)]


async def test_a_list_with_an_expired_continue_token_restarts_without_pages(
    client: Client, server: FaultyServer
) -> None:
    for number in range(7):
        server.put("pods", "ns", f"p{number}")
    server.faults.append(Fault("GET", "continue=", 410, "Expired"))
    listing = await client.list(PODS, "ns", page=3)
    assert len(listing.items) == 7
    assert [path for _, path in server.requests if "limit" not in path] == ["/api/v1/namespaces/ns/pods"]


async def test_an_empty_list_is_an_empty_list(client: Client, server: FaultyServer) -> None:
    listing = await client.list(NODES)
    assert (listing.items, listing.resource_version) == ([], str(server.revision))


async def test_one_malformed_object_does_not_hide_the_others(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "good", spec={"size": 1})
    server.put("pods", "ns", "bad", spec={"size": "many"})
    listing = await client.list(PODS)
    assert [pod.metadata.name for pod in listing.items] == ["good"]
    (rejected,) = listing.rejected
    assert rejected.part is not None
    assert (rejected.key, rejected.part.spec.size) == ("ns/bad", 0)
    assert rejected.error == "Expected `int`, got `str` - at `$.spec.size`"


async def test_listed_dicts_have_kind_and_api_version(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "p")
    (item,) = (await client.list(RAW_PODS)).items
    assert (item["apiVersion"], item["kind"]) == ("v1", "Pod")


async def test_an_update_is_retried_on_the_version_of_another_writer(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    server.put("pods", "ns", "p", spec={"size": 1, "unknown": "kept"})
    others = iter([10, 20])

    async def interfere(request: Any) -> None:
        if request.method == "PATCH" and (size := next(others, None)):
            server.put("pods", "ns", "p", spec={"size": size, "unknown": "kept"})

    server.on_request = interfere

    def grow(pod: Thing) -> Thing:
        return msgspec.structs.replace(pod, spec=ThingSpec(size=pod.spec.size + 1))

    result = await client.update_with_retry(PODS, "ns", "p", grow)
    assert result.spec.size == 21
    assert server.objects["pods", "ns", "p"]["spec"] == {"size": 21, "unknown": "kept"}
    assert len(time.pauses) == 2


async def test_an_update_may_modify_the_object_in_place(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "p", spec={"size": 1, "nodeName": "n1"}, status={"phase": "Pending"})

    def release(pod: dict[str, Any]) -> dict[str, Any]:
        del pod["spec"]["nodeName"]
        pod["metadata"]["labels"] = {"a": "b"}
        return pod

    await client.update_with_retry(RAW_PODS, "ns", "p", release)
    pod = server.objects["pods", "ns", "p"]
    assert (pod["spec"], pod["metadata"]["labels"], pod["status"]) == ({"size": 1}, {"a": "b"}, {"phase": "Pending"})


async def test_an_update_without_changes_sends_no_request(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "p")
    await client.update_with_retry(PODS, "ns", "p", lambda _: None)
    await client.update_with_retry(PODS, "ns", "p", lambda pod: pod)
    assert server.count("PATCH") == 0


async def test_raw_paths_give_raw_bytes(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "p")
    assert json.loads(await client.get_raw("/api/v1/namespaces/ns/pods/p"))["metadata"]["name"] == "p"
    made = await client.post_raw("/api/v1/namespaces/ns/pods", {"metadata": {"name": "q"}})
    assert json.loads(made)["metadata"]["name"] == "q"
