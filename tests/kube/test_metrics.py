"""The metrics: what there is, that it can be served, and that the reference and the dashboard speak of nothing else."""

import json
import re
import weakref
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families

import volcanopy
from hack.metricspage import PAGE, page
from tests.kube.faulty_server import Fault, connect, faulty_server
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.request_metrics import measure_requests
from volcanopy.kube.metrics import registry
from volcanopy.kube.metrics.former_names import FormerNames
from volcanopy.kube.metrics.metric_types import CallbackGauge, MetricRegistry, exponential_buckets

DASHBOARD = Path(__file__).parents[2] / "charts" / "volcanopy" / "dashboards" / "volcanopy.json"
PODS: Kind[Json] = Kind("", "v1", "Pod", "pods", True, dict)
OF_VOLCANO = """
action_scheduling_latency_seconds controller_job_to_pod_creation_latency_seconds e2e_job_scheduling_latency_seconds
e2e_scheduling_latency_seconds eviction_transactions_total jobs_completed_total jobs_failed_total
jobflows_failed_total jobflows_succeeded_total open_session_duration_seconds plugin_scheduling_latency_seconds
pod_preemption_victims queue_allocated_memory_bytes queue_allocated_cpu_cores queue_allocated_scalar_resources
queue_capacity_memory_bytes queue_capacity_cpu_cores queue_capacity_scalar_resources queue_fair_share_memory_bytes
queue_fair_share_cpu_cores queue_fair_share_scalar_resources queue_overused queue_pod_group_completed_count
queue_pod_group_inqueue_count queue_pod_group_pending_count queue_pod_group_running_count queue_pod_group_unknown_count
queue_real_capacity_memory_bytes queue_real_capacity_cpu_cores queue_real_capacity_scalar_resources
queue_request_memory_bytes queue_request_cpu_cores queue_request_scalar_resources queue_share queue_weight
schedule_attempts_total task_scheduling_latency_seconds preemption_attempts_total unschedule_job_count unschedule_task_count
"""


