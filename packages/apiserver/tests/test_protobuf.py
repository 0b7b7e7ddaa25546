"""Protobuf bodies become the JSON objects that they stand for."""

from __future__ import annotations

import base64
import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_apiserver.kinds.builtin import builtin_kinds
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.schema.definitions import Definitions
from embedded_apiserver.wire.protobuf import ProtobufError, decode, message_of, messages


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: Any) -> bytes:
    """One field on the wire: an integer, a text, or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, *fields: bytes) -> bytes:
    return (
        b"k8s\0"
        + field(1, field(1, api_version) + field(2, kind))
        + field(2, b"".join(fields))
        + field(3, "")
        + field(4, "")
    )


def test_a_config_map_as_kubectl_sends_it() -> None:
    """The bytes are those of `kubectl create configmap cm1 --from-literal=a=b`."""
    sent = b'k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x1d\n\x13\n\x03cm1\x12\0\x1a\0"\0*\x002\x008\0B\0\x12\x06\n\x01a\x12\x01b\x1a\0"\0'
    assert decode(sent) == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm1"}, "data": {"a": "b"}}


def test_a_job_with_its_pod_template() -> None:
    resources = field(2, field(1, "cpu") + field(2, field(1, "500m")))
    container = field(1, "main") + field(2, "busybox") + field(3, "sleep") + field(3, "1") + field(8, resources)
    volume = field(1, "data") + field(2, field(2, b""))
    pod = field(2, container) + field(3, "Never") + field(1, volume) + field(4, 0)
    job = field(2, field(1, 0) + field(6, field(2, pod))) + field(3, field(4, 0))
    main = {"name": "main", "image": "busybox", "command": ["sleep", "1"], "resources": {"requests": {"cpu": "500m"}}}
    wanted = {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [main],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
    }
    assert decode(body("batch/v1", "Job", field(1, field(1, "j")), job)) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 0, "template": {"spec": wanted}},
    }


def test_the_status_of_a_job_as_controllers_write_it() -> None:
    """The status is what they update; without it the server would store an empty one."""
    failed = field(1, "Failed") + field(2, "True") + field(4, field(1, 1767225600)) + field(5, "BackoffLimitExceeded")
    status = decode(body("batch/v1", "Job", field(3, field(1, failed) + field(6, 2) + field(11, 0))))["status"]
    condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    assert status == {
        "conditions": [condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "failed": 2,
        "terminating": 0,
    }


def test_a_name_that_two_groups_have() -> None:
    sent = [field(1, field(1, "e")), field(2, field(1, 1767225600)), field(8, field(1, "Pod")), field(10, "started")]
    event = decode(body("events.k8s.io/v1", "Event", *sent))
    assert event["regarding"] == {"kind": "Pod"}
    assert (event["eventTime"], event["note"]) == ("2026-01-01T00:00:00.000000Z", "started")


def test_the_raw_object_of_a_controller_revision() -> None:
    revision = decode(body("apps/v1", "ControllerRevision", field(2, field(1, b'{"spec": {}}')), field(3, 7)))
    assert (revision["data"], revision["revision"]) == ({"spec": {}}, 7)


@pytest.mark.parametrize("kind", builtin_kinds(), ids=lambda kind: f"{kind.group}/{kind.kind}")
def test_every_kind_of_the_server_is_decoded(kind: Kind) -> None:
    sent = body(f"{kind.group}/{kind.version}".lstrip("/"), kind.kind, field(1, field(1, "x")))
    assert decode(sent)["metadata"]["name"] == "x"


@pytest.mark.parametrize("kind", builtin_kinds(), ids=lambda kind: f"{kind.group}/{kind.kind}")
def test_every_field_of_a_published_schema_is_decoded(kind: Kind) -> None:
    """A field without a number would make a whole object unreadable."""
    published = Definitions.load().name_of(kind.group, kind.version, kind.kind)
    assert published is not None
    assert fields_without_number(published, message_of(f"{kind.group}/{kind.version}".lstrip("/"), kind.kind)) == []


def fields_without_number(definition: str, message: str) -> list[str]:
    """The fields of a definition and those below it that the message lacks, as `Message.field`."""
    result, pending, visited = [], [(definition, message)], set()
    while pending:
        definition, message = pending.pop()
        if definition in visited:
            continue
        visited.add(definition)
        numbered = members(message)
        for name, schema in Definitions.load().raw[definition].get("properties", {}).items():
            below = schema.get("items", schema.get("additionalProperties", schema)).get("$ref", "").rpartition("/")[2]
            if name not in numbered and name not in ("apiVersion", "kind"):
                result.append(f"{message}.{name}")
            elif numbered.get(name) in messages():
                pending.append((below, numbered[name]))
    return result


def members(message: str) -> dict[str, str]:
    """The type of each field of a message by its name, with the fields that stand in their parent."""
    result: dict[str, str] = {}
    for member in messages()[message].values():
        result |= members(member.kind) if member.name == "^" else {member.name: member.kind}
    return result


def test_the_metrics_of_an_autoscaler() -> None:
    target = field(1, "StatefulSet") + field(2, "workers")
    metric = field(1, "Resource") + field(4, field(1, "cpu") + field(2, field(1, "Utilization") + field(4, 80)))
    sent = body(
        "autoscaling/v2", "HorizontalPodAutoscaler", field(2, field(1, target) + field(3, 9) + field(4, metric))
    )
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    assert decode(sent)["spec"] == {
        "scaleTargetRef": {"kind": "StatefulSet", "name": "workers"},
        "maxReplicas": 9,
        "metrics": [{"type": "Resource", "resource": resource}],
    }


def test_secrets_are_base64_and_negative_numbers_negative() -> None:
    secret = decode(body("v1", "Secret", field(2, field(1, "k") + field(2, b"\x00\xff"))))
    assert secret["data"] == {"k": base64.b64encode(b"\x00\xff").decode()}
    priority = decode(body("scheduling.k8s.io/v1", "PriorityClass", field(2, -5)))
    assert priority["value"] == -5


def test_times_and_int_or_string() -> None:
    budget = decode(
        body(
            "policy/v1",
            "PodDisruptionBudget",
            field(2, field(1, field(1, 1) + field(3, "50%")) + field(3, field(2, 2))),
        )
    )
    assert budget["spec"] == {"minAvailable": "50%", "maxUnavailable": 2}
    none = decode(body("policy/v1", "PodDisruptionBudget", field(2, field(3, field(2, 0)))))
    assert none["spec"] == {"maxUnavailable": 0}, "zero is a value"
    event = decode(
        body(
            "v1",
            "Event",
            field(6, field(1, 1767225600)),
            field(10, field(1, 1767225600) + field(2, 5000)),
            field(7, b""),
        )
    )
    assert (event["firstTimestamp"], event["eventTime"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000005Z")
    assert "lastTimestamp" not in event


@pytest.mark.parametrize(
    ("sent", "expected_error"),
    [
        (b"{}", "does not start with the Kubernetes protobuf magic number"),
        (body("x/v1", "Strange"), "x/v1 Strange is not accepted as protobuf: send it as application/json"),
        (body("v1", "Namespace", field(1, field(1, b"\xff"))), "cannot be decoded"),
        (body("v1", "Namespace", field(77, "x")), "field 77 of Namespace is not known"),
        (body("v1", "Namespace", field(1, 3)), "a number stands where a text or message was expected"),
        (b"k8s\0\x12\x7f", "the body ends within a field"),
        (b"k8s\0\x0d", "wire type 5 is not used by Kubernetes"),
    ],
)
def test_undecodable_bodies_are_rejected(sent: bytes, expected_error: str) -> None:
    with pytest.raises(ProtobufError, match=expected_error):
        decode(sent)


@given(st.dictionaries(st.text("ab", min_size=1), st.text(max_size=5), min_size=1))
def test_maps_are_decoded(data: dict[str, str]) -> None:
    sent = body("v1", "ConfigMap", *(field(2, field(1, key) + field(2, value)) for key, value in data.items()))
    assert decode(sent)["data"] == data


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_decoded_or_rejected(data: bytes) -> None:
    with contextlib.suppress(ProtobufError):
        decode(b"k8s\0" + data)
    with contextlib.suppress(ProtobufError):
        decode(body("v1", "Pod", data))
