"""The requests of a pod: one function, and all of its callers agree."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.admission.feasibility import pod_request
from volcanopy.api import core
from volcanopy.api.builtin.pod_requests import pod_limits, pod_requests, resources_of, resources_of_json
from volcanopy.jobcontroller.job_podgroup import pod_usage
from volcanopy.scheduler.cache.shapes import request_of

Json = dict[str, Any]

AMOUNTS = {
    "cpu": st.sampled_from(["1", "2", "500m", "4"]),
    "memory": st.sampled_from(["1Gi", "64Mi", "2G"]),
    "hugepages-2Mi": st.sampled_from(["2Mi", "4Mi"]),
    "nvidia.com/gpu": st.sampled_from(["1", "2"]),
}
RESOURCES = st.fixed_dictionaries(
    {}, optional={kind: st.fixed_dictionaries({}, optional=AMOUNTS) for kind in ("requests", "limits")}
)
CONTAINER = st.fixed_dictionaries({"name": st.just("c"), "resources": RESOURCES})
INIT = st.builds(
    lambda container, policy: container | policy, CONTAINER, st.sampled_from([{}, {"restartPolicy": "Always"}])
)
SPEC = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, min_size=1, max_size=3)},
    optional={
        "initContainers": st.lists(INIT, max_size=3),
        "resources": RESOURCES,
        "overhead": st.fixed_dictionaries({}, optional={"cpu": AMOUNTS["cpu"], "memory": AMOUNTS["memory"]}),
    },
)


def typed(spec: Json) -> core.PodSpec:
    return msgspec.convert(spec, core.PodSpec)


def positive(amounts: dict[str, int]) -> dict[str, int]:
    return {name: units for name, units in amounts.items() if units > 0}


@given(SPEC)
def test_scheduler_admission_and_controller_agree(spec: Json) -> None:
    request = pod_requests(resources_of_json(spec))
    assert pod_requests(resources_of(typed(spec))) == request
    assert request_of(typed(spec)) == request | {"pods": 1}
    assert pod_request(spec) == positive(request | {"pods": 1})
    usage = pod_usage(spec)
    assert {name: usage[name] for name in request} == request
    assert {name: usage[f"requests.{name}"] for name in request} == request


@given(SPEC)
def test_a_pod_requests_at_least_its_overhead_and_its_pod_level_requests(spec: Json) -> None:
    resources = resources_of_json(spec)
    request = pod_requests(resources)
    for name in resources.overhead.keys() | ({"cpu", "memory"} & resources.requests.keys()):
        overhead = resources.overhead.get(name, 0)
        assert request[name] >= overhead
        if name in resources.requests:
            assert request[name] == resources.requests[name] + overhead


@given(SPEC)
def test_defaults_count_only_where_a_container_requests_nothing(spec: Json) -> None:
    resources = resources_of_json(spec)
    plain, padded = pod_requests(resources), pod_requests(resources, {"cpu": 100})
    assert all(padded[name] >= units for name, units in plain.items())
    assert {name: units for name, units in padded.items() if name != "cpu"} == {
        name: units for name, units in plain.items() if name != "cpu"
    }


def container(requests: str = "", limits: str = "") -> Json:
    resources = {kind: {"cpu": text} for kind, text in (("requests", requests), ("limits", limits)) if text}
    return {"name": "c", "resources": resources}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container(limits="2")]}, 2000),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, 4000),
        ({"containers": [container()], "resources": {"limits": {"cpu": "4"}}}, 4000),
        # The API server takes the containers' requests for those of the pod, and the limit only where they have none.
        ({"containers": [container("1")], "resources": {"limits": {"cpu": "4"}}}, 1000),
        ({"containers": [container("1")], "initContainers": [container("3")]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("3") | {"restartPolicy": "Always"}]}, 4000),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1") | {"restartPolicy": "Always"}, container("3")],
            },
            4000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container()], "resources": {"limits": {"cpu": "1"}}, "overhead": {"cpu": "250m"}}, 1250),
    ],
)
def test_the_rules(spec: Json, cpu: int) -> None:
    assert pod_requests(resources_of_json(spec))["cpu"] == cpu


def test_overhead_counts_for_limits_only_where_there_is_a_limit() -> None:
    spec = {"containers": [container(limits="1")], "overhead": {"cpu": "250m", "memory": "1Gi"}}
    assert pod_limits(resources_of_json(spec)) == {"cpu": 1250}
