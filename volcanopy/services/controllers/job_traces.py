"""Export of the traces of ended jobs with OpenTelemetry, which is imported only where an endpoint is set.

The trace of a job has the job's uid as its id, so that a client with the job finds it. A job with a W3C trace context in
its annotation continues that trace.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.core import Pod
from volcanopy.jobcontroller.traces import Span, job_span


class _IdsOfJobs(RandomIdGenerator):  # type: ignore[misc,unused-ignore]  # where the package is not installed
    """The id of a new trace is set before its first span is made."""

    trace_id = 0

    def generate_trace_id(self) -> int:
        """Return the id."""
        return self.trace_id or super().generate_trace_id()


class JobTraces:
    """The exporter of one controller."""

    def __init__(self, processor: SpanProcessor | None = None) -> None:
        """Without a processor, spans are sent to the endpoint of the environment."""
        self._ids = _IdsOfJobs()
        self._provider = TracerProvider(
            id_generator=self._ids,
            resource=Resource.create({"service.name": "volcanopy"}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("volcanopy")

    def ended(self, job: BatchJob, pods: Iterable[Pod]) -> None:
        """Export the trace of a job whose end is written."""
        span = job_span(job, pods)
        if span is None:
            return
        self._ids.trace_id = int(job.metadata.uid.replace("-", ""), 16)
        parent = TraceContextTextMapPropagator().extract(_carrier(job.metadata.annotations or {}), context.Context())
        self._export(span, parent)

    def _export(self, span: Span, parent: context.Context) -> None:
        exported = self._tracer.start_span(
            span.name, parent, attributes=dict(span.attributes), start_time=_nanoseconds(span.begin)
        )
        if span.failed:
            exported.set_status(trace.StatusCode.ERROR)
        within = trace.set_span_in_context(exported, parent)
        for child in span.children:
            self._export(child, within)
        exported.end(_nanoseconds(max(span.begin, span.end)))

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def _carrier(annotations: Mapping[str, str]) -> dict[str, str]:
    value = annotations.get(names.TRACEPARENT)
    return {"traceparent": value} if value else {}


def _nanoseconds(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000) * 1000
