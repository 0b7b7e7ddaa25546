"""ssh: the pods of a job log in to each other without a password.

One Secret holds a key pair and the client's configuration; every container finds them in its home. The configuration
speaks of hosts by pattern, so that hosts added by scaling are known to pods that run already.
"""

from collections.abc import Sequence

from pydantic import Field

from volcanopy.api import names
from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json
from volcanopy.jobcontroller.naming import owner_reference
from volcanopy.jobcontroller.plugins.plugin import Arguments, JobPlugin, Needed, add_volume

ROOT_HOME = "/root/.ssh"
_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")


class SshArguments(Arguments):
    """Arguments of ssh."""

    ssh_key_file_path: str = ROOT_HOME
    """The folder in each container that gets the keys."""
    ssh_private_key: str = ""
    """A private key to use instead of a new one."""
    ssh_public_key: str = ""
    """The public key that belongs to it."""
    ssh_port: int = Field(default=22, ge=1, le=65535)
    """The port that the servers listen on."""


class Ssh(JobPlugin[SshArguments]):
    """Give all pods one key pair and a client configuration for each other."""

    name = "ssh"

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """Keys and configuration, in every container."""
        path = self.arguments.ssh_key_file_path
        source = {
            "secretName": self._secret,
            "defaultMode": 0o600 if path == ROOT_HOME else 0o644,
            "items": [{"key": name, "path": f".ssh/{name}"} for name in _FILES],
        }
        add_volume(
            pod,
            {"name": self._secret, "secret": source},
            {"name": self._secret, "mountPath": path, "subPath": ".ssh"},
        )
        return pod

    def objects(self) -> Sequence[Needed]:
        """The Secret; its keys are those given, else made anew by whoever makes it."""
        data = {"config": self._config()}
        own = self.arguments.ssh_private_key
        if own:
            public = self.arguments.ssh_public_key
            data |= {"id_rsa": own, "id_rsa.pub": public, "authorized_keys": public}
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self._secret,
                "namespace": self.job.metadata.namespace,
                "labels": {names.JOB_NAME: self.job.metadata.name},
                "ownerReferences": [owner_reference(self.job)],
            },
            "type": "Opaque",
            "stringData": data,
        }
        return [Needed(manifest, ssh_keys=not own)]

    @property
    def _secret(self) -> str:
        return f"{self.job.metadata.name}-ssh"

    def _config(self) -> str:
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        # The first block that fits a host decides: task `a-b` comes before task `a`, whose pattern fits its hosts.
        for task in sorted(self.job.spec.tasks, key=lambda one: (-len(one.name), one.name)):
            spec = task.template.get("spec") or {}
            domain = spec.get("subdomain") or self.job.metadata.name
            host = spec.get("hostname")
            lines += [
                f"Host {host or f'{self.job.metadata.name}-{task.name}-*'}",
                f"  HostName {host or '%h'}.{domain}",
                f"  Port {self.arguments.ssh_port}",
            ]
        return "\n".join(lines) + "\n"
