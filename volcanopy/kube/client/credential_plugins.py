"""Credentials that come from elsewhere: exec plugins, and the older auth providers of kubeconfig users.

An exec plugin is a program that prints an ExecCredential. The auth providers (oidc, gcp) with their refresh of tokens are
those of the official package.
"""

# mypy: disable-error-code="no-untyped-call"
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CLUSTER_CONFIG = "client.authentication.k8s.io/exec"
"""The extension of a cluster entry that is passed to plugins as its ``config``."""


def run_exec_plugin(plugin: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the status of the ExecCredential that the plugin prints; relative paths of commands are relative to ``folder``.

    Raises ValueError if it fails, or prints something else; OSError if it cannot be started.
    """
    for key in ("command", "apiVersion"):
        if not plugin.get(key):
            raise ValueError(f"exec has no {key}")
    interactive = sys.stdin.isatty() and plugin.get("interactiveMode") != "Never"
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        extensions = {item.get("name"): item.get("extension") for item in cluster.get("extensions") or ()}
        config = {"config": extensions[CLUSTER_CONFIG]} if CLUSTER_CONFIG in extensions else {}
        spec["cluster"] = {**cluster, **config}
    info = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": spec}
    own = {variable["name"]: variable["value"] for variable in plugin.get("env") or ()}
    environment = {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    command = plugin["command"]
    # The error of the system is "Permission denied" where one folder of PATH cannot be read.
    if os.sep not in command and not shutil.which(command, path=environment.get("PATH")):
        raise ValueError("no such program is on PATH")
    run = subprocess.run(
        [command, *(plugin.get("args") or ())],
        cwd=folder,
        env=environment,
        stdin=None if interactive else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if interactive else subprocess.PIPE,
        text=True,
        check=False,
    )
    if run.returncode:
        raise ValueError(
            ": ".join(filter(None, (f"it exited with status {run.returncode}", (run.stderr or "").strip())))
        )
    try:
        credential = json.loads(run.stdout)
    except ValueError as fault:
        raise ValueError(f"its output is not JSON: {fault}") from fault
    status = credential.get("status") if isinstance(credential, dict) else None
    if not isinstance(status, dict):
        raise ValueError("its output is no ExecCredential with a status")
    if credential.get("apiVersion") != plugin["apiVersion"]:
        raise ValueError(f"its output is of apiVersion {credential.get('apiVersion')}, not {plugin['apiVersion']}")
    return status


def provider_token(files: Sequence[Path], context: str) -> str:
    """Return the token, with its scheme, of a user with an auth provider; a token that has expired is renewed and saved.

    Raises ValueError with the reason.
    """
    from kubernetes.client import Configuration  # noqa: PLC0415 - a fifth of a second, for few users
    from kubernetes.config.config_exception import ConfigException  # noqa: PLC0415
    from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger  # noqa: PLC0415

    merger = KubeConfigMerger(os.pathsep.join(str(path) for path in files))
    settings = Configuration()
    try:
        loader = KubeConfigLoader(
            merger.config, active_context=context, config_base_path=None, config_persister=merger.save_changes
        )
        loader.load_and_set(settings)
    except ConfigException as fault:
        raise ValueError(str(fault)) from fault
    # The second name is that of releases before 34.
    return str(settings.api_key.get("BearerToken") or settings.api_key.get("authorization") or "")
