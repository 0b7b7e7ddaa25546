"""What all processes measure of themselves, in one registry that ``/metrics`` serves.

Where Volcano has a metric it has its name here, behind ``volcanopy_`` instead of ``volcano_``. No label takes its values
from pods or jobs: queues, namespaces' resources, actions and plugins are few, those are not. Times are in the unit that
the name ends with.
"""

from __future__ import annotations

from volcanopy.kube.metrics.instruments import Declared, spread

_ALL = Declared()
REGISTRY = _ALL.registry
"""Everything that is measured in this process."""
INSTRUMENTS = _ALL.instruments
"""What there is to be measured, for the reference."""

_REQUESTS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600, 7 * 24 * 3600)
_PAUSES = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 5, 20, 60, 300)

# The scheduler's cycles

E2E_LATENCY = _ALL.histogram(
    "e2e_scheduling_latency_milliseconds",
    "From the beginning of a cycle to the server's answers to all of its binds and evictions; cycles with neither do not count",
    spread(1, 5000, 20),
)
CYCLE_LATENCY = _ALL.histogram(
    "cycle_latency_milliseconds",
    "One cycle, by stage: snapshot, decide (of which close is a part), judge (the plan is checked), recheck (if need be), whole",
    spread(1, 5000, 20),
    "stage",
)
OPEN_SESSION = _ALL.histogram(
    "open_session_duration_milliseconds", "Opening a session, all plugins included", spread(1, 5000, 20)
)
ACTION_LATENCY = _ALL.histogram(
    "action_scheduling_latency_milliseconds", "One action in one cycle", spread(1, 2000, 20), "action"
)
PLUGIN_LATENCY = _ALL.histogram(
    "plugin_scheduling_latency_milliseconds",
    "What a plugin reckons for a whole session when it is opened (OnSessionOpen)",
    spread(0.1, 100, 15),
    "plugin",
    "OnSession",
)
CYCLE_FAULTS = _ALL.counter(
    "cycle_faults_total",
    "Cycles that came to nothing: an error in an action or plugin (error), or a plan that broke a promise (broken)",
    "kind",
)
TASK_LATENCY = _ALL.histogram(
    "task_scheduling_latency_milliseconds",
    "From the making of a pod to when its place is decided (Assumed) and to when the server has bound it (Bound)",
    spread(50, 60000, 30),
    "stage",
)
JOB_LATENCY = _ALL.histogram(
    "e2e_job_scheduling_latency_milliseconds",
    "From the making of a pod group to when it has all the pods that it needs to start",
    spread(100, 120000, 30),
)
ATTEMPTS = _ALL.counter(
    "schedule_attempts_total",
    "Pods that a cycle looked at: bound (scheduled), left waiting (unschedulable), or not bound by the server (error)",
    "result",
)
PODS_BOUND = _ALL.counter("pods_bound_total", "Pods that the server has bound to the node that was chosen")

# Evictions

PREEMPTION_ATTEMPTS = _ALL.count(
    "total_preemption_attempts", "Jobs for which preempt or gangpreempt tried to make room"
)
RECLAIM_ATTEMPTS = _ALL.count("total_reclaim_attempts", "Jobs for which reclaim or gangreclaim tried to take room back")
PREEMPTION_VICTIMS = _ALL.gauge("pod_preemption_victims", "Pods that the last plan with any evicted by preemption")
RECLAIM_VICTIMS = _ALL.gauge("pod_reclaim_victims", "Pods that the last plan with any evicted by reclaim")
EVICTION_TRANSACTIONS = _ALL.counter(
    "eviction_transactions_total", "Jobs for which pods were evicted, each counted once in a cycle", "action"
)
EVICTIONS = _ALL.counter("evictions_total", "Pods that were asked to leave", "action")
USEFUL_EVICTIONS = _ALL.counter(
    "useful_evictions_total", "Evicted pods of which the job that they left for has since been bound", "action"
)
WASTED_EVICTIONS = _ALL.counter(
    "wasted_evictions_total",
    "Evicted pods of which the job that they left for has gone, or has not been bound within ten minutes",
    "action",
)

# Who waits

UNSCHEDULED_TASKS = _ALL.seen("unschedule_task_count", "Pods that the last cycle left waiting", "queue_name")
UNSCHEDULED_JOBS = _ALL.seen("unschedule_job_count", "Pod groups that the last cycle left waiting", "queue_name")
WAITING_JOBS = _ALL.seen(
    "waiting_job_count", "Pod groups that the last cycle left waiting, by the first gate they do not pass", "gate"
)
LONGEST_WAIT = _ALL.seen(
    "longest_waiting_job_seconds", "Time since the oldest of those pod groups was made, by that gate", "gate"
)
WAITED = _ALL.histogram(
    "job_waiting_seconds",
    "How long pod groups had waited when they had all that they need to start, by the gate that held them back last (or none)",
    _WAITS,
    "gate",
)

# Queues, each with those below it

