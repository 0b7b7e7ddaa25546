"""svc: the pods of a job find each other by name.

Every pod gets a host name within a headless service named like the job. A ConfigMap lists the hosts of each task; it
is mounted in every container (and follows when the job is scaled) and, unless that is turned off, given in the
environment.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

from volcanopy.api import names
from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json, Problem, invalid
from volcanopy.jobcontroller.naming import pod_name
from volcanopy.jobcontroller.plugins.plugin import (
    LONGEST_VARIABLE,
    Arguments,
    JobPlugin,
    Needed,
    add_environment,
    add_volume,
    hosts_of,
    size_of_hosts,
)

HOSTS_PATH = "/etc/volcano"
"""Where programs written for Volcano look for the hosts."""
LARGEST_CONFIG_MAP = 1024 * 1024
"""Maximum size of the data of a ConfigMap, in bytes."""


class SvcArguments(Arguments):
    """Arguments of svc."""

    publish_not_ready_addresses: bool = False
    """Whether pods have an address before they are ready."""
    disable_network_policy: bool = False
    """Whether others than the job's own pods may connect to them."""
    inject_hosts_env: bool = True
    """Whether the hosts are given in the environment, too."""


class Svc(JobPlugin[SvcArguments]):
    """DNS names for the pods, and the names of all pods for each of them.

    A pod is reached as ``<job>-<task>-<index>.<job>``, or by the ``hostname`` and ``subdomain`` that its template fixes. In
    ``/etc/volcano``, ``<task>.host`` contains the names of the pods of a task, one a line, with ``_`` for each ``-`` of its name;
    it follows when the job is scaled. The variables do not: they are as when the pod was made. Only pods of the job may
    connect to its pods, unless that is turned off.
    """

    name = "svc"
    needs_pod_names = False

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """Host name and domain, the hosts of all tasks as files and in the environment."""
        spec = pod["spec"]
        spec["hostname"] = spec.get("hostname") or pod_name(self.job, task, index)
        spec["subdomain"] = spec.get("subdomain") or self.job.metadata.name
        if self.arguments.inject_hosts_env:
            keys = [key for other in self.job.spec.tasks for key in _variables(other)]
            source = {"name": self._hosts}
            add_environment(
                pod, [{"name": key, "valueFrom": {"configMapKeyRef": {**source, "key": key}}} for key in keys]
            )
        add_volume(
            pod,
            {"name": self._hosts, "configMap": {"name": self._hosts}},
            {"name": self._hosts, "mountPath": HOSTS_PATH},
        )
        return pod

    def objects(self) -> Sequence[Needed]:
        """The hosts, the service that gives the names and, unless turned off, a fence around the job."""
        objects = [self.config_map(self._hosts, self._data), Needed(self._service())]
        if not self.arguments.disable_network_policy:
            objects.append(Needed(self._network_policy()))
        return objects

    def problems(self) -> Iterable[Problem]:
        """A name that no service may have; more hosts than the environment or a ConfigMap allows."""
        name = self.job.metadata.name
        if not name[:1].isalpha() or "." in name:
            detail = "must begin with a letter and contain no dots: plugin svc creates a Service of this name"
            yield invalid("metadata.name", name, detail)
        if self.arguments.publish_not_ready_addresses and self.job.spec.replaces_terminating:
            detail = (
                "must be Failed with --publish-not-ready-addresses: both a pod and its replacement would have its name"
            )
            yield invalid("spec.podReplacementPolicy", self.job.spec.pod_replacement_policy, detail)
        tasks = self.job.spec.tasks
        sizes = [size_of_hosts(self.job, task) for task in tasks]
        size = sum(2 * length + len(str(task.replicas)) for length, task in zip(sizes, tasks, strict=True))
        if size > LARGEST_CONFIG_MAP:
            message = f"its hosts take {size} bytes, and the limit of a ConfigMap is {LARGEST_CONFIG_MAP}"
            yield self.problem(f"{message}: shorten the names of the job and its tasks, or divide the job")
        elif self.arguments.inject_hosts_env and sizes:
            longest, most = max(zip(tasks, sizes, strict=True), key=lambda pair: pair[1])
            if len(f"{_variables(longest)[0]}=") + most > LONGEST_VARIABLE:
                message = f"the hosts of task {longest.name} do not fit into a variable of the environment (128 KiB)"
                yield self.problem(f"{message}: give svc the argument --inject-hosts-env=false, and read {HOSTS_PATH}")

    @property
    def _hosts(self) -> str:
        return f"{self.job.metadata.name}-svc"

    @property
    def _selector(self) -> dict[str, str]:
        metadata = self.job.metadata
        return {names.JOB_NAME: metadata.name, names.JOB_NAMESPACE: metadata.namespace}

    @cached_property
    def _data(self) -> dict[str, str]:
        data: dict[str, str] = {}
        for task in self.job.spec.tasks:
            hosts = hosts_of(self.job, task)
            list_key, number_key = _variables(task)
            data[f"{task.name.replace('-', '_')}.host"] = "\n".join(hosts)
            data[list_key] = ",".join(hosts)
            data[number_key] = str(len(hosts))
        return data

    def _service(self) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(self.job.metadata.name),
            "spec": {
                "clusterIP": "None",
                "selector": self._selector,
                "publishNotReadyAddresses": self.arguments.publish_not_ready_addresses,
            },
        }

    def _network_policy(self) -> Json:
        selector = {"matchLabels": self._selector}
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self.metadata(self.job.metadata.name),
            "spec": {
                "podSelector": selector,
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": selector}]}],
            },
        }


def _variables(task: TaskSpec) -> tuple[str, str]:
    upper = task.name.upper().replace("-", "_")
    return f"VC_{upper}_HOSTS", f"VC_{upper}_NUM"