def served() -> dict[str, float]:
    """Every sample, by its name and labels."""
    text = generate_latest(registry.REGISTRY).decode()
    return {
        f"{sample.name}{json.dumps(sample.labels, sort_keys=True) if sample.labels else ''}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_that_volcano_has_have_its_names_but_for_units() -> None:
    assert {f"volcanopy_{name}" for name in OF_VOLCANO.split()} <= {
        instrument.name for instrument in registry.INSTRUMENTS
    }


def test_labels_have_bounded_cardinality() -> None:
    labels = {label for instrument in registry.INSTRUMENTS for label in instrument.labels}
    assert labels == {
        "OnSession", "action", "basis", "code", "component", "configuration", "controller", "gate", "jobflow_namespace", "kind", "operation", "outcome", "part",
        "phase", "plugin", "queue_name", "reason", "resource", "result", "stage", "verb", "verdict", "version", "webhook",
    }  # fmt: skip


def test_metrics_are_served_in_both_formats() -> None:
    names = {instrument.name for instrument in registry.INSTRUMENTS}
    assert len(names) == len(registry.INSTRUMENTS)
    for accepted in ("text/plain", "application/openmetrics-text"):
        encode, _ = choose_encoder(accepted)
        message = set(re.findall(r"^# HELP (\S+)", encode(registry.REGISTRY).decode(), re.MULTILINE))
        assert {name.removesuffix("_total") for name in names} <= {name.removesuffix("_total") for name in message}


def test_the_process_and_the_version_are_measured() -> None:
    assert (registry.REGISTRY.get_sample_value("process_open_fds") or 0) > 0
    assert (registry.REGISTRY.get_sample_value("process_resident_memory_bytes") or 0) > 0
    assert registry.REGISTRY.get_sample_value("volcanopy_build_info", {"version": volcanopy.__version__}) == 1


def test_the_reference_is_written_from_the_code() -> None:
    assert PAGE.read_text() == page(), "run make golden"


def test_the_dashboard_queries_existing_metrics() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = set(
        re.findall(r"volcanopy_[a-z0-9_]+", json.dumps(dashboard["panels"]) + json.dumps(dashboard["templating"]))
    )
    there = {instrument.name for instrument in registry.INSTRUMENTS}
    there |= {
        f"{instrument.name}_{part}"
        for instrument in registry.INSTRUMENTS
        if instrument.type == "histogram"
        for part in ("bucket", "sum", "count")
    }
    assert asked
    assert asked <= there


def test_the_dashboard_groups_by_existing_labels() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    labels = {instrument.name: set(instrument.labels) | {"le"} for instrument in registry.INSTRUMENTS}
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            (name,) = set(re.findall(r"volcanopy_[a-z0-9_]+", target["expr"]))
            known = labels[name if name in labels else name.rpartition("_")[0]]
            said = re.findall(r"by \(([^)]*)\)", target["expr"]) + re.findall(
                r"([A-Za-z_]+)=~?\"|([a-z_]+)!", target["expr"]
            )
            flat = [part for item in said for part in (item if isinstance(item, tuple) else item.split(", ")) if part]
            flat += re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            assert set(flat) <= known, target["expr"]


def test_the_dashboard_adds_up_no_metric_that_counts_descendants() -> None:
    """A group would count once for each level of the tree."""
    nested = {instrument.name for instrument in registry.INSTRUMENTS if "and its descendants" in instrument.description}
    assert "volcanopy_queue_pod_group_running_count" in nested
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            if nested & set(re.findall(r"volcanopy_[a-z0-9_]+", target["expr"])):
                assert "(" not in target["expr"]
                assert "{{queue_name}}" in target["legendFormat"]


def test_panels_do_not_overlap() -> None:
    callback_gauge = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in callback_gauge
                assert x < 24
                callback_gauge.add((x, y))


def test_buckets_reach_from_the_first_to_the_last() -> None:
    assert exponential_buckets(1, 5000, 20)[0] == 1
    assert exponential_buckets(1, 5000, 20)[-1] == 5000
    assert exponential_buckets(1, 5000, 20) == sorted(set(exponential_buckets(1, 5000, 20)))


# Gauges that are read when they are scraped


def values(gauge: CallbackGauge) -> dict[tuple[str, ...], float]:
    (family,) = gauge.collect()
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


def test_a_gauge_is_read_as_long_as_its_object_exists() -> None:
    gauge = MetricRegistry().callback_gauge("depth", "Something", "of")
    assert values(gauge) == {}
    with gauge.read_from(lambda: [(("a",), 1.0), (("b",), 2.0)]), gauge.read_from(lambda: [(("a",), 4.0)]):
        assert values(gauge) == {("a",): 5.0, ("b",): 2.0}
    assert values(gauge) == {}


def test_gauges_of_deleted_objects_are_removed() -> None:
    class Thing:
        size = 3.0

    gauge, obj = MetricRegistry().callback_gauge("size", "Something", "of"), Thing()
    gauge.follow(obj, lambda item: [(("thing",), item.size)])
    assert values(gauge) == {("thing",): 3.0}
    alive = weakref.ref(obj)
    del obj
    assert alive() is None
    assert values(gauge) == {}


# Metrics of the client and its watches


async def test_requests_are_counted_by_verb_resource_and_outcome() -> None:
    measure_requests()
    before = served()
    async with faulty_server() as server, Client(connect(server)) as client:
        server.faults.append(Fault("POST", code=429, reason="TooManyRequests", headers={"Retry-After": "0"}))
        await client.create(PODS, "ns", {"metadata": {"name": "a"}})
        with pytest.raises(ApiError):
            await client.get(PODS, "ns", "b")
    after = served()

    def increase(code: str, verb: str) -> float:
        name = "volcanopy_api_requests_total" + json.dumps({"code": code, "resource": "pods", "verb": verb})
        return after.get(name, 0.0) - before.get(name, 0.0)

    assert [increase("429", "POST"), increase("201", "POST"), increase("404", "GET")] == [1, 1, 1]
    timed = 'volcanopy_api_request_duration_seconds_count{"resource": "pods", "verb": "POST"}'
    assert after[timed] - before.get(timed, 0.0) == 2


async def test_cached_objects_are_counted_while_their_watch_exists() -> None:
    name = 'volcanopy_cache_objects{"resource": "pods"}'
    async with faulty_server() as server, Client(connect(server)) as client:
        for item in "abc":
            await client.create(PODS, "ns", {"metadata": {"name": item}})
        before = served().get(name, 0.0)
        reflector = Reflector(client, PODS)
        batches = reflector.batches()
        await anext(batches)
        assert served()[name] - before == 3
        await batches.aclose()


def test_renamed_metrics_are_also_served_under_their_former_names_and_units() -> None:
    metrics = MetricRegistry()
    metrics.counter("jobs_failed_total", "", "queue_name").labels("q").inc(3)
    metrics.gauge("queue_waiting_cpu_cores", "", "queue_name").labels("q").set(1.5)
    metrics.histogram("cycle_latency_seconds", "", (0.001, 5), "stage").labels("whole").observe(0.25)
    metrics.counter("evictions_total", "").inc()
    former = CollectorRegistry()
    former.register(FormerNames(metrics.registry))
    values = {
        (sample.name, sample.labels.get("le", "")): sample.value
        for family in text_string_to_metric_families(generate_latest(former).decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert values == {
        ("volcanopy_job_failed_phase_count", ""): 3,
        ("volcanopy_queue_waiting_milli_cpu", ""): 1500,
        ("volcanopy_cycle_latency_milliseconds_bucket", "1.0"): 0,
        ("volcanopy_cycle_latency_milliseconds_bucket", "5000.0"): 1,
        ("volcanopy_cycle_latency_milliseconds_bucket", "+Inf"): 1,
        ("volcanopy_cycle_latency_milliseconds_count", ""): 1,
        ("volcanopy_cycle_latency_milliseconds_sum", ""): 250,
    }
