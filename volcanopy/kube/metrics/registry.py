"""The metrics of all processes, declared in the one registry that ``/metrics`` serves.

Names and units follow Prometheus' conventions: seconds, bytes and cores, and ``_total`` for counters. Where Volcano has the
metric, the name is Volcano's but for unit and suffix; :data:`FORMER_NAMES` are Volcano's own. No label takes its values from
pods or jobs, so the number of series does not grow with them.
"""

from prometheus_client import ProcessCollector

from volcanopy.kube.metrics.metric_types import MetricRegistry, exponential_buckets
from volcanopy.version import VERSION

_ALL = MetricRegistry()
REGISTRY = _ALL.registry
"""The registry of this process."""
ProcessCollector(registry=REGISTRY)
INSTRUMENTS = _ALL.instruments
"""All declared metrics, for the reference page."""

_REQUESTS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600, 7 * 24 * 3600)
_PAUSES = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 5, 20, 60, 300)

# The scheduler's cycles

E2E_LATENCY = _ALL.histogram(
    "e2e_scheduling_latency_seconds",
    "Latency from the start of a cycle to the last response to its binds and evictions; cycles without any are not counted",
    exponential_buckets(0.001, 5, 20),
)
CYCLE_LATENCY = _ALL.histogram(
    "cycle_latency_seconds",
    "Latency of a cycle by stage: snapshot, decide (includes close), judge (validation), recheck (on changed state), whole",
    exponential_buckets(0.001, 5, 20),
    "stage",
)
OPEN_SESSION = _ALL.histogram(
    "open_session_duration_seconds",
    "Latency of opening a session, including all plugins",
    exponential_buckets(0.001, 5, 20),
)
ACTION_LATENCY = _ALL.histogram(
    "action_scheduling_latency_seconds",
    "Latency of an action in a scheduling cycle",
    exponential_buckets(0.001, 2, 20),
    "action",
)
PLUGIN_LATENCY = _ALL.histogram(
    "plugin_scheduling_latency_seconds",
    "Latency of a plugin when a session is opened (OnSessionOpen)",
    exponential_buckets(0.0001, 0.1, 15),
    "plugin",
    "OnSession",
)
CYCLE_FAULTS = _ALL.counter(
    "cycle_faults_total",
    "Number of failed scheduling cycles: error in an action or plugin (error), or plan that violates an invariant (broken)",
    "kind",
)
EXTENDER_REQUESTS = _ALL.counter(
    "extender_requests_total",
    "Number of requests to the HTTP extender, by verb and result: ok, error (an answer that is none), down (no answer)",
    "verb",
    "result",
)
EXTENDER_LATENCY = _ALL.histogram(
    "extender_request_duration_seconds", "Latency of requests to the HTTP extender, by verb", _REQUESTS, "verb"
)
QUARANTINED = _ALL.callback_gauge(
    "quarantined_objects", "Number of objects that the scheduler excludes because it cannot read or count them", "kind"
)
TASK_LATENCY = _ALL.histogram(
    "task_scheduling_latency_seconds",
    "Latency from the creation of a pod to its placement (Assumed) and to its bind (Bound)",
    exponential_buckets(0.05, 60, 30),
    "stage",
)
JOB_LATENCY = _ALL.histogram(
    "e2e_job_scheduling_latency_seconds",
    "Latency from the creation of a pod group until its minimum number of pods is placed",
    exponential_buckets(0.1, 120, 30),
)
ATTEMPTS = _ALL.counter(
    "schedule_attempts_total",
    "Number of attempts to schedule pods by result: scheduled, unschedulable, error (bind failed)",
    "result",
)
PODS_BOUND = _ALL.counter("pods_bound_total", "Number of pods bound")

# Evictions

