"""Specs of Volcano's suites that do not pass, examples that are refused, and why. A key is a part of the name."""

from collections.abc import Mapping

_QUEUE_IN_USE = "at its end the spec deletes a queue that has an unfinished PodGroup, which is rejected"
EXCEPTIONS: Mapping[str, Mapping[str, str]] = {
    "admission": {
        "Should add svc plugin for pytorch plugin": "rejected, as the plugin would configure nothing: the job has no task of "
        "the name that --master gives (master by default)",
        "Should allow jobflow update with valid DAG structure": "a race of the spec: it updates the object of its creation, "
        "while the controller has written its status",
    },
    "schedulingaction": {
        "no reclaim when job not satisfied with predicates": "rejected: the template of the job sets nodeName, which bypasses "
        "the scheduler and the limits of the queue",
        "Reclaim Case 10": "nothing is evicted, as no queue is above its fair share: the idle control-plane node counts. Volcano's "
        "configuration asks no plugin for shares in its first tier",
    },
    "jobp": {
        "Scale down": "a race of the spec: it reads the ConfigMap of the hosts once, right after it has changed the job",
    },
    "jobseq": {
        "job level LifecyclePolicy, Event: TaskFailed; Action: TerminateJob": "the spec writes the restart count of a container "
        "into the status of a pod, which the simulated kubelet writes again",
    },
    "schedulinggates": {
        "Unschedulable pod with removed gate": _QUEUE_IN_USE,
        "Multiple scheduling gates": _QUEUE_IN_USE,
    },
}
REFUSED_EXAMPLES: Mapping[str, str] = {
    "-webhook-deny.yaml": "Volcano's example of a job that is rejected",
}
