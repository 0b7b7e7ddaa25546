"""Specs of Volcano's suites that do not pass, examples that are refused, and why. A key is a part of the name."""

from collections.abc import Mapping

RACE = "a race of the spec: "
"""What the reason begins with where a spec may pass at another time."""
EXCEPTIONS: Mapping[str, Mapping[str, str]] = {
    "admission": {
        "Should allow jobflow update with valid DAG structure": f"{RACE}it updates the object of its creation, "
        "while the controller has written its status",
        "Should allow PodGroup creation with valid open queue": f"{RACE}it writes the status of a queue 100 ms after "
        "its creation, while the controller writes it",
        "Should allow queue creation with valid state (Open)": "the queue that the spec of PodGroups in an open queue has left "
        "behind",
    },
    "schedulingaction": {
        "no reclaim when job not satisfied with predicates": "rejected: the template of the job sets nodeName, which bypasses "
        "the scheduler and the limits of the queue",
        "Reclaim Case 10": "nothing is evicted, as no queue is above its fair share: the idle control-plane node counts. Volcano's "
        "configuration asks no plugin for shares in its first tier",
    },
    "jobp": {
        "Scale down": f"{RACE}it reads the ConfigMap of the hosts once, 100 ms after it has changed the job",
    },
    "jobseq": {
        "job level LifecyclePolicy, Event: TaskFailed; Action: TerminateJob": "the spec writes the restart count of a container "
        "into the status of a pod, which the simulated kubelet writes again; it passes if the controller sees it before",
        "Transform from running to unknown": "the PodGroup becomes Unknown; at its end the spec deletes a queue in which a pod runs, "
        "which is rejected (in Volcano with --enable-queue-allocated-pods-check)",
    },
    "schedulingbase": {
        "should provision storage using kind cluster's standard storage class": "the provisioner of kind's storage class "
        "(rancher.io/local-path) is not installed on the nodes",
        "sla adjusts job order": "an admitted job that is larger than the cluster keeps no other job from being admitted, so the "
        "first of the two others is admitted and runs; it passes if both exist in the first cycle that sees one of them",
    },
    "stress": {
        "should create multiple pod groups successfully": "the spec waits for the phase Running of a PodGroup that has no pods; "
        "by Volcano's own rule such a group is Completed",
    },
}
_OTHER = "an object of another program, whose definitions are not installed"
_OUTPUT = "the guide shows an object as the server returns it, which cannot be created"
_LIMITS = "the limit of an extended resource is missing, which Kubernetes requires"
_STRICT = "a mistake in the example: such a field does not exist; Volcano's definition of Jobs does not have it either"
_VOLUMES = "Volcano rejects the volumes as well"
REFUSED_EXAMPLES: Mapping[str, str] = {
    "-webhook-deny.yaml": "Volcano's example of a job that is rejected",
    "example/integrations/argo/": _OTHER,
    "spark-sample/spark-pi.yaml": _OTHER,
    "how_to_use_numa_aware.md block 2": _OTHER,
    "task-priority/high-priority.yaml": "a version of PriorityClass that Kubernetes has not served since 1.22",
    "task-priority/normal-priority.yaml": "a version of PriorityClass that Kubernetes has not served since 1.22",
    "task-priority/elastic-job.yaml": _STRICT,
    "how_to_use_job_ttl.md block 1": _STRICT,
    "how_to_use_job_policy.md block 3": "a mistake in the guide: events must be a list in Volcano's definition as well",
    "how_to_use_cdp_plugin.md block 2": _VOLUMES,
    "how_to_use_cdp_plugin.md block 3": "only a part of a job",
    "how_to_use_cdp_plugin.md block 4": _VOLUMES,
    "how_to_use_dra_quota.md block 2": "a mistake in the guide: the amounts of a guarantee belong into its field resource",
    "how_to_use_dra_quota.md block 3": "a mistake in the guide: the amounts of a guarantee belong into its field resource",
    "how_to_use_dra_quota.md block 5": "its queue is that of block 2",
    "how_to_use_dra_quota.md block 6": "a mistake in the guide: Kubernetes has no field shareable",
    "how_to_use_dra_quota.md block 7": "a mistake in the guide: the amounts of a guarantee belong into its field resource",
    "how_to_use_resource_strategy_fit_plugin.md block 3": _LIMITS,
    "how_to_use_resource_strategy_fit_plugin.md block 5": _LIMITS,
    "how_to_use_svc_plugin.md block 2": "a mistake in the guide: it is not YAML",
    "how_to_use_svc_plugin.md block 3": _OUTPUT,
    "how_to_use_svc_plugin.md block 4": _OUTPUT,
    "how_to_use_svc_plugin.md block 5": _OUTPUT,
    "how_to_use_vnpu.md block 4": "only a part of a configuration",
}
