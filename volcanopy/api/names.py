"""API groups and versions, and the keys of labels, annotations and resources."""

from collections.abc import Mapping

BATCH = "batch.volcanopy.io"
SCHEDULING = "scheduling.volcanopy.io"
BUS = "bus.volcanopy.io"
FLOW = "flow.volcanopy.io"
TOPOLOGY = "topology.volcanopy.io"

API = "volcanopy"
"""The name of volcanopy's API, as in ``--api``."""
BATCH_V1ALPHA1 = f"{BATCH}/v1alpha1"
SCHEDULING_V1BETA1 = f"{SCHEDULING}/v1beta1"
FLOW_V1ALPHA1 = f"{FLOW}/v1alpha1"
BUS_V1ALPHA1 = f"{BUS}/v1alpha1"
TOPOLOGY_V1ALPHA1 = f"{TOPOLOGY}/v1alpha1"
NODEINFO = "nodeinfo.volcanopy.io"
NODEINFO_V1ALPHA1 = f"{NODEINFO}/v1alpha1"

JOB_KIND = "BatchJob"

SCHEDULER = "volcanopy"
"""``spec.schedulerName`` of pods that volcanopy schedules."""

DEFAULT_QUEUE = "default"
ROOT_QUEUE = "root"
SHARED_QUEUES = frozenset({ROOT_QUEUE, DEFAULT_QUEUE})
"""Queues that exist in every served API, as one object in each."""

RUNTIME_LABEL = "volcanopy.io/runtime"
"""Label of nodes whose pods are processes of a machine: its value is the name of the runtime. Simulated nodes have none."""

# On pods of a job: labels and annotations.
TASK_SPEC = "volcanopy.io/task-spec"
TASK_INDEX = "volcanopy.io/task-index"
JOB_NAME = "volcanopy.io/job-name"
QUEUE_NAME = "volcanopy.io/queue-name"

# On pods of a job: labels only.
JOB_NAMESPACE = "volcanopy.io/job-namespace"
PARTITION_ID = "volcanopy.io/partition-id"
EXECUTOR = "volcanopy.io/executor"
"""Label of jobs that call functions, and of their pods: the executor that submitted them."""
SLURM_ID = "volcanopy.io/slurm-id"
"""Label of jobs of Slurm's batch scripts, and of their pods: the number by which Slurm's programs name the job."""

DRY_RUN = "volcanopy.io/dry-run"
"""Label of pods that admission creates in dry-run mode."""

# On pods of a job: annotations only.
JOB_VERSION = "volcanopy.io/job-version"
JOB_RETRY_COUNT = "volcanopy.io/job-retry-count"
TEMPLATE_UID = "volcanopy.io/template-uid"
NUMA_TOPOLOGY_POLICY = "volcanopy.io/numa-topology-policy"
GROUP_NAME = "scheduling.k8s.io/group-name"
TASK_PRIORITY = "volcanopy.io/task-priority"
"""Priority of a pod within its job."""
MAX_RUNTIME = "volcanopy.io/max-runtime"
"""The longest that a pod runs."""
SCORING_TYPE = "volcanopy.io/resource-strategy-scoring-type"
SCORING_WEIGHT = "volcanopy.io/resource-strategy-weight"

# On bound pods: the CPUs allocated to them.
TOPOLOGY_DECISION = "volcanopy.io/topology-decision"

# On evicted pods: annotation.
PREEMPTOR = "volcanopy.io/preemptor"
"""``namespace/name`` of the job for which the scheduler evicts the pod, set with its condition ``DisruptionTarget``."""

# Names that Volcano's and NVIDIA's device plugins read and write, the defaults of `deviceshare.names`.
# On bound pods: annotations with the devices allocated to them.
GPU_INDEX = "volcano.sh/gpu-index"
PREDICATE_TIME = "volcano.sh/predicate-time"
VGPU_NODE = "volcano.sh/vgpu-node"
VGPU_TIME = "volcano.sh/vgpu-time"
VGPU_IDS = "volcano.sh/vgpu-ids-new"
VGPU_TO_ALLOCATE = "volcano.sh/devices-to-allocate"
BIND_PHASE = "volcano.sh/bind-phase"
BIND_TIME = "volcano.sh/bind-time"

# On nodes, while a pod gets its GPUs: annotations that Volcano's device plugins remove when they have given them to it.
VGPU_LOCK = "hamivgpu"
GPU_LOCK = "gpu"
NPU_LOCK = "hami.io/mutex.lock"

