"""Golden cases of admission: a cluster state and a request in ``input.yaml``, the response in ``output.yaml``.

Where kubectl prints something else (from the schema, which precedes, or the rules for pods), its lines are there under
``kubectl``.
"""

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import yaml

from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.feasibility import maximal
from volcanopy.admission.queue_tree import amounts_of
from volcanopy.admission.review import review
from volcanopy.admission.submitter import submitter_in
from volcanopy.api.core import Namespace, PodGroup, Queue
from volcanopy.api.topology_read import HyperNode
from volcanopy.jobcontroller.plugins.registry import plugin_problems

Json = dict[str, Any]
FOLDER = Path(__file__).with_name("golden")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def cases() -> list[str]:
    """The names of all cases."""
    return sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())


def read(name: str, part: str) -> Json:
    """``input`` or ``output`` of a case."""
    document: Json = yaml.load((FOLDER / name / f"{part}.yaml").read_text(), _Loader)
    return document


def _queue(said: Json) -> Queue:
    spec = {key: value for key, value in said.items() if key not in {"name", "state", "allocated", "annotations"}}
    body = {
        "metadata": {"name": said["name"], "annotations": said.get("annotations", {})},
        "spec": spec,
        "status": {"state": said.get("state", "Open"), "allocated": said.get("allocated", {})},
    }
    return msgspec.convert(body, Queue)


def world(said: Json) -> Context:
    """The cluster state that admission knows in a case."""
    listed = [{"name": "root"}, {"name": "default"}, *said.get("queues", ())]
    queues = {queue["name"]: _queue(queue) for queue in listed}
    groups = [msgspec.convert(pod_group, PodGroup) for pod_group in said.get("podGroups", ())]
    hyper = [msgspec.convert(hyper_node, HyperNode) for hyper_node in said.get("hyperNodes", ())]
    return Context(
        queues=queues,
        check_plugins=plugin_problems,
        policy=AdmissionPolicy.read(said.get("policy", {}), unknown="forbid"),
        namespaces={
            name: msgspec.convert({"metadata": {"name": name, "annotations": notes}}, Namespace)
            for name, notes in said.get("namespaces", {}).items()
        },
        largest_nodes=maximal(map(amounts_of, said.get("nodes", ()))),
        cluster=sum(map(Counter, map(amounts_of, said.get("nodes", ()))), Counter()),
        priority_classes=set(said.get("priorityClasses", ["high"])),
        pod_groups={group.metadata.key: group for group in groups},
        unfinished=Counter(group.spec.queue for group in groups if group.status.phase != "Completed"),
        queued_jobs=Counter(
            (group.spec.queue, submitter_in(group.metadata.annotations))
            for group in groups
            if group.status.phase in {None, "", "Pending"}
        ),
        job_templates={},
        hyper_nodes={hyper_node.metadata.name: hyper_node for hyper_node in hyper},
    )


def question(said: Json) -> Json:
    """The AdmissionReview of a case."""
    asked = said.get("object") or said["old"]
    group, _, version = asked["apiVersion"].rpartition("/")
    request: Json = {
        "uid": "golden",
        "kind": {"group": group, "version": version, "kind": asked["kind"]},
        "operation": said.get("operation", "CREATE"),
        "name": asked["metadata"]["name"],
        "namespace": asked["metadata"].get("namespace", ""),
        "userInfo": {"username": said.get("user", "alice"), "groups": said.get("groups", ["system:authenticated"])},
        "object": said.get("object"),
        "oldObject": said.get("old"),
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def answered(said: Json) -> Json:
    """The response of admission, in the form of ``output.yaml``."""
    response = review(question(said), world(said))["response"]
    result: Json = {"allowed": response["allowed"]}
    if not response["allowed"]:
        result["problems"] = response["status"]["message"].split("; ")
    if response.get("warnings"):
        result["warnings"] = response["warnings"]
    if "patch" in response:
        result["patch"] = json.loads(base64.b64decode(response["patch"]))
    return result


def main() -> None:
    """Write the output of every case, keeping what kubectl prints."""
    for name in cases():
        kept = {key: value for key, value in read(name, "output").items() if key == "kubectl"}
        text = yaml.safe_dump({**answered(read(name, "input")), **kept}, sort_keys=False, width=120, allow_unicode=True)
        (FOLDER / name / "output.yaml").write_text(text)


if __name__ == "__main__":
    main()
