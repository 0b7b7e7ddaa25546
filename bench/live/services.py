"""Our services as processes, with the chart's defaults."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_port
from volcanopy.api.bindings import VOLCANOPY, Binding

SERVICES = ("admission", "controller", "scheduler")
USERS = {name: f"system:serviceaccount:volcanopy-system:volcanopy-{name}" for name in SERVICES}
"""Our users. They have tokens, as in a cluster: the API server verifies a client certificate again for each request."""
LEASE = ("--lease-duration", "120", "--renew-deadline", "90")
"""A machine with many other processes renews late; how long a lease lasts costs nothing."""
_FIELD_MANAGERS = Path(__file__).parents[2] / "charts" / "volcanopy" / "field-managers.yaml"


def create_policies(plane: ControlPlane) -> None:
    """Create the policy of the chart that removes field managers."""
    metadata, kind = {"name": "field-managers"}, "MutatingAdmissionPolicy"
    path = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"
    policy = {"kind": kind, "metadata": metadata, "spec": yaml.safe_load(_FIELD_MANAGERS.read_text())}
    plane.request("POST", f"{path}ies", policy)
    binding = {"kind": f"{kind}Binding", "metadata": metadata, "spec": {"policyName": metadata["name"]}}
    plane.request("POST", f"{path}ybindings", binding)


class Services:
    """Programs beside a control plane, by name; those that still run are killed at the end."""

    def __init__(self, plane: ControlPlane, directory: Path, binding: Binding) -> None:
        self._plane, self._directory, self._binding = plane, directory, binding
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def pids(self) -> dict[str, int]:
        """The pid of each."""
        return {name: process.pid for name, process in self.processes.items()}

    def start(self, name: str) -> None:
        """Start one of our services."""
        options = ["--kubeconfig", str(self._plane.kubeconfig_for(USERS[name]))]
        if self._binding is not VOLCANOPY:
            options += ["--api", self._binding.name]
        if name == "admission":
            policy = {"controllers": [USERS["controller"]], "schedulerNames": [self._binding.scheduler_name]}
            file = self._directory / "admission.yaml"
            file.write_text(json.dumps(policy))
            options += ["--config", str(file), "--port", str(free_port()), "--bind-address", "127.0.0.1"]
        else:
            options += LEASE
        self.run(name, [sys.executable, "-m", "volcanopy", name, *options, "--health-port", str(free_port())])

    def run(self, name: str, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        """Start another program under this name, with more variables in its environment."""
        with (self._directory / f"{name}.log").open("ab") as log:
            variables = os.environ | dict(environment or {})
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=variables)

    def check(self) -> None:
        """Raise RuntimeError, with the end of its log, if a program has ended by itself."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                log = (self._directory / f"{name}.log").read_text()[-2000:]
                raise RuntimeError(f"the {name} has ended with {process.returncode}: {log}")

    def end(self, name: str) -> None:
        """Let a program end in order, and wait for that."""
        process = self.processes.pop(name)
        process.terminate()
        process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