PREEMPTION_ATTEMPTS = _ALL.counter(
    "preemption_attempts_total", "Number of preemption attempts: jobs for which preempt or gangpreempt searched victims"
)
RECLAIM_ATTEMPTS = _ALL.counter(
    "reclaim_attempts_total", "Number of reclaim attempts: jobs for which reclaim or gangreclaim searched victims"
)
PREEMPTION_VICTIMS = _ALL.gauge(
    "pod_preemption_victims", "Number of preemption victims in the last plan with evictions"
)
RECLAIM_VICTIMS = _ALL.gauge("pod_reclaim_victims", "Number of reclaim victims in the last plan with evictions")
EVICTION_TRANSACTIONS = _ALL.counter(
    "eviction_transactions_total", "Number of jobs for which pods were evicted, once per job and cycle", "action"
)
EVICTIONS = _ALL.counter("evictions_total", "Number of evicted pods", "action")
EVICTED_SECONDS = _ALL.counter("evicted_pod_seconds_total", "Run time of evicted pods, which is lost", "action")
EVICTED_CPU_SECONDS = _ALL.counter(
    "evicted_cpu_seconds_total", "Run time of evicted pods times the cpus that they requested, which is lost", "action"
)
USEFUL_EVICTIONS = _ALL.counter(
    "useful_evictions_total", "Number of evicted pods whose preemptor or reclaimer has been bound", "action"
)
WASTED_EVICTIONS = _ALL.counter(
    "wasted_evictions_total",
    "Number of evicted pods whose preemptor or reclaimer was deleted or not bound within ten minutes",
    "action",
)

# Waiting jobs

UNSCHEDULED_TASKS = _ALL.callback_gauge(
    "unschedule_task_count", "Number of unschedulable pods in the last cycle", "queue_name"
)
UNSCHEDULED_JOBS = _ALL.callback_gauge(
    "unschedule_job_count", "Number of unschedulable pod groups in the last cycle", "queue_name"
)
WAITING_JOBS = _ALL.callback_gauge(
    "waiting_job_count", "Number of waiting pod groups in the last cycle by the first gate that rejects them", "gate"
)
LONGEST_WAIT = _ALL.callback_gauge("longest_waiting_job_seconds", "Age of the oldest waiting pod group by gate", "gate")
WAITED = _ALL.histogram(
    "job_waiting_seconds",
    "Waiting time of started pod groups by the last gate that rejected them (or none)",
    _WAITS,
    "gate",
)

# Queues, including their descendants

_AMOUNTS = {
    "allocated": "Allocated resources of a queue and its descendants",
    "request": "Allocated and pending resources of a queue and its descendants",
    "fair_share": "Fair share of a queue as computed by the scheduler",
    "guarantee": "Guaranteed resources of a queue and its descendants",
    "borrowed": "Allocated resources of a queue above its fair share",
    "waiting": "Pending resources of a queue and its descendants",
    "capacity": "Capability of a queue, if set",
    "real_capacity": "Effective limit of a queue (real capability), if there is one",
}
QUEUE_AMOUNTS = {
    kind: (
        _ALL.callback_gauge(f"queue_{kind}_cpu_cores", f"{description}: cpu", "queue_name"),
        _ALL.callback_gauge(f"queue_{kind}_memory_bytes", f"{description}: memory", "queue_name"),
        _ALL.callback_gauge(
            f"queue_{kind}_scalar_resources",
            f"{description}: other resources, including pods",
            "queue_name",
            "resource",
        ),
    )
    for kind, description in _AMOUNTS.items()
}
QUEUE_SHARE = _ALL.callback_gauge(
    "queue_share", "Highest ratio of allocated to fair share over all resources of a queue", "queue_name"
)
QUEUE_WEIGHT = _ALL.callback_gauge("queue_weight", "Weight of a queue among its siblings", "queue_name")
QUEUE_OVERUSED = _ALL.callback_gauge(
    "queue_overused", "Whether a queue is over its fair share (1) or not (0)", "queue_name"
)
POD_GROUPS = {
    phase: _ALL.callback_gauge(
        f"queue_pod_group_{phase.lower()}_count",
        f"Number of {phase} pod groups of a queue and its descendants",
        "queue_name",
    )
    for phase in ("Pending", "Inqueue", "Running", "Unknown", "Completed")
}

# The API server

