"""In-place resize of pods: what counts of a running pod until the kubelet has resized it.

kube-scheduler's rule (Kubernetes 1.33): of each container the largest of the requests in the spec, those allocated and those
in effect counts; of a resize that the node can never carry out (condition PodResizePending with the reason Infeasible) the
spec does not.
"""

from msgspec.structs import replace

from volcanopy.api import core, quantity


def with_resized_requests(pod: core.Pod) -> core.Pod:
    """Return a pod whose containers request what counts; the same object where that is what its spec has."""
    status = pod.status
    if not (status.container_statuses or status.init_container_statuses):
        return pod
    resized = {
        entry.name: entry
        for entry in (*status.container_statuses, *status.init_container_statuses)
        if entry.allocated_resources or entry.resources is not None
    }
    if not resized:
        return pod
    infeasible = any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible" for condition in status.conditions
    )

    def of(container: core.Container) -> core.Container:
        entry = resized.get(container.name)
        if entry is None:
            return container
        actual = {} if entry.resources is None else entry.resources.requests
        requests = _largest(actual, entry.allocated_resources)
        if not infeasible:
            requests = _largest(container.resources.requests, requests)
        if requests == container.resources.requests:
            return container
        return replace(container, resources=replace(container.resources, requests=requests))

    spec = pod.spec
    containers, init_containers = tuple(map(of, spec.containers)), tuple(map(of, spec.init_containers))
    if containers == spec.containers and init_containers == spec.init_containers:
        return pod
    return replace(pod, spec=replace(spec, containers=containers, init_containers=init_containers))


def _largest(requests: core.Quantities, further_requests: core.Quantities) -> core.Quantities:
    """Return the larger amount of each resource."""
    result = dict(requests)
    for name, text in further_requests.items():
        amount = result.get(name)
        if amount is None or quantity.amount(name, text) > quantity.amount(name, amount):
            result[name] = text
    return result
