"""``python -m hack.metricspage`` writes docs/metrics.md from the metrics as they are declared."""

from pathlib import Path

from volcanopy.kube.metrics.instruments import Instrument, reference
from volcanopy.kube.metrics.registry import INSTRUMENTS

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"

_HEAD = """\
# Metrics

Every process serves its metrics in Prometheus' form at `/metrics`, on the port that also tells its health. This page is
written from the code by `make golden`.

Where Volcano has a metric it has the same name here, behind `volcanopy_` instead of `volcano_`. What differs:

- No label takes its values from pods or jobs, so that the number of series does not grow with the work. So there is
  nothing like Volcano's `job_share`, `job_retry_counts` and `e2e_job_scheduling_duration`, which are told of each job.
- `unschedule_task_count` and `unschedule_job_count` are told by queue, the counts of job phases by queue instead of by job.
- Amounts of queues are those of a queue together with the queues below it, at every level of the tree up to `root`. So
  add up queues of one level only. `scalar_resources` are whole units (`1` is one GPU), not thousandths.
- The series of a queue end with the queue.
- `queue_pod_group_*_count` are told by the scheduler, which knows the tree.
"""

_GROUPS = (
    ("Cycles of the scheduler", ("e2e_", "cycle_", "open_", "action_", "plugin_", "task_", "schedule_", "pods_bound")),
    ("Evictions", ("total_", "pod_preemption", "pod_reclaim", "eviction", "useful_", "wasted_")),
    ("Who waits, and for what", ("unschedule_", "waiting_", "longest_", "job_waiting")),
    ("Queues", ("queue_",)),
    ("The API server, watches, events", ("api_", "watch_", "cache_", "events_", "writes_", "leader")),
    ("Controllers", ("controller_", "workqueue_", "job_", "jobflow_")),
    ("Admission", ("admission_",)),
)


def page() -> str:
    """The text of docs/metrics.md."""
    left = list(INSTRUMENTS)
    parts = [_HEAD]
    for title, prefixes in _GROUPS:
        mine = [one for one in left if _bare(one).startswith(prefixes)]
        left = [one for one in left if one not in mine]
        parts.append(f"## {title}\n\n{reference(mine)}\n")
    if left:
        raise ValueError(f"no heading for {', '.join(one.name for one in left)}: give it one in {__file__}")
    return "\n".join(parts)


def _bare(instrument: Instrument) -> str:
    return instrument.name.removeprefix("volcanopy_")


if __name__ == "__main__":
    PAGE.write_text(page())