REQUESTS = _ALL.counter(
    "api_requests_total",
    "Number of requests to the API server, retries included; code is the HTTP status, or none without a response",
    "verb",
    "resource",
    "code",
)
REQUEST_SECONDS = _ALL.histogram(
    "api_request_duration_seconds", "Latency of requests to the API server", _REQUESTS, "verb", "resource"
)
WATCH_EVENTS = _ALL.counter("watch_events_total", "Number of changes received from watches and lists", "resource")
WATCH_ENDS = _ALL.counter(
    "watch_restarts_total",
    "Number of watch restarts by reason: ended (usually by the server), stalled, stale, fault",
    "resource",
    "reason",
)
SKIPPED_CHANGES = _ALL.counter(
    "watch_skipped_changes_total", "Number of changes that a controller could not take, by kind", "kind"
)
PART_RESTARTS = _ALL.counter(
    "part_restarts_total", "Number of restarts of parts of the process (watches, writers) that had ended", "part"
)
WATCH_LAG = _ALL.histogram(
    "watch_lag_seconds",
    "Delay from the response to a write until the watch shows it; 0 if the watch was first",
    _PAUSES,
    "resource",
)
CACHE_SIZE = _ALL.callback_gauge("cache_objects", "Number of objects in watch caches", "resource")
UNREADABLE_OBJECTS = _ALL.callback_gauge(
    "cache_unreadable_objects",
    "Number of objects of the API server with fields that watch caches cannot read",
    "resource",
)
EVENTS = _ALL.counter(
    "events_total",
    "Number of Kubernetes Events by outcome: recorded, written, limited (per object), overflowed (queue full), failed",
    "outcome",
)
WRITES_WAITING = _ALL.callback_gauge("writes_waiting", "Number of delayed status and explanation writes")
BUILD_INFO = _ALL.gauge("build_info", "Version of the program; always 1", "version")
BUILD_INFO.labels(VERSION).set(1)
INVALID_CONFIGURATION = _ALL.gauge(
    "configuration_invalid",
    "Whether the configuration was changed to an invalid one (1), so that the last valid one applies until the process ends",
    "configuration",
)
LEADER = _ALL.gauge("leader", "Whether this process is the leader (1) or a standby (0)", "component")

# Controllers

RECONCILES = _ALL.counter(
    "controller_reconciles_total",
    "Number of reconciles by outcome: done, outdated (repeated at once), failed (retried with back-off), error (internal)",
    "controller",
    "outcome",
)
RECONCILE_SECONDS = _ALL.histogram(
    "controller_reconcile_duration_seconds", "Latency of a reconcile, including its writes", _REQUESTS, "controller"
)
QUEUE_DEPTH = _ALL.callback_gauge(
    "workqueue_depth", "Number of objects in the work queue, including those in progress", "controller"
)
QUEUE_SECONDS = _ALL.histogram(
    "workqueue_queue_duration_seconds", "Time that an object waits in the work queue", _PAUSES, "controller"
)
JOBS = _ALL.callback_gauge(
    "job_phase_count", "Number of BatchJobs by queue (without descendants) and phase", "queue_name", "phase"
)
JOBS_COMPLETED = _ALL.counter(
    "jobs_completed_total", "Number of BatchJobs that reached the phase Completed", "queue_name"
)
JOBS_FAILED = _ALL.counter("jobs_failed_total", "Number of BatchJobs that reached the phase Failed", "queue_name")
ESTIMATE_ERROR = _ALL.histogram(
    "run_time_estimate_error_ratio",
    "Difference between the estimated and the actual run time of a finished job, relative to the actual one, by basis: "
    "estimate (runningEstimate) or learnt",
    exponential_buckets(0.01, 200, 14),
    "basis",
)
START_ESTIMATE_SECONDS = _ALL.counter(
    "start_estimate_cpu_seconds_total", "Processor time of the estimation of the starts of waiting jobs"
)
HISTORY_FAILURES = _ALL.counter("job_history_failures_total", "Number of writes of the job history that failed")
FLOWS_SUCCEEDED = _ALL.counter(
    "jobflows_succeeded_total", "Number of JobFlows that reached the phase Succeed", "jobflow_namespace"
)
FLOWS_FAILED = _ALL.counter(
    "jobflows_failed_total", "Number of JobFlows that reached the phase Failed", "jobflow_namespace"
)
POD_CREATION = _ALL.histogram(
    "controller_job_to_pod_creation_latency_seconds",
    "Latency from the creation of a BatchJob to the creation of each of its pods, including recreated ones",
    exponential_buckets(0.05, 60, 30),
)

# Admission

REVIEWS = _ALL.counter(
    "admission_reviews_total",
    "Number of reviews by webhook (review: mutates and validates), operation, resource, verdict: allowed, warned, denied, error",
    "webhook",
    "operation",
    "resource",
    "verdict",
)
REVIEW_SECONDS = _ALL.histogram(
    "admission_review_duration_seconds", "Latency of admission reviews", _REQUESTS, "webhook", "operation"
)
