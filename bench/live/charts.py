"""What the Helm chart of another system runs, as processes on this machine: its settings are those of its chart, and not copied here.

1. helm renders the chart.
2. The volumes of a Deployment become folders: ConfigMaps from the chart, Secrets from the caller.
3. The arguments of its container become those of a process; paths below a mount become paths of its folder.
4. Webhooks reach the process through the Services of the chart, which name this machine.
"""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from hack.controlplane import kubernetes_version
from hack.gobuild import BuildError
from hack.helm import helm

Json = dict[str, Any]
CRD = "CustomResourceDefinition"
PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Service": "/api/v1/namespaces/{}/services",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}
"""Where the objects of a chart are created that matter on this machine: there are no kubelets, and every client may do everything."""
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def rendered(chart: Path, release: str, namespace: str, values: Mapping[str, Any]) -> list[Json]:
    """Return the objects of a chart. Raises BuildError without helm, and if the chart cannot be rendered."""
    program = helm()
    if program is None:
        raise BuildError("helm is not built: run `python -m hack.helm`")
    command = [os.fspath(program), "template", release, os.fspath(chart), f"--namespace={namespace}", "--no-hooks"]
    command += ["--include-crds", f"--kube-version={kubernetes_version()}", "--values=-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"helm does not render {chart}: {done.stderr.strip()}")
    return [each for each in yaml.load_all(done.stdout, _Loader) if each]


def object_of(objects: Iterable[Json], kind: str, name: str) -> Json:
    """Return the object of this kind and name. Raises KeyError if there is none."""
    for each in objects:
        if (each["kind"], each["metadata"]["name"]) == (kind, name):
            return each
    raise KeyError(f"the chart has no {kind} {name}")


def mounts(
    deployment: Json, objects: Iterable[Json], secrets: Mapping[str, Mapping[str, bytes]], folder: Path
) -> dict[str, Path]:
    """Write the volumes of a Deployment below the folder, and return the path of each mount there.

    ``secrets``: the files of each Secret, which the chart does not contain.
    """
    pod = deployment["spec"]["template"]["spec"]
    volumes = {}
    for volume in pod.get("volumes") or ():
        path = volumes[volume["name"]] = folder / volume["name"]
        path.mkdir(parents=True)
        files: dict[str, bytes] = {}
        if "configMap" in volume:
            data = object_of(objects, "ConfigMap", volume["configMap"]["name"])["data"]
            files = {name: text.encode() for name, text in data.items()}
        elif "secret" in volume:
            files = dict(secrets.get(volume["secret"]["secretName"], {}))
        for name, content in files.items():
            (path / name).write_bytes(content)
    mounted = pod["containers"][0].get("volumeMounts") or ()
    return {each["mountPath"]: volumes[each["name"]] / each.get("subPath", "") for each in mounted}


def arguments(deployment: Json, paths: Mapping[str, Path]) -> list[str]:
    """Return the flags of a Deployment's container, with paths below a mount replaced by those of its folder."""
    result = []
    for flag in deployment["spec"]["template"]["spec"]["containers"][0]["args"]:
        name, equals, value = flag.partition("=")
        for mount, path in paths.items():
            if value == mount or value.startswith(f"{mount}/"):
                value = f"{path}{value.removeprefix(mount)}"
                break
        if name.startswith("-"):  # a redirection of the shell is no flag
            result.append(f"{name}{equals}{value}")
    return result


def on_this_machine(objects: Iterable[Json], port: int) -> list[Json]:
    """Return copies of the objects whose webhooks are served on a port of this machine.

    The names of the Services stay, because certificates are made for them.
    """
    return [_on_this_machine(json.loads(json.dumps(each, default=str)), port) for each in objects]


def _on_this_machine(made: Json, port: int) -> Json:
    if made["kind"] == "Service":
        return made | {"spec": {"type": "ExternalName", "externalName": "localhost"}}
    configurations = [webhook["clientConfig"] for webhook in made.get("webhooks") or ()]
    if made["kind"] == CRD and (webhook := (made["spec"].get("conversion") or {}).get("webhook")):
        configurations.append(webhook["clientConfig"])
    for configuration in configurations:
        configuration["service"]["port"] = port
    return made
