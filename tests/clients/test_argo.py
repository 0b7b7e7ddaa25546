"""Argo's workflow-controller and argoexec as programs, unchanged, against volcanopy: `make operators OPERATORS=folder`.

The folder has Argo's source tree as `argo`, with both programs in `dist`. The pods of a workflow are programs of this machine, in which
argoexec speaks with the API server as it does in a cluster; the Job that it creates runs on simulated nodes.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.clients.gang_operators import Operator
from tests.clients.programs import seen_by_pods
from tests.clients.servers import SECONDS, StartServer, on_both_servers, reason_to_wait
from tests.clients.test_gang_operators import QUEUE_OF_GANGS, TREES, running
from tests.clients.workloads import QUEUE
from tests.local.process.conftest import runtime_named
from volcanopy.api.bindings import VOLCANO
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import POD_GROUPS, PODS, bound
from volcanopy_local.cluster import Parts
from volcanopy_local.process import machine
from volcanopy_local.process.container_spec import DEFAULT_PATH
from volcanopy_local.process.kubelet import ProcessSettings
from volcanopy_local.simulated import nodes

ARGOEXEC = TREES / "argo/dist/argoexec"
pytestmark = pytest.mark.skipif(
    not ARGOEXEC.is_file(),
    reason="needs OPERATORS, a folder with argo/dist/workflow-controller and argo/dist/argoexec: `make operators`",
)
NAMESPACE = "argo"
GROUPS = bound(POD_GROUPS, VOLCANO)
CONFIGURATION = """\
metricsConfig: {enabled: false}
executor: {env: [{name: RESOURCE_STATE_CHECK_INTERVAL, value: 1s}]}
"""
SYSTEM: list[Json] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "workflow-controller-configmap", "namespace": NAMESPACE},
        "data": {"config": CONFIGURATION},
    },
]
"""What the controller reads."""
RULES = [
    {"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]},
    {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["create", "get"]},
]
"""What the service account of a workflow may do: report results, and what its `resource` template does."""
JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {generateName: train-}
spec:
  minAvailable: 2
  schedulerName: volcano
  queue: research
  tasks:
  - name: worker
    replicas: 2
    template:
      metadata: {annotations: {sim.volcanopy.io/duration: 1s}}
      spec:
        restartPolicy: Never
        containers: [{name: main, image: example, resources: {requests: {cpu: "CPU"}}}]
"""
WORKFLOW = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: nightly, namespace: default}
spec:
  entrypoint: nightly
  serviceAccountName: workflow
  schedulerName: volcano
  nodeSelector: {volcanopy.io/runtime: process}
  podMetadata: {annotations: {scheduling.volcano.sh/queue-name: research}}
  templates:
  - name: nightly
    steps:
    - - {name: train, template: train}
    - - name: report
        template: report
        arguments: {parameters: [{name: phase, value: "{{steps.train.outputs.parameters.phase}}"}]}
  - name: train
    resource:
      action: create
      setOwnerReference: true
      successCondition: status.state.phase = Completed
      failureCondition: status.state.phase in (Failed, Terminated, Aborted)
    outputs: {parameters: [{name: phase, valueFrom: {jsonPath: "{.status.state.phase}"}}]}
  - name: report
    inputs: {parameters: [{name: phase}]}
    container: {image: none, command: [echo, "the job is {{inputs.parameters.phase}}"]}
"""


def workflow(cpu: str) -> Json:
    """A workflow of two steps: a Job of Volcano whose two pods request so many cpus each, and a program that prints how it ended."""
    body: Json = yaml.safe_load(WORKFLOW)
    body["spec"]["templates"][1]["resource"]["manifest"] = JOB.replace("CPU", cpu)
    return body


ARGO = Operator(
    name="Argo Workflows",
    program="argo/dist/workflow-controller",
    definitions=("argo/manifests/base/crds/minimal/argo*.yaml",),
    namespace=NAMESPACE,
    arguments=lambda site: [f"--namespace={site.namespace}", "--executor-image=argoexec"],
    environment={"LEADER_ELECTION_IDENTITY": "first"},
    ready=("new leader",),
    workload=workflow,
    finished=lambda workflow: bool(workflow.get("status", {}).get("finishedAt")),
)


def account() -> list[Json]:
    """The service account of the workflow with its rights."""
    metadata = {"name": "workflow", "namespace": "default"}
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": RULES},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "workflow"},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        },
    ]


@pytest.mark.slow("starts Argo's controller and four programs of pods, and with `real` an API server")
@pytest.mark.timeout(2 * SECONDS)
@on_both_servers
async def test_a_step_of_a_workflow_is_a_job_that_waits_as_a_gang(start: StartServer, tmp_path: Path) -> None:
    """One pod of the Job would fit; with one more node both start, and the next step has the phase of the Job."""
    with seen_by_pods([ARGOEXEC]) as programs:
        runtime = replace(runtime_named("bubblewrap"), search_path=f"{programs}:{DEFAULT_PATH}")
        process = ProcessSettings(tmp_path / "run", tmp_path / "claims", runtime)
        objects = [
            *machine.manifests(1, 2, 4 << 30),
            *nodes.manifests(1, {"cpu": "4"}),
            QUEUE_OF_GANGS,
            *SYSTEM,
            *account(),
        ]
        async with start(objects, Parts(api="both", process=process)) as server, running(ARGO, server, tmp_path):
            creator = Creator(server.client)
            [submitted] = await creator.create([ARGO.workload("3")])
            kind = await creator.kind(submitted)
            groups = await server.until(GROUPS, lambda groups: "cpu" in reason_to_wait(groups))
            assert {group["spec"]["queue"] for group in groups} == {QUEUE}
            [waiting] = (await server.client.list(kind, "default")).items
            assert waiting["status"]["phase"] == "Running"

            await creator.create([nodes.manifest("node-2", 2, {"cpu": "4"})])
            [ended] = await server.until(kind, lambda workflows: any(ARGO.finished(each) for each in workflows))
            assert ended["status"]["phase"] == "Succeeded", ended["status"]
            pods = (await server.client.list(PODS, "default")).items
            assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
            [report] = [pod for pod in pods if "report" in pod["metadata"]["name"]]
            assert server.process_kubelet is not None
            log = server.process_kubelet.log(report, "main", {})
            assert isinstance(log, bytes)
            assert b"the job is Completed" in log.splitlines()