_CPU = "cpu, in thousandths"
_AMOUNTS = {
    "allocated": "What the pods of a queue and of those below it hold",
    "request": "What the pods and jobs of a queue and of those below it hold or wait for",
    "deserved": "What a queue is due now, as the scheduler has worked it out",
    "guarantee": "What is kept for a queue and those below it, whether they use it or not",
    "borrowed": "What a queue holds above what it is due",
    "waiting": "What jobs of a queue and of those below it ask for and have not been given",
    "capacity": "The capability of a queue, where one is given",
    "real_capacity": "The most that a queue may hold now, where there is such a limit",
}
QUEUE_AMOUNTS = {
    kind: (
        _ALL.seen(f"queue_{kind}_milli_cpu", f"{meaning}: {_CPU}", "queue_name"),
        _ALL.seen(f"queue_{kind}_memory_bytes", f"{meaning}: memory", "queue_name"),
        _ALL.seen(f"queue_{kind}_scalar_resources", f"{meaning}: other resources, pods too", "queue_name", "resource"),
    )
    for kind, meaning in _AMOUNTS.items()
}
QUEUE_SHARE = _ALL.seen(
    "queue_share", "How much of what it is due a queue holds, of the resource where that is most", "queue_name"
)
QUEUE_WEIGHT = _ALL.seen("queue_weight", "The weight of a queue among its siblings", "queue_name")
QUEUE_OVERUSED = _ALL.seen("queue_overused", "Whether a queue holds more than it is due (1) or not (0)", "queue_name")
POD_GROUPS = {
    phase: _ALL.seen(
        f"queue_pod_group_{phase.lower()}_count",
        f"Pod groups of a queue and of those below it in the phase {phase}",
        "queue_name",
    )
    for phase in ("Pending", "Inqueue", "Running", "Unknown", "Completed")
}

# The API server

REQUESTS = _ALL.counter(
    "api_requests_total",
    "Requests to the API server, each attempt counted; code is the HTTP status, none where no answer came",
    "verb",
    "resource",
    "code",
)
REQUEST_SECONDS = _ALL.histogram(
    "api_request_duration_seconds", "From a request to the whole of its answer", _REQUESTS, "verb", "resource"
)
WATCH_EVENTS = _ALL.counter("watch_events_total", "Changes that watches and lists have told", "resource")
WATCH_ENDS = _ALL.counter(
    "watch_restarts_total",
    "Watches begun anew, by why the one before ended: ended (by the server, as a rule), stalled, stale, fault",
    "resource",
    "reason",
)
WATCH_LAG = _ALL.histogram(
    "watch_lag_seconds",
    "From the answer to a write of ours until the watch shows it as well; 0 where the watch was quicker",
    _PAUSES,
    "resource",
)
CACHE_SIZE = _ALL.seen("cache_objects", "Objects that are kept up to date by a watch", "resource")
EVENTS = _ALL.counter(
    "events_total",
    "Events for users: recorded, written, limited (too much about one object), overflowed (too much at once), failed",
    "outcome",
)
WRITES_WAITING = _ALL.seen("writes_waiting", "Statuses and explanations that wait for their time to be written")
LEADER = _ALL.gauge("leader", "Whether this process leads (1) or stands by (0)", "component")

# Controllers

RECONCILES = _ALL.counter(
    "controller_reconciles_total",
    "Looks at an object: done, outdated (looked at again at once), failed (again after a pause), error (a fault of ours)",
    "controller",
    "outcome",
)
RECONCILE_SECONDS = _ALL.histogram(
    "controller_reconcile_duration_seconds",
    "One look at an object with all that is done about it",
    _REQUESTS,
    "controller",
)
QUEUE_DEPTH = _ALL.seen("workqueue_depth", "Objects that want to be looked at, or are being", "controller")
QUEUE_SECONDS = _ALL.histogram(
    "workqueue_queue_duration_seconds", "How long an object has waited to be looked at", _PAUSES, "controller"
)
JOBS = _ALL.seen("job_phase_count", "BatchJobs by phase and queue, of that queue alone", "queue_name", "phase")
JOBS_COMPLETED = _ALL.count(
    "job_completed_phase_count", "BatchJobs that have come to the phase Completed", "queue_name"
)
JOBS_FAILED = _ALL.count("job_failed_phase_count", "BatchJobs that have come to the phase Failed", "queue_name")
FLOWS_SUCCEEDED = _ALL.count(
    "jobflow_succeed_phase_count", "JobFlows that have come to the phase Succeed", "jobflow_namespace"
)
FLOWS_FAILED = _ALL.count(
    "jobflow_failed_phase_count", "JobFlows that have come to the phase Failed", "jobflow_namespace"
)
POD_CREATION = _ALL.histogram(
    "controller_job_to_pod_creation_latency_milliseconds",
    "From the making of a BatchJob to that of each of its pods, later ones too",
    spread(50, 60000, 30),
)

# Admission

REVIEWS = _ALL.counter(
    "admission_reviews_total",
    "Reviews by the webhook (mutate, validate), the operation, the resource and the verdict: allowed, warned, denied, error",
    "webhook",
    "operation",
    "resource",
    "verdict",
)
REVIEW_SECONDS = _ALL.histogram(
    "admission_review_duration_seconds", "From a review to the answer", _REQUESTS, "webhook", "operation"
)
