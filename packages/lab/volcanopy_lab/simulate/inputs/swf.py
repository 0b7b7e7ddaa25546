"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, -1 for what is unknown."""

from collections.abc import Iterable

from volcanopy.api import names
from volcanopy_lab.simulate.inputs.columns import Trace
from volcanopy_lab.simulate.workload import Job, WorkloadError

FIELDS = 18


def read_swf(lines: Iterable[str], pod_cpus: int = 1) -> Trace:
    """Return the jobs of a trace; ``pod_cpus`` processors are a pod. Raises WorkloadError.

    Fields that are used: 1 number, 2 submission, 4 run time, 5 or 8 processors, 9 requested time (the user's estimate, and the
    walltime), 12 user, 14 program, 15 queue.
    """
    trace = Trace()
    for number, line in enumerate(lines, start=1):
        text = line.partition(";")[0].strip()
        if not text:
            continue
        values = text.split()
        if len(values) < FIELDS:
            raise WorkloadError(f"line {number}: a job of an SWF trace has {FIELDS} fields, not {len(values)}")
        try:
            fields = [float(value) for value in values[:FIELDS]]
        except ValueError:
            wrong = next(value for value in values if not _is_number(value))
            raise WorkloadError(f"line {number}: fields of an SWF trace are numbers, not {wrong!r}") from None
        job, submit, run_time, requested_time = int(fields[0]), fields[1], fields[3], fields[8]
        processors = int(fields[7] if fields[7] > 0 else fields[4])
        user, program, queue = int(fields[11]), int(fields[13]), int(fields[14])
        if run_time <= 0 or processors <= 0:
            trace.leave_out("no run time" if run_time <= 0 else "no processors")
            continue
        pods = max(-(-processors // pod_cpus), 1)
        trace.jobs.append(
            Job(
                f"user-{max(user, 0)}-program-{max(program, 0)}-{job}",
                submit,
                run_time,
                pods,
                {"cpu": str(min(pod_cpus, processors))},
                queue=f"queue-{queue}" if queue > 0 else names.DEFAULT_QUEUE,
                user=f"user-{user}" if user > 0 else "",
                estimate=max(requested_time, 0.0),
                walltime=max(requested_time, run_time) if requested_time > 0 else 0.0,
            )
        )
    return trace


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
