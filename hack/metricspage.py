"""``python -m hack.metricspage`` writes docs/metrics.md from the declared metrics."""

from pathlib import Path

from volcanopy.kube.metrics.metric_types import Instrument
from volcanopy.kube.metrics.registry import INSTRUMENTS

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"

_HEAD = """\
# Metrics

Every process serves its metrics in the Prometheus format at `/metrics`, on `--metrics-port`, or without it on the port of its health endpoints. This page is
generated from the code by `make golden`.

Names and units follow the conventions of Prometheus: seconds, bytes and cores, and `_total` for counters. Where Volcano has the metric, the name is its
name with the prefix `volcanopy_`, but for unit and suffix. For one version, `--former-metric-names` (value `monitoring.formerNames` of the chart) also serves
Volcano's names: times in `_milliseconds`, `queue_*_milli_cpu`, and the gauges `total_preemption_attempts`, `total_reclaim_attempts`,
`job_completed_phase_count`, `job_failed_phase_count`, `jobflow_succeed_phase_count` and `jobflow_failed_phase_count`. Other differences:

- No label takes its values from pods or jobs, so the number of series does not grow with the work. Volcano's metrics per
  job (`job_share`, `job_retry_counts`, `e2e_job_scheduling_duration`) do not exist.
- `unschedule_task_count` and `unschedule_job_count` have the label `queue_name`, and so have the counts of job phases.
- Amounts of a queue include its descendants, at every level of the tree up to `root`: sum over the queues of one level
  only. `scalar_resources` are whole units (`1` is one GPU), not thousandths.
- The series of a queue end when the queue is deleted.
- `process_*` (cpu time, memory, file descriptors, start time) are those of the Prometheus client libraries.
- `queue_pod_group_*_count` come from the scheduler.
- `queue_fair_share_*` are `queue_deserved_*` in Volcano: the computed share, not the field `spec.deserved`.

Evictions per 1,000 started jobs, and the part of all allocated cpu time that evictions lose, over a day:

```text
1000 * sum(increase(volcanopy_evictions_total[1d])) / sum(increase(volcanopy_job_waiting_seconds_count[1d]))
sum(increase(volcanopy_evicted_cpu_seconds_total[1d]))
  / (sum(avg_over_time(volcanopy_queue_allocated_cpu_cores{queue_name="root"}[1d])) * 86400)
```
"""

_GROUPS = (
    (
        "Scheduling cycles",
        (
            "e2e_",
            "cycle_",
            "open_",
            "action_",
            "plugin_",
            "task_",
            "schedule_",
            "pods_bound",
            "quarantined_",
            "extender_",
        ),
    ),
    ("Evictions", ("preemption_", "reclaim_", "pod_preemption", "pod_reclaim", "evict", "useful_", "wasted_")),
    ("Waiting jobs", ("unschedule_", "waiting_", "longest_", "job_waiting", "start_estimate")),
    ("Queues", ("queue_",)),
    (
        "API server requests, watches, events, parts of the process",
        ("api_", "watch_", "cache_", "events_", "writes_", "leader", "part_", "build_", "configuration_"),
    ),
    ("Controllers", ("controller_", "workqueue_", "job_", "jobs_", "jobflows_", "run_time_")),
    ("Admission", ("admission_",)),
)


def page() -> str:
    """Return the text of docs/metrics.md."""
    left = list(INSTRUMENTS)
    parts = [_HEAD]
    for title, prefixes in _GROUPS:
        mine = [metric for metric in left if _bare(metric).startswith(prefixes)]
        left = [metric for metric in left if metric not in mine]
        parts.append(f"## {title}\n\n{_table(mine)}\n")
    if left:
        raise ValueError(f"no heading for {', '.join(metric.name for metric in left)}: add one in {__file__}")
    return "\n".join(parts)


def _bare(instrument: Instrument) -> str:
    return instrument.name.removeprefix("volcanopy_")


def _table(instruments: list[Instrument]) -> str:
    """Return a Markdown table of metrics, sorted by name."""
    lines = ["| name | type | labels | description |", "|---|---|---|---|"]
    for instrument in sorted(instruments):
        labels = ", ".join(f"`{label}`" for label in instrument.labels) or "-"
        lines.append(f"| `{instrument.name}` | {instrument.type} | {labels} | {instrument.description} |")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
