"""Finished jobs of a cluster: the records of ``volcanopy job history -o json``, or such records as JSON lines."""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from volcanopy.api import names, quantity
from volcanopy.api.model import parse_duration
from volcanopy_lab.simulate.inputs.columns import Trace
from volcanopy_lab.simulate.workload import Job, WorkloadError


def read_finished_jobs(text: str) -> Trace:
    """Return the jobs of records. Raises WorkloadError.

    A pod requests the resource-seconds of its job, divided by the run time and the number of pods.
    """
    trace = Trace()
    for place, record in _records(text):
        job = _job(record, place)
        if job is None:
            trace.leave_out("it has not run or used nothing")
        else:
            trace.jobs.append(job)
    return trace


def _records(text: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield the place and the content of each record."""
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        whole = None
    if isinstance(whole, dict) and isinstance(whole.get("items"), list):
        yield from ((f"items[{number}]", record) for number, record in enumerate(whole["items"]))
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise WorkloadError(f"line {number}: not JSON: {error.msg}") from None
        if not isinstance(record, dict):
            raise WorkloadError(f"line {number}: a record is an object with name, queued and runningDuration")
        yield f"line {number}", record


def _job(record: Mapping[str, Any], place: str) -> Job | None:
    try:
        queued = datetime.fromisoformat(str(record["queued"])).timestamp()
        name = str(record["name"])
        total = parse_duration(record.get("runningDuration") or "0s").total_seconds()
        used = quantity.amounts(record.get("resourceSeconds") or {})
    except KeyError as error:
        raise WorkloadError(f"{place}: no field {error.args[0]!r}, which a record of a finished job has") from None
    except ValueError as error:
        raise WorkloadError(f"{place}: {error}") from None
    run_time = total / (int(record.get("restarts") or 0) + 1)
    pods = max(int(record.get("pods") or 1), 1)
    requests = {unit: max(math.ceil(amount / (total * pods)), 1) for unit, amount in used.items() if total and amount}
    if run_time <= 0 or not requests:
        return None
    identity = str(record.get("uid") or "")[:8]
    return Job(
        f"{name}-{identity}" if identity else name,
        queued,
        run_time,
        pods,
        quantity.texts(requests),
        queue=str(record.get("queue") or names.DEFAULT_QUEUE),
        user=str(record.get("user") or ""),
        namespace=str(record.get("namespace") or "default"),
    )
