"""Job plugins on real nodes: names resolve, ssh connects, servers are reached, MPI and a ring of TCP connections compute."""

import pytest

from hack.realnode.images import JOBS_IMAGE
from tests.realnode.cluster_client import SSHD, ClusterClient, job, python, shell, task

REACH_ALL = """
env | grep -E '^VC_TASK_INDEX=0$' || exit 2
for attempt in $(seq 60); do
  reached=0
  for host in $(cat /etc/volcano/work.host); do ssh -o ConnectTimeout=2 $host hostname && reached=$((reached+1)); done
  [ $reached = 2 ] && echo all reached && exit 0
  sleep 1
done
exit 1
"""

ALL_REDUCE = """
cat > /tmp/sum.py <<'END'
from mpi4py import MPI
import socket
world = MPI.COMM_WORLD
print("rank", world.rank, "of", world.size, "on", socket.gethostname(), "sum", world.allreduce(world.rank + 1), flush=True)
END
for host in $(cat /etc/volcano/worker.host); do scp -q /tmp/sum.py $host:/tmp/sum.py; done
mpiexec --allow-run-as-root --mca btl tcp,self --hostfile /etc/mpi/hostfile -np 3 python3 /tmp/sum.py
"""

RING = """
import json, os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
server = socket.create_server(("0.0.0.0", 0))
own = [socket.gethostbyname(socket.gethostname()), server.getsockname()[1]]
if rank == 0:
    store, addresses, clients = socket.create_server(("0.0.0.0", port)), {"0": own}, []
    while len(addresses) < size:
        client, _ = store.accept()
        if line := client.makefile().readline():
            number, address = json.loads(line)
            addresses[str(number)] = address
            clients.append(client)
    for client in clients:
        client.sendall((json.dumps(addresses) + "\\n").encode())
else:
    client = socket.create_connection((master, port), 5)
    client.sendall((json.dumps([rank, own]) + "\\n").encode())
    addresses = json.loads(client.makefile().readline())
right = socket.create_connection(tuple(addresses[str((rank + 1) % size)]))
left = server.accept()[0].makefile()
total = token = rank
for _ in range(size - 1):
    right.sendall(f"{token}\\n".encode())
    token = int(left.readline())
    total += token
print(f"rank {rank} of {size}: sum {total}")
"""

MEETING_POINTS = {
    "tensorflow": """
config = json.loads(os.environ["TF_CONFIG"])
servers = [address for members in config["cluster"].values() for address in members]
own, size = config["cluster"][config["task"]["type"]][config["task"]["index"]], len(servers)
""",
    "jax": """
servers, size = [os.environ["JAX_COORDINATOR_ADDRESS"]], int(os.environ["JAX_NUM_PROCESSES"])
own = servers[0] if os.environ["JAX_PROCESS_ID"] == "0" else ""
""",
    "paddle": """
servers, size = [os.environ["PADDLE_MASTER"]], int(os.environ["PADDLE_NNODES"])
own = servers[0] if os.environ["PADDLE_RANK"] == "0" else ""
""",
}
"""By plugin: the addresses that it gives, the one that the pod serves, and how many pods connect to it."""

MEET = """
server = own and socket.create_server(("0.0.0.0", int(own.rpartition(":")[2])))
connections = []
for host, _, port in (address.rpartition(":") for address in servers):
    for _ in range(120):
        try:
            connections.append(socket.create_connection((host, port), 2))
            break
        except OSError:
            time.sleep(0.5)
    else:
        raise SystemExit(f"{host}:{port} does not answer")
for _ in range(size if own else 0):
    connections.append(server.accept()[0])
print("met", len(servers), "of", size)
"""


@pytest.mark.slow("pods start and connect by ssh")
def test_env_svc_and_ssh_connect_the_pods_of_a_gang(client: ClusterClient) -> None:
    lead = task("lead", 1, shell(REACH_ALL, JOBS_IMAGE))
    work = task("work", 2, shell(SSHD, JOBS_IMAGE))
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    client.submit(job("gang", lead, work, plugins={"env": [], "svc": [], "ssh": []}, policies=policies))
    client.ends("gang", "Completed")
    assert "all reached" in client.kubectl("logs", "gang-lead-0")


@pytest.mark.slow("MPI starts its ranks by ssh")
def test_mpi_runs_over_ssh(client: ClusterClient) -> None:
    completed = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    restarted = {"restartPolicy": "OnFailure"}
    master = task(
        "master", 1, shell(ALL_REDUCE, JOBS_IMAGE), pod=restarted, policies=completed, dependsOn={"name": ["worker"]}
    )
    ready = {"tcpSocket": {"port": 22}, "periodSeconds": 2}
    worker = task("worker", 3, shell(SSHD, JOBS_IMAGE, readinessProbe=ready), pod=restarted)
    client.submit(job("mpi", master, worker, plugins={"mpi": ["--slots=1"]}))
    client.ends("mpi", "Completed", 120)
    text = client.kubectl("logs", "mpi-master-0")
    assert all(f"rank {rank} of 3" in text for rank in range(3))
    assert text.count("sum 6") == 3


@pytest.mark.slow("workers wait for the master")
def test_pytorch_gives_rank_and_meeting_point(client: ClusterClient) -> None:
    tasks = task("master", 1, python(RING)), task("worker", 3, python(RING))
    client.submit(job("ring", *tasks, plugins={"pytorch": ["--wait-master-enabled"]}))
    client.ends("ring", "Completed", 120)
    texts = [client.kubectl("logs", pod["metadata"]["name"]) for pod in client.pods("ring")]
    assert sorted(text.strip().splitlines()[-1] for text in texts) == [f"rank {rank} of 4: sum 6" for rank in range(4)]


@pytest.mark.slow("pods wait for the servers of the others")
@pytest.mark.parametrize("plugin", MEETING_POINTS)
def test_the_addresses_of_a_framework_are_reached(client: ClusterClient, plugin: str) -> None:
    main = python(f"import json, os, socket, time\n{MEETING_POINTS[plugin]}{MEET}")
    servers = [task("ps", 1, main)] if plugin == "tensorflow" else []
    client.submit(job("meeting", *servers, task("worker", 2, main), plugins={plugin: []}))
    client.ends("meeting", "Completed", 120)
    texts = [client.kubectl("logs", pod["metadata"]["name"]).strip() for pod in client.pods("meeting")]
    assert texts == (["met 3 of 3"] * 3 if plugin == "tensorflow" else ["met 1 of 2"] * 2)


def test_svc_creates_a_policy_that_admits_only_the_pods_of_the_job(client: ClusterClient) -> None:
    client.submit(job("closed", task("t", 2, shell("sleep 5")), plugins={"svc": []}))
    client.until(lambda: len(client.running("closed")) == 2)
    (policy,) = client.items("networkpolicies")
    assert policy["metadata"]["ownerReferences"][0]["name"] == "closed"
    selector = policy["spec"]["podSelector"]
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": selector}]}]
    labels = ",".join(f"{key}={value}" for key, value in selector["matchLabels"].items())
    assert len(client.items("pods", f"--selector={labels}")) == 2
    client.ends("closed", "Completed")
    client.kubectl("delete", "batchjobs.batch.volcanopy.io", "closed", "--wait=true")
    client.until(lambda: client.items("networkpolicies") == [])
