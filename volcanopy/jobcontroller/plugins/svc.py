"""svc: the pods of a job find each other by name.

Every pod gets a host name within a headless service named like the job. A ConfigMap lists the hosts of each task; it
is mounted in every container (and follows when the job is scaled) and, unless that is turned off, given in the
environment.
"""

from collections.abc import Sequence

from volcanopy.api import names
from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json
from volcanopy.jobcontroller.naming import owner_reference
from volcanopy.jobcontroller.plugins.plugin import (
    Arguments,
    JobPlugin,
    Needed,
    add_environment,
    add_volume,
    hosts_of,
)

HOSTS_PATH = "/etc/volcano"
"""Where programs written for Volcano look for the hosts."""


class SvcArguments(Arguments):
    """Arguments of svc."""

    publish_not_ready_addresses: bool = False
    """Whether pods have an address before they are ready."""
    disable_network_policy: bool = False
    """Whether pods outside the job may connect to its pods."""
    inject_hosts_env: bool = True
    """Whether the hosts are given in the environment, too."""


class Svc(JobPlugin[SvcArguments]):
    """Give the pods names, and tell each of them the names of all."""

    name = "svc"

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """Host name and domain, the hosts of all tasks as files and in the environment."""
        spec = pod["spec"]
        spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
        spec["subdomain"] = spec.get("subdomain") or self.job.metadata.name
        if self.arguments.inject_hosts_env:
            keys = [key for one in self.job.spec.tasks for key in _variables(one)]
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
        found = [Needed(self._config_map()), Needed(self._service())]
        if not self.arguments.disable_network_policy:
            found.append(Needed(self._network_policy()))
        return found

    @property
    def _hosts(self) -> str:
        return f"{self.job.metadata.name}-svc"

    @property
    def _selector(self) -> dict[str, str]:
        return {names.JOB_NAME: self.job.metadata.name, names.JOB_NAMESPACE: self.job.metadata.namespace}

    def _metadata(self, name: str) -> Json:
        return {
            "name": name,
            "namespace": self.job.metadata.namespace,
            "labels": {names.JOB_NAME: self.job.metadata.name},
            "ownerReferences": [owner_reference(self.job)],
        }

    def _config_map(self) -> Json:
        data: dict[str, str] = {}
        for task in self.job.spec.tasks:
            hosts = hosts_of(self.job, task)
            list_key, number_key = _variables(task)
            data[f"{task.name.replace('-', '_')}.host"] = "\n".join(hosts)
            data[list_key] = ",".join(hosts)
            data[number_key] = str(len(hosts))
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata(self._hosts), "data": data}

    def _service(self) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self._metadata(self.job.metadata.name),
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
            "metadata": self._metadata(self.job.metadata.name),
            "spec": {
                "podSelector": selector,
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": selector}]}],
            },
        }


def _variables(task: TaskSpec) -> tuple[str, str]:
    upper = task.name.upper().replace("-", "_")
    return f"VC_{upper}_HOSTS", f"VC_{upper}_NUM"
