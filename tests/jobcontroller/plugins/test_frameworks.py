"""What pods receive is what the frameworks read."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobcontroller.plugins.cases import CASES, environment, named, objects, pods
from tests.jobcontroller.plugins.frameworks import (
    jax_initialize,
    openmpi_host,
    openmpi_hostfile,
    paddle_launch,
    ray_start,
    tensorflow_config,
    torch_env,
)
from tests.jobcontroller.world import Json, World, job, task
from volcanopy.api.batch import BatchJob, BatchJobStatus
from volcanopy.jobcontroller.plugins.registry import plugins_of
from volcanopy.jobcontroller.pods import maker


def hosts(manifest: Json) -> set[str]:
    """All addresses by which svc makes pods known."""
    data = objects(manifest)["ConfigMap/job-svc"]["data"]
    return {host for key, value in data.items() if key.endswith(".host") for host in value.splitlines()}


def own_address(pod: Json) -> str:
    return f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}"


@given(masters=st.integers(1, 4), workers=st.integers(0, 6))
def test_torch_meets_at_the_first_master_with_every_rank_once(masters: int, workers: int) -> None:
    manifest = job(named("master", masters), named("worker", workers), plugins={"pytorch": []})
    result = {name: torch_env(environment(pod)) for name, pod in pods(manifest).items()}
    assert sorted(item.rank for item in result.values()) == list(range(masters + workers))
    assert {(item.address, item.port, item.world_size) for item in result.values()} == {
        ("job-master-0.job", 23456, masters + workers)
    }
    assert result["job-master-0"].rank == 0
    assert "job-master-0.job" in hosts(manifest)


def test_torch_meets_at_a_master_whose_host_name_is_fixed() -> None:
    manifest = job(named("master", 1, hostname="lead", subdomain="net"), task("worker"), plugins={"pytorch": []})
    made = pods(manifest)
    assert torch_env(environment(made["job-worker-0"])).address == "lead.net" == own_address(made["job-master-0"])


def test_torch_rejects_a_pod_without_a_rank() -> None:
    """A pod that is neither master nor worker knows where they meet, and takes no part."""
    watcher = environment(pods(CASES["pytorch-arguments"])["job-watcher-0"])
    assert watcher["MASTER_ADDR"] == "job-first-0.job"
    with pytest.raises(ValueError, match="RANK expected, but not set"):
        torch_env(watcher)


def test_the_rank_that_a_user_gives_stays() -> None:
    manifest = job(named("master", 1), plugins={"pytorch": []})
    container = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "RANK", "value": "7"}]
    container["ports"] = [{"name": "mine", "containerPort": 23456}]
    (pod,) = pods(manifest).values()
    assert environment(pod)["RANK"] == "7"
    assert pod["spec"]["containers"][0]["ports"] == [{"name": "mine", "containerPort": 23456}]


def test_a_port_whose_name_is_taken_is_opened_without_it() -> None:
    manifest = job(named("master", 1), plugins={"pytorch": []})
    container = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["ports"] = [{"name": "pytorchjob-port", "containerPort": 80}]
    (pod,) = pods(manifest).values()
    assert pod["spec"]["containers"][0]["ports"][1] == {"containerPort": 23456, "protocol": "TCP"}


@given(workers=st.integers(1, 6), slots=st.integers(1, 8))
def test_mpirun_finds_every_worker_and_its_slots(workers: int, slots: int) -> None:
    manifest = job(task("master"), task("worker", workers), plugins={"mpi": [f"--slots={slots}"]})
    file = openmpi_hostfile(objects(manifest)["ConfigMap/job-mpi"]["data"]["hostfile"])
    names = {f"job-worker-{index}.job" for index in range(workers)}
    assert file == dict.fromkeys(names, slots)
    made = pods(manifest)
    assert openmpi_host(environment(made["job-master-0"])["MPI_HOST"]) == dict.fromkeys(names, 1)
    assert names <= hosts(manifest)
    assert {own_address(made[f"job-worker-{index}"]) for index in range(workers)} == names


def test_the_hosts_file_of_svc_is_a_hostfile_too() -> None:
    data = objects(CASES["mpi"])["ConfigMap/job-svc"]["data"]
    assert openmpi_hostfile(data["worker.host"]) == {"job-worker-0.job": 1, "job-worker-1.job": 1}


def test_the_hostfile_lies_where_the_master_looks_and_only_there() -> None:
    made = pods(CASES["mpi"])
    (mount,) = (
        volume_mount
        for volume_mount in made["job-master-0"]["spec"]["containers"][0]["volumeMounts"]
        if volume_mount["mountPath"] == "/etc/mpi"
    )
    (volume,) = (item for item in made["job-master-0"]["spec"]["volumes"] if item["name"] == mount["name"])
    assert volume["configMap"] == {"name": "job-mpi"}
    assert "job-mpi" not in json.dumps(made["job-worker-0"])


def test_the_hostfile_follows_when_the_job_is_scaled() -> None:
    world = World(job(task("master"), task("worker", 1), plugins={"mpi": []})).started()
    world.edit(tasks=[task("master"), task("worker", 3)]).settle()
    assert len(openmpi_hostfile(world.objects["ConfigMap/job-mpi"]["data"]["hostfile"])) == 3


def test_an_mpi_job_without_workers_runs_in_its_master() -> None:
    manifest = job(task("master"), plugins={"mpi": []})
    assert "MPI_HOST" not in environment(pods(manifest)["job-master-0"])
    assert "ConfigMap/job-mpi" not in objects(manifest)


def test_a_too_long_host_list_is_only_in_the_hostfile() -> None:
    workers = 8_000
    arguments = {"mpi": [], "svc": ["--inject-hosts-env=false"]}
    manifest = job(task("master"), task("worker", workers), plugins=arguments)
    read = BatchJob.read(manifest)
    assert "MPI_HOST" not in environment(maker(read, BatchJobStatus(), read.spec.tasks[0], plugins_of(read))(0))
    assert len(openmpi_hostfile(objects(manifest)["ConfigMap/job-mpi"]["data"]["hostfile"])) == workers


def test_ray_workers_join_the_head_at_its_own_port() -> None:
    made = pods(CASES["ray"])
    head = made["job-head-0"]["spec"]["containers"][0]
    started = ray_start(head["command"])
    assert (started["port"], started["dashboard-port"], started["ray-client-server-port"]) == ("6379", "8265", "10001")
    assert started["dashboard-host"] == "0.0.0.0"
    assert {port["containerPort"] for port in head["ports"]} == {6379, 8265, 10001}
    for index in (0, 1):
        joined = ray_start(made[f"job-worker-{index}"]["spec"]["containers"][0]["command"])
        assert joined["address"] == f"{own_address(made['job-head-0'])}:6379"
    assert "job-head-0.job" in hosts(CASES["ray"])


def test_the_ray_head_service_selects_only_the_head() -> None:
    manifest = job(named("head", 1, "head"), named("worker", 1, "worker"), plugins={"ray": []})
    container = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["ports"] = [{"name": "redis", "containerPort": 6379}]
    service = objects(manifest)["Service/job-head-svc"]["spec"]
    made = pods(manifest)
    fits = {name for name, pod in made.items() if service["selector"].items() <= pod["metadata"]["labels"].items()}
    assert fits == {"job-head-0"}
    open_ports = {port["containerPort"] for port in made["job-head-0"]["spec"]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in service["ports"]} == open_ports == {6379, 8265, 10001}


def test_every_argument_of_ray_is_used() -> None:
    made = pods(CASES["ray-arguments"])
    head = ray_start(made["job-boss-0"]["spec"]["containers"][0]["command"])
    assert (head["port"], head["dashboard-port"], head["ray-client-server-port"]) == ("6380", "8266", "10002")
    assert ray_start(made["job-hand-0"]["spec"]["containers"][0]["command"])["address"] == "job-boss-0.job:6380"
    assert "command" not in made["job-submit-0"]["spec"]["containers"][0]


@given(ps=st.integers(0, 3), workers=st.integers(1, 4), chief=st.booleans(), evaluator=st.booleans())
def test_tensorflow_accepts_the_cluster_and_finds_every_pod_in_it(
    ps: int, workers: int, chief: bool, evaluator: bool
) -> None:
    tasks = [named("ps", ps), named("worker", workers), named("chief", int(chief)), named("evaluator", int(evaluator))]
    manifest = job(*tasks, plugins={"tensorflow": []})
    seen = set()
    for pod in pods(manifest).values():
        cluster, kind, index = tensorflow_config(environment(pod)["TF_CONFIG"])
        assert cluster[kind][index] == f"{own_address(pod)}:2222"
        seen.add((kind, index))
    assert len(seen) == ps + workers + chief + evaluator


def test_the_composed_example_has_exactly_this_configuration() -> None:
    manifest = job(
        task("ps"), task("gpu-worker", 2), name="tf", plugins={"tensorflow": ["--worker=gpu-worker"], "svc": []}
    )
    assert environment(pods(manifest)["tf-gpu-worker-1"])["TF_CONFIG"] == (
        '{"cluster":{"ps":["tf-ps-0.tf:2222"],"worker":["tf-gpu-worker-0.tf:2222","tf-gpu-worker-1.tf:2222"]},'
        '"task":{"type":"worker","index":1}}'
    )


def test_a_single_pod_has_no_cluster_configuration() -> None:
    (pod,) = pods(job(task("anything"), plugins={"tensorflow": []})).values()
    assert "TF_CONFIG" not in environment(pod)


def test_jax_processes_are_numbered_and_the_first_is_the_coordinator() -> None:
    made = pods(CASES["jax"])
    reported = {name: jax_initialize(environment(pod)) for name, pod in made.items()}
    assert reported == {f"job-worker-{index}": ("job-worker-0.job:6666", 2, index) for index in (0, 1)}
    assert [bool(pod["spec"]["containers"][0].get("ports")) for pod in made.values()] == [True, False]


def test_the_paddle_master_is_the_first_node() -> None:
    made = pods(CASES["paddle"])
    assert paddle_launch(environment(made["job-worker-0"]), "10.0.0.1") == (True, 2, 0)
    assert paddle_launch(environment(made["job-worker-1"]), "10.0.0.2") == (False, 2, 1)
    assert environment(made["job-worker-1"])["PADDLE_MASTER"] == "job-worker-0.job:36767"
    entries = [entry["name"] for entry in made["job-worker-0"]["spec"]["containers"][0]["env"]]
    assert entries.index("POD_IP") < entries.index("PADDLE_MASTER"), "only what stands before it is put into a variable"


def rank(pod: Json) -> str | None:
    notes: dict[str, str] = pod["metadata"]["annotations"]
    return notes.get("hccl/rankIndex")


def test_ascend_ranks_count_masters_then_workers() -> None:
    made = pods(CASES["hcclrank"])
    assert {name: rank(pod) for name, pod in made.items()} == {
        "job-master-0": "0",
        "job-worker-0": "1",
        "job-worker-1": "2",
    }


def test_ascend_ranks_follow_pytorch_and_user_values() -> None:
    tasks = named("master", 1), named("more", 2), named("other", 1), named("said", 1)
    tasks[3]["template"]["metadata"] = {"annotations": {"hccl/rankIndex": "9"}}
    made = pods(job(*tasks, plugins={"hcclrank": [], "pytorch": ["--worker=more"]}))
    assert [rank(pod) for pod in made.values()] == ["0", "1", "2", None, "9"]


@pytest.mark.parametrize("name", CASES)
def test_a_variable_of_the_manifest_can_refer_to_those_of_the_plugins(name: str) -> None:
    manifest = copy.deepcopy(CASES[name])
    for entry in manifest["spec"]["tasks"]:
        for container in entry["template"]["spec"]["containers"]:
            container["env"] = [*(container.get("env") or ()), {"name": "RUN", "value": "run-$(VC_TASK_INDEX)"}]
    for pod in pods(manifest).values():
        assert [container["env"][-1]["name"] for container in pod["spec"]["containers"]] == ["RUN"]


def test_the_address_of_the_paddle_master_refers_to_a_variable_before_it() -> None:
    first = pods(job(task("worker", 2), plugins={"paddle": []}))["job-worker-0"]
    variables = [entry["name"] for entry in first["spec"]["containers"][0]["env"]]
    assert variables.index("POD_IP") < variables.index("PADDLE_MASTER")
