"""Every name that volcanopy shares with the outside: API groups, and the keys of labels and annotations.

A key is written once, here. ``TASK_SPEC`` and its kin are both labels and annotations of pods, as said beside them.
"""

from collections.abc import Mapping

BATCH = "batch.volcanopy.io"
SCHEDULING = "scheduling.volcanopy.io"
BUS = "bus.volcanopy.io"
FLOW = "flow.volcanopy.io"
TOPOLOGY = "topology.volcanopy.io"

BATCH_V1ALPHA1 = f"{BATCH}/v1alpha1"
SCHEDULING_V1BETA1 = f"{SCHEDULING}/v1beta1"
BUS_V1ALPHA1 = f"{BUS}/v1alpha1"
TOPOLOGY_V1ALPHA1 = f"{TOPOLOGY}/v1alpha1"
NODEINFO_V1ALPHA1 = "nodeinfo.volcanopy.io/v1alpha1"

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

TRIAL = "volcanopy.io/trial"
"""A label of pods that admission has the API server look at without keeping them."""

# On pods of a job: annotations only.
JOB_VERSION = "volcanopy.io/job-version"
JOB_RETRY_COUNT = "volcanopy.io/job-retry-count"
TEMPLATE_UID = "volcanopy.io/template-uid"
NUMA_TOPOLOGY_POLICY = "volcanopy.io/numa-topology-policy"
GROUP_NAME = "scheduling.k8s.io/group-name"

# On pods that were bound: annotations that say what they hold of their node.
GPU_INDEX = "volcanopy.io/gpu-index"
PREDICATE_TIME = "volcanopy.io/predicate-time"
VGPU_NODE = "volcanopy.io/vgpu-node"
VGPU_TIME = "volcanopy.io/vgpu-time"
VGPU_IDS = "volcanopy.io/vgpu-ids-new"
VGPU_TO_ALLOCATE = "volcanopy.io/devices-to-allocate"
BIND_PHASE = "volcanopy.io/bind-phase"
BIND_TIME = "volcanopy.io/bind-time"
TOPOLOGY_DECISION = "volcanopy.io/topology-decision"

# What pods say about the devices that they want: resources, and annotations.
GPU_MEMORY = "volcanopy.io/gpu-memory"
GPU_NUMBER = "volcanopy.io/gpu-number"
VGPU_NUMBER = "volcanopy.io/vgpu-number"
VGPU_MEMORY = "volcanopy.io/vgpu-memory"
VGPU_PERCENTAGE = "volcanopy.io/vgpu-memory-percentage"
VGPU_CORES = "volcanopy.io/vgpu-cores"
VGPU_MODE = "volcanopy.io/vgpu-mode"
VGPU_USE = "volcanopy.io/vgpu-use-gpuuuid"
VGPU_AVOID = "volcanopy.io/vgpu-nouse-gpuuuid"
VGPU_GROUP_POLICY = "volcanopy.io/vgpu-podgroup-policy"
GPU_TYPE_USE = "nvidia.com/use-gputype"
GPU_TYPE_AVOID = "nvidia.com/nouse-gputype"

# On nodes: annotations that tell of their devices.
VGPU_REGISTER = "volcanopy.io/node-vgpu-register"
GPU_UNHEALTHY = "volcanopy.io/gpu-unhealthy-ids"

# On jobs, handed down to their pods.
PREEMPTABLE = "volcanopy.io/preemptable"
COOLDOWN_TIME = "volcanopy.io/cooldown-time"
REVOCABLE_ZONE = "volcanopy.io/revocable-zone"
JDB_MIN_AVAILABLE = "volcanopy.io/jdb-min-available"
JDB_MAX_UNAVAILABLE = "volcanopy.io/jdb-max-unavailable"

# On jobs that something else has made.
CREATED_BY_FLOW = "volcanopy.io/createdByJobFlow"
CREATED_BY_TEMPLATE = "volcanopy.io/createdByJobTemplate"
FLOW_ATTEMPT = "volcanopy.io/jobflow-attempt"
SCHEDULED_TIME = "volcanopy.io/cronjob-scheduled-timestamp"

# On pods and namespaces that are no part of a job.
POD_QUEUE_NAME = "scheduling.volcanopy.io/queue-name"
POD_GROUP_NAME = "scheduling.volcanopy.io/group-name"
GROUP_MIN_MEMBER = "scheduling.volcanopy.io/group-min-member"

# On pods that are no part of a job, for the PodGroup that is made for them.
NETWORK_TOPOLOGY_MODE = "volcanopy.io/network-topology-mode"
NETWORK_TOPOLOGY_HIGHEST_TIER = "volcanopy.io/network-topology-highest-tier"
SLA_WAITING_TIME = "volcanopy.io/sla-waiting-time"
OWN_PREFIX = "volcanopy.io/"
"""What the keys of our own annotations begin with."""

# On queues.
HIERARCHY = "volcanopy.io/hierarchy"
"""Where the queue stands for hierarchical fairness, as root/a/b."""
HIERARCHY_WEIGHTS = "volcanopy.io/hierarchy-weights"
"""A weight for each step of that path."""
CLOSED_BY_PARENT = "volcanopy.io/closed-by-parent"
"""``true`` on a queue that was closed because the queue above it was, and opens with it again."""

# On jobs, what makes them, pod groups and pods: written by admission alone.
SUBMITTED_BY = "volcanopy.io/submitted-by"
"""The name of the user who asked for it."""
SUBMITTER_GROUPS = "volcanopy.io/submitter-groups"
"""The groups of that user, as a JSON list."""


def handed_on(annotations: Mapping[str, str], owner: Mapping[str, str] | None) -> dict[str, str]:
    """The annotations of an object that is made for its owner: whoever asked for the owner asked for it."""
    keys = (SUBMITTED_BY, SUBMITTER_GROUPS)
    own = {key: value for key, value in annotations.items() if key not in keys}
    return own | {key: owner[key] for key in keys if key in owner} if owner else own