# Device requests of pods: resources and annotations.
GPU_MEMORY = "volcano.sh/gpu-memory"
GPU_NUMBER = "volcano.sh/gpu-number"
VGPU_NUMBER = "volcano.sh/vgpu-number"
VGPU_MEMORY = "volcano.sh/vgpu-memory"
VGPU_PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
VGPU_CORES = "volcano.sh/vgpu-cores"
VGPU_MODE = "volcano.sh/vgpu-mode"
VGPU_USE = "volcano.sh/vgpu-use-gpuuuid"
VGPU_AVOID = "volcano.sh/vgpu-nouse-gpuuuid"
VGPU_GROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"
GPU_TYPE_USE = "nvidia.com/use-gputype"
GPU_TYPE_AVOID = "nvidia.com/nouse-gputype"

# On nodes: annotations that describe their devices.
VGPU_REGISTER = "volcano.sh/node-vgpu-register"
VGPU_HANDSHAKE = "volcano.sh/node-vgpu-handshake"
GPU_UNHEALTHY = "volcano.sh/gpu-unhealthy-ids"

GPU_NAMES = frozenset({
    GPU_INDEX, PREDICATE_TIME, VGPU_NODE, VGPU_TIME, VGPU_IDS, VGPU_TO_ALLOCATE, BIND_PHASE, BIND_TIME,
    GPU_MEMORY, GPU_NUMBER, VGPU_NUMBER, VGPU_MEMORY, VGPU_PERCENTAGE, VGPU_CORES,
    VGPU_MODE, VGPU_USE, VGPU_AVOID, VGPU_GROUP_POLICY, GPU_TYPE_USE, GPU_TYPE_AVOID,
    VGPU_REGISTER, VGPU_HANDSHAKE, GPU_UNHEALTHY,
})  # fmt: skip
"""The resources and annotations of GPUs: what `deviceshare.names` can rename."""

PERCENTAGE_SUFFIX = "-percentage"
"""The end of names of resources that are a part of a device: nodes have no amount of them."""
NPU_PREFIX = "huawei.com/Ascend"
"""The beginning of names of NPUs that HAMi shares."""
NPU_MEMORY_SUFFIX = "-memory"
NPU_CORES_SUFFIX = "-core"
NPU_CORES = "huawei.com/npu-core"
"""AI cores of a node whose NPUs MindCluster divides; on bound pods: annotation with the chips and the template."""

# On bound pods: annotations that HAMi's device plugins read, besides those with the name of the kind of NPU.
HAMI_PREFIX = "hami.io/"
HAMI_NODE = "hami.io/vgpu-node"
HAMI_TIME = "hami.io/vgpu-time"
HAMI_BIND_PHASE = "hami.io/bind-phase"
HAMI_BIND_TIME = "hami.io/bind-time"
NPU_PREDICATE_TIME = "predicate-time"
ASSIGNMENT_KEYS = frozenset({GPU_INDEX, VGPU_IDS, TOPOLOGY_DECISION, HAMI_NODE, NPU_CORES})
"""On bound pods: annotations with the devices and CPUs assigned to them. Those of NPUs shared by HAMi come with HAMI_NODE."""
NPU_ALLOCATED_SUFFIX = "-devices-allocated"
"""The end of the annotation of bound pods with NPUs shared by HAMi; the name of their kind stands before it."""
NPU_MODE = "huawei.com/vnpu-mode"
"""On pods that wait: annotation; ``hami-core`` divides cards by software, without templates."""
NPU_CORE_MODE = "hami-vnpu-core"
"""On nodes: annotation; whether the cards can be divided by software."""

# On NumaTopologies: the load of the node.
NODE_LOAD = "volcanopy.io/node-load"
"""``{"cpu": percent, "memory": percent, "measured": time, "deviation": {...}, "peak": {...}}``, over ten minutes; written by the
agent of the node."""

# On pods: the data sets that they read.
DATASETS = "volcanopy.io/datasets"
"""Names and sizes: ``imagenet=150Gi,labels=1Gi``."""

# On nodes: measures.
MEASURE_PREFIX = "measure.volcanopy.io/"
"""``measure.volcanopy.io/NAME``: a number, or ``{"mean": number, "deviation": number, "peak": number, "prediction": number,
"measured": time}``, of which only the mean is required. The program that measures writes it."""

# On nodes and queues: labels and annotations of groups of nodes.
NODE_GROUP = "volcanopy.io/nodegroup-name"
NODE_GROUP_LIMITS = "volcanopy.io/nodegroup-resource-limits"

# On jobs, copied to their pods.
PREEMPTABLE = "volcanopy.io/preemptable"
COOLDOWN_TIME = "volcanopy.io/cooldown-time"
REVOCABLE_ZONE = "volcanopy.io/revocable-zone"
JDB_MIN_AVAILABLE = "volcanopy.io/jdb-min-available"
JDB_MAX_UNAVAILABLE = "volcanopy.io/jdb-max-unavailable"

