"""What is sent is counted, by verb and resource."""

import pytest

from tests.kube.faulty_server import Fault, connect, faulty_server
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.request_counts import RequestKey, resource

PODS: Kind[Json] = Kind("", "v1", "Pod", "pods", True, dict)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/pods?watch=true", "pods"),
        ("/api/v1/namespaces/ns/pods", "pods"),
        ("/api/v1/namespaces/ns/pods/p/binding?fieldManager=x", "pods/binding"),
        ("/apis/batch.volcanopy.io/v1alpha1/namespaces/ns/batchjobs/j/status", "batchjobs/status"),
        ("/apis/scheduling.volcanopy.io/v1beta1/queues/q/status", "queues/status"),
        ("/api/v1/namespaces", "namespaces"),
        ("/api/v1/namespaces/ns", "namespaces"),
        ("/api/v1/namespaces/ns/status", "namespaces/status"),
        ("/apis/batch.volcanopy.io/v1alpha1", ""),
        ("/version", ""),
    ],
)
def test_a_request_is_counted_by_its_resource(path: str, expected: str) -> None:
    assert resource(path) == expected


async def test_every_attempt_is_counted() -> None:
    async with faulty_server() as server:
        connection = connect(server)
        async with Client(connection) as client:
            server.faults.append(Fault("POST", code=429, reason="TooManyRequests", headers={"Retry-After": "0"}))
            await client.create(PODS, "ns", {"metadata": {"name": "a"}})
            await client.get(PODS, "ns", "a")
            assert connection.request_counts.counts == {RequestKey("POST", "pods"): 2, RequestKey("GET", "pods"): 1}
            assert connection.request_counts.counts.total() == server.count("POST") + server.count("GET") == 3
