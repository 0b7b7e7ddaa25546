"""Traces of jobs: one for each job that ends, by the times of its objects, in the trace that it was submitted in."""

import subprocess
import sys
from typing import Any

import pytest

from tests.services.service_cluster import Cluster, controller, task
from volcanopy.api import names
from volcanopy.client.sdk.connected import with_trace_context
from volcanopy.services.controllers.jobs import JobControllerSettings

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the extra otel is not installed")
SUBMITTED_IN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def exporter() -> tuple[Any, Any]:
    """Job traces that are kept in memory, and where they are kept."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from volcanopy.services.controllers.job_traces import JobTraces

    memory = InMemorySpanExporter()
    return JobTraces(SimpleSpanProcessor(memory)), memory


async def test_a_job_that_ends_is_a_trace_whose_id_is_its_uid(cluster: Cluster) -> None:
    traces, memory = exporter()
    async with controller(cluster, JobControllerSettings(traces=traces)):
        await cluster.submit("job", task("a", 2))
        await cluster.until(lambda: cluster.phase("job") == "Completed")
    spans = {span.name: span for span in memory.get_finished_spans() if span.name not in {"start", "run"}}
    assert set(spans) == {f"job {cluster.namespace}/job", "admission", "placement", "pod job-a-0", "pod job-a-1"}
    root = spans[f"job {cluster.namespace}/job"]
    assert root.parent is None
    assert f"{root.context.trace_id:032x}" == cluster.jobs["job"]["metadata"]["uid"].replace("-", "")
    assert {span.parent.span_id for span in spans.values() if span is not root} == {root.context.span_id}
    assert all(root.start_time <= span.start_time <= span.end_time for span in spans.values())


async def test_a_job_that_is_submitted_in_a_trace_continues_it(cluster: Cluster) -> None:
    traces, memory = exporter()
    async with controller(cluster, JobControllerSettings(traces=traces)):
        await cluster.submit("job", annotations={names.TRACEPARENT: SUBMITTED_IN})
        await cluster.until(lambda: cluster.phase("job") == "Completed")
    assert {f"{span.context.trace_id:032x}" for span in memory.get_finished_spans()} == {SUBMITTED_IN.split("-")[1]}
    [root] = [span for span in memory.get_finished_spans() if span.name.startswith("job ")]
    assert f"{root.parent.span_id:016x}" == SUBMITTED_IN.split("-")[2]


def test_the_sdk_annotates_a_job_with_the_span_in_which_it_is_submitted() -> None:
    manifest: dict[str, Any] = {"metadata": {"name": "job"}}
    with sdk.TracerProvider().get_tracer("test").start_as_current_span("submit") as span:
        with_trace_context(manifest)
    value = manifest["metadata"]["annotations"][names.TRACEPARENT]
    assert value.split("-")[1] == f"{span.get_span_context().trace_id:032x}"


def test_a_controller_without_the_extra_names_it() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from volcanopy.__main__ import main; sys.argv = ['volcanopy', 'controller']; main()"
    )
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "PATH": "/usr/bin:/bin"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert (
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed: install the extra otel" in run.stderr
    )