# On jobs created by flows and cron jobs.
CREATED_BY_FLOW = "volcanopy.io/createdByJobFlow"
CREATED_BY_TEMPLATE = "volcanopy.io/createdByJobTemplate"
FLOW_ATTEMPT = "volcanopy.io/jobflow-attempt"
SCHEDULED_TIME = "volcanopy.io/cronjob-scheduled-timestamp"

# On pods that are not part of a job, and on namespaces.
POD_QUEUE_NAME = "scheduling.volcanopy.io/queue-name"
POD_GROUP_NAME = "scheduling.volcanopy.io/group-name"
QUEUE_ALLOCATION_GATE = "scheduling.volcanopy.io/queue-allocation-gate"
"""Annotation of pods, "true" for the scheduling gate of the same name (:mod:`volcanopy.api.queue_gate`)."""
GROUP_MIN_MEMBER = "scheduling.volcanopy.io/group-min-member"

# On pods that are not part of a job, for the PodGroup that is created for them.
NETWORK_TOPOLOGY_MODE = "volcanopy.io/network-topology-mode"
NETWORK_TOPOLOGY_HIGHEST_TIER = "volcanopy.io/network-topology-highest-tier"
NETWORK_TOPOLOGY_SOURCE = "volcanopy.io/network-topology-source"
"""Label of HyperNodes that are discovered: from what."""
SLA_WAITING_TIME = "volcanopy.io/sla-waiting-time"
OWN_PREFIX = "volcanopy.io/"
"""Prefix of the keys of volcanopy's annotations."""

# On PodGroups: affinity between the tasks of a job, and permission to move its pods.
TASK_AFFINITY = "volcanopy.io/task-topology-affinity"
TASK_ANTI_AFFINITY = "volcanopy.io/task-topology-anti-affinity"
TASK_ORDER = "volcanopy.io/task-topology-task-order"
MOVABLE = "volcanopy.io/movable"

# On PodGroups: expected run times of their jobs, as durations; the job controller sets them for jobs.
WALLTIME = "volcanopy.io/walltime"
"""The longest that the job runs."""
RUNNING_ESTIMATE = "volcanopy.io/running-estimate"
"""How long the user expects the job to run."""
LEARNT_ESTIMATE = "volcanopy.io/learnt-estimate"
"""How long earlier jobs of the same name ran."""
PODS_REJECTED = "volcanopy.io/pods-rejected"
"""``true`` on a PodGroup while the API server rejects the pods of its job; the job controller sets it."""
PODS_CREATED = "volcanopy.io/pods-created"
"""``true`` on a PodGroup whose pods were created before it: no controller waits for its admission. The job controller sets it."""

# On queues.
HIERARCHY = "volcanopy.io/hierarchy"
"""Path of the queue in the hierarchy of hierarchical fairness, such as root/a/b."""
HIERARCHY_WEIGHTS = "volcanopy.io/hierarchy-weights"
"""Weight of each element of the path."""
CLOSED_BY_PARENT = "volcanopy.io/closed-by-parent"
"""``true`` on a queue that was closed with its parent queue and opens with it again."""
SYNCHRONIZED_CONTENT = "volcanopy.io/synchronized-content"
"""Content of the root or default queue and of its object in Volcano's API when they were last synchronized, as JSON."""

# On jobs, job templates, flows, cron jobs, PodGroups and pods: set by admission only.
SUBMITTED_BY = "volcanopy.io/submitted-by"
"""Name of the user who submitted the object."""
SUBMITTER_GROUPS = "volcanopy.io/submitter-groups"
"""Groups of that user, as a JSON list."""

# On jobs of flows: the submitter of the JobTemplate.
TEMPLATE_SUBMITTED_BY = "volcanopy.io/template-submitted-by"
TEMPLATE_SUBMITTER_GROUPS = "volcanopy.io/template-submitter-groups"


def with_submitter_of(annotations: Mapping[str, str], owner: Mapping[str, str] | None) -> dict[str, str]:
    """Return the annotations of an object with the submitter of its owner in place of its own."""
    keys = (SUBMITTED_BY, SUBMITTER_GROUPS)
    annotations_of_object = {key: value for key, value in annotations.items() if key not in keys}
    return annotations_of_object | {key: owner[key] for key in keys if key in owner} if owner else annotations_of_object


def workload_group(uid: str) -> str:
    """Return the name of the PodGroup of a workload, by the uid of the workload."""
    return f"podgroup-{uid}"


def is_job(api_version: str, kind: str) -> bool:
    """Whether this is the kind of jobs."""
    return kind == JOB_KIND and api_version.startswith(f"{BATCH}/")


def part_of_device(resource: str) -> bool:
    """Return whether a resource is requested of a single device, so that it is not compared with an amount of the node."""
    return resource.endswith(PERCENTAGE_SUFFIX) or (
        resource.startswith(NPU_PREFIX) and resource.endswith((NPU_MEMORY_SUFFIX, NPU_CORES_SUFFIX))
    )
