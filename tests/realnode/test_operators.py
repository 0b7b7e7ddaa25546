"""An operator that asks for a gang of Volcano's API, unchanged, with real pods: it runs beside the cluster, as its administrator."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.realnode.images import JOBS_IMAGE
from tests.clients.gang_operators import OPERATORS, Site, condition
from tests.realnode.cluster_client import SSHD, ClusterClient, Json, shell
from tests.realnode.test_plugins import ALL_REDUCE

TREES = Path(os.environ.get("OPERATORS") or "/nonexistent")
(OPERATOR,) = (operator for operator in OPERATORS if operator.name == "MPI operator")
LAUNCH = f"""
echo 'StrictHostKeyChecking no' > /etc/ssh/ssh_config.d/gang.conf
mkdir -p /etc/volcano && sed 's/ .*//' /etc/mpi/hostfile > /etc/volcano/worker.host
for host in $(cat /etc/volcano/worker.host); do until ssh $host true; do sleep 1; done; done
{ALL_REDUCE}
"""
"""The program of the plugin's test; it takes the names of the workers from the operator's file."""


@pytest.fixture
def operator(client: ClusterClient, tmp_path: Path) -> Iterator[None]:
    """Run the operator; its Lease is in the namespace of the test."""
    if not (TREES / OPERATOR.program).exists():
        pytest.skip(f"needs OPERATORS, a folder with {OPERATOR.program}")
    (definitions,) = OPERATOR.definitions
    client.kubectl("apply", "--server-side", f"--filename={TREES / definitions}")
    client.until(lambda: "mpijobs" in client.kubectl("api-resources", "--api-group=kubeflow.org", "--output=name"))
    site = Site(tmp_path, 0, client.namespace)
    environment = {**os.environ, "KUBECONFIG": str(client.cluster.kubeconfig)}
    with (tmp_path / "log").open("w") as log:
        command = [str(TREES / OPERATOR.program), *OPERATOR.arguments(site)]
        program = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        program.terminate()
        program.wait()
        client.kubectl("delete", f"--filename={TREES / definitions}")


def mpi_job() -> Json:
    """An MPIJob of a launcher and three workers; the folder of their keys is that of a volume, which all may write to."""

    def replicas(number: int, script: str) -> Json:
        template = {"spec": {"schedulerName": "volcano", "containers": [shell(script, JOBS_IMAGE)]}}
        return {"replicas": number, "restartPolicy": "Never", "template": template}

    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "gang"},
        "spec": {
            "mpiReplicaSpecs": {"Launcher": replicas(1, LAUNCH), "Worker": replicas(3, f"{SSHD} -o StrictModes=no")}
        },
    }


@pytest.mark.slow("MPI starts its ranks by ssh")
@pytest.mark.usefixtures("operator")
def test_mpi_operator_runs_a_gang(client: ClusterClient) -> None:
    client.submit(mpi_job())

    def finished() -> bool:
        (workload,) = client.items("mpijobs.kubeflow.org")
        return condition("Succeeded")(workload)

    client.until(finished, 120)
    (launcher,) = client.items("pods", "--selector=training.kubeflow.org/job-role=launcher")
    assert client.kubectl("logs", launcher["metadata"]["name"]).count("sum 6") == 3
    (group,) = client.items("podgroups.scheduling.volcano.sh")
    assert group["spec"]["minMember"] == 4
