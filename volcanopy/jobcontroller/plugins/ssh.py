"""ssh: the pods of a job log in to each other without a password.

One Secret contains a key pair and the client's configuration; every container finds them in its home. The configuration
speaks of hosts by pattern, so that hosts added by scaling are known to pods that run already.
"""

from collections.abc import Iterator, Sequence
from typing import Self

from pydantic import model_validator

from volcanopy.api.batch import TaskSpec
from volcanopy.api.model import Json
from volcanopy.jobcontroller.plugins.plugin import Arguments, JobPlugin, Needed, Port, add_volume

ROOT_HOME = "/root/.ssh"
_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")


class SshArguments(Arguments):
    """Arguments of ssh."""

    ssh_key_file_path: str = ROOT_HOME
    """The folder in each container that gets the keys."""
    ssh_private_key: str = ""
    """A private key to use instead of a new one; the public one must be given, too. Admission rejects it in new
    jobs: it is readable with the job."""
    ssh_public_key: str = ""
    """The public key that belongs to it."""
    ssh_port: Port = 22
    """The port that the servers listen on."""

    @model_validator(mode="after")
    def _whole_pair(self) -> Self:
        if bool(self.ssh_private_key) != bool(self.ssh_public_key):
            raise ValueError("--ssh-private-key and --ssh-public-key are a pair: give both or neither")
        return self


class Ssh(JobPlugin[SshArguments]):
    """Give all pods one key pair and a client configuration for each other.

    A pod is reached by its name, with or without the domain that plugin ``svc`` gives it. Pods that are added later are
    known to those that run already. The keys stay the same as long as the job lives, through restarts as well.
    """

    name = "ssh"
    needs_pod_names = False

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """Keys and configuration, in every container."""
        path = self.arguments.ssh_key_file_path
        source = {
            "secretName": self._secret,
            "defaultMode": 0o600 if path == ROOT_HOME else 0o644,
            "items": [{"key": name, "path": f".ssh/{name}"} for name in _FILES],
        }
        volume = self._secret.replace(".", "-")
        add_volume(pod, {"name": volume, "secret": source}, {"name": volume, "mountPath": path, "subPath": ".ssh"})
        return pod

    def objects(self) -> Sequence[Needed]:
        """The Secret; its keys are those given, otherwise generated when the Secret is created."""
        data = {"config": self._config()}
        own = self.arguments.ssh_private_key
        if own:
            public = _line(self.arguments.ssh_public_key)
            data |= {"id_rsa": _line(own), "id_rsa.pub": public, "authorized_keys": public}
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": self.metadata(self._secret),
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
        for task in sorted(self.job.spec.tasks, key=lambda task: (-len(task.name), task.name)):
            lines += self._blocks(task)
        return "\n".join(lines) + "\n"

    def _blocks(self, task: TaskSpec) -> Iterator[str]:
        spec = task.template.get("spec") or {}
        domain = spec.get("subdomain") or self.job.metadata.name
        fixed = spec.get("hostname")
        host = fixed or f"{self.job.metadata.name}-{task.name}-*"
        # A `*` fits dots as well: an address that has its domain must not get it once more.
        for patterns, address in ((f"{host}.{domain} {host}.{domain}.*", "%h"), (host, f"{fixed or '%h'}.{domain}")):
            yield from (f"Host {patterns}", f"  HostName {address}", f"  Port {self.arguments.ssh_port}")


def _line(key: str) -> str:
    """A key as a file: ssh rejects a private key that does not end its last line."""
    return key if key.endswith("\n") else key + "\n"
