"""What the chart renders to, as objects: by the real helm, once in a session for the same values."""

import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.helm import helm

CHART = Path(__file__).parents[2] / "charts" / "volcanopy"
RELEASE, NAMESPACE = "volcanopy", "volcanopy-system"
LACKING = "helm is not built: run `make helm`"
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Json = dict[str, Any]
Right = tuple[str, str, str]
"""The group, resource and verb of a rule."""


class RenderError(Exception):
    """helm has refused; the message is what it said."""


def need_helm() -> Path:
    """Return the program; skips the test that asks, or fails it in CI, where there is none."""
    result = helm()
    if result is None:
        if os.environ.get("CI"):
            pytest.fail(LACKING)
        pytest.skip(LACKING)
    return result


def run_helm(*arguments: str, values: str = "", kubeconfig: Path | None = None) -> str:
    """Run helm and return what it printed; `values` are read by `--values=-`. Raises RenderError."""
    command = [os.fspath(need_helm()), *arguments]
    with tempfile.TemporaryDirectory(prefix="volcanopy-helm-") as folder:
        # Of its settings and caches on this machine nothing is used, and none are left there.
        environment = os.environ | {f"HELM_{name}_HOME": folder for name in ("CACHE", "CONFIG", "DATA")}
        environment["KUBECONFIG"] = os.fspath(kubeconfig or os.devnull)
        done = subprocess.run(command, input=values, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise RenderError(done.stderr.strip() or done.stdout.strip())
    return done.stdout


def render(
    values: Mapping[str, Any] | None = None,
    *,
    release: str = RELEASE,
    namespace: str = NAMESPACE,
    crds: bool = False,
    served: tuple[str, ...] = (),
) -> list[Json]:
    """Return the chart's objects for these values, those of the namespace with `metadata.namespace`.

    `served` are kinds that the cluster has besides those that helm expects of every cluster, as `group/version/kind`. Raises
    RenderError. Each call gives objects of its own: change them as you like.
    """
    document: list[Json] = json.loads(
        _rendered(json.dumps(values or {}, sort_keys=True), release, namespace, crds, served)
    )
    return document


def one(objects: Iterable[Json], kind: str, name: str) -> Json:
    """Return the object of this kind and name; fails the test if there is not exactly one."""
    (obj,) = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return obj


def rights_of(objects: Iterable[Json], role: str) -> set[Right]:
    """Return every right that the ClusterRole ``volcanopy-<role>`` gives."""
    return {
        (group, resource, verb)
        for rule in one(objects, "ClusterRole", f"volcanopy-{role}")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@functools.cache
def _rendered(values: str, release: str, namespace: str, crds: bool, served: tuple[str, ...]) -> str:
    command = ["template", release, os.fspath(CHART), f"--namespace={namespace}", "--values=-"]
    command += [f"--api-versions={kind}" for kind in served]
    text = run_helm(*command, *(["--include-crds"] if crds else []), values=values)
    return json.dumps([document for document in yaml.load_all(text, Loader=_Loader) if document])
