"""Every name that volcanopy shares with the outside: API groups, and the keys of labels and annotations.

A key is written once, here. ``TASK_SPEC`` and its kin are both labels and annotations of pods, as said beside them.
"""

BATCH = "batch.volcanopy.io"
SCHEDULING = "scheduling.volcanopy.io"
BUS = "bus.volcanopy.io"

BATCH_V1ALPHA1 = f"{BATCH}/v1alpha1"
SCHEDULING_V1BETA1 = f"{SCHEDULING}/v1beta1"
BUS_V1ALPHA1 = f"{BUS}/v1alpha1"

SCHEDULER = "volcanopy"
"""The name that a pod gives in ``spec.schedulerName`` to be scheduled by us."""

DEFAULT_QUEUE = "default"
ROOT_QUEUE = "root"

# On pods of a job: labels and annotations.
TASK_SPEC = "volcanopy.io/task-spec"
TASK_INDEX = "volcanopy.io/task-index"
JOB_NAME = "volcanopy.io/job-name"
QUEUE_NAME = "volcanopy.io/queue-name"

# On pods of a job: labels only.
JOB_NAMESPACE = "volcanopy.io/job-namespace"
PARTITION_ID = "volcanopy.io/partition-id"

# On pods of a job: annotations only.
JOB_VERSION = "volcanopy.io/job-version"
JOB_RETRY_COUNT = "volcanopy.io/job-retry-count"
TEMPLATE_UID = "volcanopy.io/template-uid"
NUMA_TOPOLOGY_POLICY = "volcanopy.io/numa-topology-policy"
GROUP_NAME = "scheduling.k8s.io/group-name"

# On jobs, handed down to their pods.
PREEMPTABLE = "volcanopy.io/preemptable"
COOLDOWN_TIME = "volcanopy.io/cooldown-time"
REVOCABLE_ZONE = "volcanopy.io/revocable-zone"
JDB_MIN_AVAILABLE = "volcanopy.io/jdb-min-available"
JDB_MAX_UNAVAILABLE = "volcanopy.io/jdb-max-unavailable"

# On pods and namespaces that are no part of a job.
POD_QUEUE_NAME = "scheduling.volcanopy.io/queue-name"
POD_GROUP_NAME = "scheduling.volcanopy.io/group-name"
GROUP_MIN_MEMBER = "scheduling.volcanopy.io/group-min-member"
