"""The jobs that a snapshot of a cluster has already: what runs, and what waits with its pods."""

import math
from collections.abc import Iterator
from datetime import datetime

from volcanopy.api import names
from volcanopy.scheduler.cache.totals import count_due
from volcanopy.scheduler.model import run_times
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.engine import expected_end, is_running
from volcanopy_lab.simulate.workload import Job


def existing_jobs(cluster: Cluster, start: datetime) -> Iterator[tuple[Job, list[str], list[str]]]:
    """Yield each job whose pods exist, with the keys of its pods and of those that run.

    It ends when it is expected to by its walltime and its estimate; without these it does not end. Jobs without pods are
    removed from the cluster: they have not been admitted, and are no part of a workload.
    """
    count_due(cluster.state)
    for key, group in cluster.of_kind("PodGroup").items():
        pods = cluster.pods_of_group(key)
        if not pods:
            cluster.remove("PodGroup", key)
            continue
        running = [pod for pod in pods if is_running(pod)]
        ends = [end[0] for pod in running if (end := expected_end(cluster, pod, start, {})) is not None]
        if running:
            run_time = max((min(ends) - start).total_seconds(), 1.0) if ends else math.inf
        else:
            known = run_times.run_time(group).expected()
            run_time = known[0] if known is not None else math.inf
        totals: dict[str, int] = {}
        for unit, row in cluster.state.axis.index.items():
            jobs = cluster.state.jobs
            number = jobs.rows[key]
            total = int(jobs.amounts["allocated"][row, number] + jobs.amounts["pending"][row, number])
            if total and unit != "pods":
                totals[unit] = total // len(pods)
        job = Job(
            group.metadata.name,
            0.0,
            run_time,
            pods=len(pods),
            requests={unit: f"{amount}m" if unit == "cpu" else str(amount) for unit, amount in totals.items()},
            queue=group.spec.queue or names.DEFAULT_QUEUE,
            user=group.metadata.annotations.get(names.SUBMITTED_BY, ""),
            minimum=min(max(group.spec.min_member, 1), len(pods)),
            namespace=group.metadata.namespace,
        )
        yield job, [pod.metadata.key for pod in pods], [pod.metadata.key for pod in running]
