"""Guarantees of the store for any sequence of writes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_apiserver.quantities import canonical, parse
from embedded_apiserver.schema.builtin_types import fits
from embedded_apiserver.schema.definitions import Definitions
from embedded_apiserver.status_errors import ApiError
from embedded_apiserver.store import object_store
from embedded_apiserver.store.object_store import Store

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["x", "y", "z"]),
        st.sampled_from([1, 2]),
    ),
    max_size=40,
)


def _body(namespace: str, name: str, node: int) -> dict[str, Any]:
    metadata = {
        "namespace": namespace,
        "name": name,
        "uid": f"{namespace}/{name}",
        "ownerReferences": [{"uid": f"o{node}"}],
    }
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"nodeName": f"n{node}"}}


@given(CHANGES)
def test_every_past_version_can_be_read_until_it_is_compacted(changes: list[tuple[str, str, str, int]]) -> None:
    store = Store(history=15)
    bucket = store.bucket("pods")
    moments: dict[int, list[bytes]] = {0: []}
    for what, namespace, name, node in changes:
        entry = bucket.get(namespace, name)
        if what == "put":
            store.put(bucket, _body(namespace, name, node))
        elif entry is not None:
            store.remove(bucket, entry)
        moments[store.version] = [item.raw for item in bucket.entries()]
        assert {id(item) for item in bucket._decoded.values()} <= {id(item) for item in bucket.entries()}
        assert bucket._decoded_bytes == sum(item.size for item in bucket._decoded.values())
    for version, seen in moments.items():
        if version < bucket.compacted:
            with pytest.raises(ApiError, match="too old"):
                bucket.entries_at(version)
        else:
            now = bucket.entries_at(version)
            assert [item.raw for item in now] == seen
            for number, item in enumerate(now, 1):
                assert bucket.entries_at(version, after=(item.namespace, item.name)) == now[number:]
            assert [event.version for event in bucket.since(version)] == [
                event.version for event in bucket.history if event.version > version
            ]


def test_a_bounded_number_of_objects_is_kept_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "DECODED", 5)
    monkeypatch.setattr(object_store, "DECODED_BYTES", 10_000)
    store = Store()
    bucket = store.bucket("pods")
    for number in range(30):
        store.put(bucket, _body("a", f"x{number}", number % 3))
    assert [entry.name for entry in bucket.entries() if entry._body is not None] == [
        f"x{number}" for number in range(25, 30)
    ]
    store.put(bucket, _body("a", "x3", 1) | {"status": {"message": "m" * 9_900}})
    assert [entry.name for entry in bucket.entries() if entry._body is not None] == ["x3"]
    assert [entry.body["metadata"]["name"] for entry in bucket.entries()] == [entry.name for entry in bucket.entries()]


def test_the_history_is_bounded_by_bytes_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    bucket = store.bucket("configmaps")
    monkeypatch.setattr(object_store, "HISTORY_BYTES", 10_000)
    for number in range(30):
        store.put(bucket, _body("a", "x", number) | {"data": {"k": "v" * 1000}})
    remembered = [event.version for event in bucket.history]
    assert 1000 * len(remembered) < sum(len(event.entry.raw) for event in bucket.history) <= 10_000
    assert (len(remembered), bucket.compacted) == (8, 22)
    assert [event.version for event in bucket.since(22)] == remembered
    with pytest.raises(ApiError, match="too old"):
        bucket.since(21)


def test_the_history_before_a_version_can_be_forgotten() -> None:
    store = Store()
    changed, quiet = store.bucket("pods"), store.bucket("services")
    for number in range(4):
        store.put(changed, _body("a", "x", number))
    store.compact(3)
    assert [event.version for event in changed.since(3)] == [4]
    with pytest.raises(ApiError, match="too old"):
        changed.since(2)
    assert quiet.since(0) == []  # nothing is missing


@given(CHANGES)
def test_the_indexes_agree_with_the_objects(changes: list[tuple[str, str, str, int]]) -> None:
    store = Store()
    bucket = store.bucket("pods")
    for what, namespace, name, node in changes:
        entry = bucket.get(namespace, name)
        if what == "put":
            store.put(bucket, _body(namespace, name, node))
        elif entry is not None:
            store.remove(bucket, entry)
    everything = bucket.entries()
    assert bucket.count == len(everything)
    assert set(store.by_uid) == {entry.uid for entry in everything}
    for node in (1, 2):
        there = [entry for entry in everything if entry.body["spec"]["nodeName"] == f"n{node}"]
        assert bucket.on_node(f"n{node}") == there
        assert sorted(store.owned_by(f"o{node}")) == [("pods", entry.namespace, entry.name) for entry in there]


@given(
    st.decimals(min_value="0.000001", max_value="1000000", places=6),
    st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi"]),
)
def test_the_canonical_form_keeps_the_amount(number: Any, suffix: str) -> None:
    text = f"{number:f}{suffix}"
    spelled = canonical(text)
    assert canonical(spelled) == spelled
    difference = parse(spelled) - parse(text)
    unit = 1 if suffix.endswith("i") else parse("1n")
    assert 0 <= difference <= unit, "rounded up to the unit that can be written, never down"


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("512", "512"),
        (4, "4"),
        ("1000", "1k"),
        ("100Ki", "100Ki"),
    ],
)
def test_quantities_have_the_canonical_form_of_the_real_server(written: str | int, stored: str) -> None:
    assert canonical(written) == stored


_VALUES = st.sampled_from([None, 1, "x", "1", True, [], {}, ["x"], {"x": "y"}, 1.5, -1, 2**40])
_PLACES = st.sampled_from(
    [("metadata", "labels"), ("metadata", "name"), ("spec", "containers"), ("spec", "nodeName"), ("spec", "priority"), ("spec", "x"),
     ("spec", "tolerations"), ("spec", "activeDeadlineSeconds"), ("spec", "hostNetwork"), ("status", "startTime"), ("x", "y")]
)  # fmt: skip


@given(st.lists(st.tuples(_PLACES, _VALUES), max_size=3))
def test_objects_that_pass_the_quick_check_pass_the_full_one(edits: list[tuple[tuple[str, str], Any]]) -> None:
    body: dict[str, Any] = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
    }
    for (above, key), value in edits:
        body.setdefault(above, {})[key] = value
    definitions = Definitions.load()
    if fits(definitions, "", "v1", "Pod", body):
        assert definitions.type_errors("", "v1", "Pod", body) == []
        assert definitions.prune("", "v1", "Pod", body)[1] == []


def test_objects_are_the_same_after_many_others_and_take_a_fraction_of_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(object_store, "COMPRESSED_FROM", 1)
    store = Store()
    bucket = store.bucket("pods")

    def body(number: int) -> dict[str, Any]:
        metadata = {"name": f"p{number}", "namespace": "x", "uid": f"u{number}"}
        spec = {
            "containers": [{"name": "main", "env": [{"name": f"V{item}", "value": "w" * item} for item in range(40)]}]
        }
        return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}

    count = object_store.DECODED + 1_200
    entries = [store.put(bucket, body(number)) for number in range(count)]
    written = [store.put(bucket, body(number)) for number in range(100)]
    for number, entry in enumerate(entries):
        expected = body(number)
        expected["metadata"]["resourceVersion"] = str(number + 1)
        assert entry.body == entry.copy() == expected
        assert entry.raw == object_store.encode(expected)
        assert entry.size == len(entry.raw)
    assert all(entry._body is not None for entry in written)
    packed = [len(entry._content) for entry in entries[:1_000]]
    assert sum(packed) < sum(entry.size for entry in entries[:1_000]) / 10
