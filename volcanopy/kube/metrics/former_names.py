"""Metrics under their former names, which are Volcano's, for dashboards that are not changed yet.

Volcano measures times in milliseconds, cpu in milli-cpu, and serves some counters as gauges. The values are those of the
metrics with the conventional names and units.
"""

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from volcanopy.kube.metrics.metric_types import PREFIX

COUNTERS = {
    "preemption_attempts": "total_preemption_attempts",
    "reclaim_attempts": "total_reclaim_attempts",
    "jobs_completed": "job_completed_phase_count",
    "jobs_failed": "job_failed_phase_count",
    "jobflows_succeeded": "jobflow_succeed_phase_count",
    "jobflows_failed": "jobflow_failed_phase_count",
}
"""The former name of a counter, by its name without ``_total``."""
TIMES = (
    "action_scheduling_latency",
    "controller_job_to_pod_creation_latency",
    "cycle_latency",
    "e2e_job_scheduling_latency",
    "e2e_scheduling_latency",
    "open_session_duration",
    "plugin_scheduling_latency",
    "task_scheduling_latency",
)
"""The histograms that were in milliseconds, without the unit."""


class FormerNames(Collector):
    """The metrics of a registry whose name or unit changed, under the former name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: what is collected depends on the registry."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield each renamed metric of the registry."""
        for metric in self._registry.collect():
            name = metric.name.removeprefix(PREFIX)
            if name in COUNTERS:
                yield _scaled(metric, COUNTERS[name], "gauge", 1)
            elif name.endswith("_cpu_cores"):
                yield _scaled(metric, f"{name.removesuffix('_cpu_cores')}_milli_cpu", "gauge", 1000)
            elif name.removesuffix("_seconds") in TIMES:
                yield _scaled(metric, f"{name.removesuffix('_seconds')}_milliseconds", "histogram", 1000)


def _scaled(metric: Metric, former: str, kind: str, factor: int) -> Metric:
    """Return a metric under a former name, with values in a unit that is ``factor`` times smaller."""
    result = Metric(PREFIX + former, f"Former name of {metric.name}. {metric.documentation}", kind)
    for sample in metric.samples:
        suffix = sample.name.removeprefix(metric.name)
        labels = dict(sample.labels)
        match kind, suffix:
            case "gauge", "" | "_total":
                result.add_sample(PREFIX + former, labels, sample.value * factor)
            case "histogram", "_bucket":
                limit = float(labels["le"]) * factor
                labels["le"] = "+Inf" if limit == float("inf") else str(float(f"{limit:.6g}"))
                result.add_sample(f"{PREFIX}{former}_bucket", labels, sample.value)
            case "histogram", "_sum":
                result.add_sample(f"{PREFIX}{former}_sum", labels, sample.value * factor)
            case "histogram", "_count":
                result.add_sample(f"{PREFIX}{former}_count", labels, sample.value)
    return result
