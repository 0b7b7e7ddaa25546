"""What frameworks make of the environment of a pod, by their documented rules: too large to install, small to write down.

Each function takes what a container sees and gives what the framework would go on with, or raises as it would.
"""

import json
import shlex
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rendezvous:
    """Where torch's processes meet, and which of them this is. Rank 0 opens the store that the others connect to."""

    address: str
    port: int
    rank: int
    world_size: int


def torch_env(environment: dict[str, str]) -> Rendezvous:
    """``init_process_group(init_method="env://")``: all four variables are needed, an empty one counts as missing."""
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        if not environment.get(name):
            raise ValueError(f"env:// rendezvous: environment variable {name} expected, but not set")
    rank, size, port = (int(environment[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    if not 0 <= port < 2**16:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}")
    if not 0 <= rank < size:
        raise ValueError(f"rank {rank} is none of {size}")
    return Rendezvous(environment["MASTER_ADDR"], port, rank, size)


def openmpi_hostfile(text: str) -> dict[str, int]:
    """Hosts and their slots: a line for each, ``#`` begins a comment, ``slots=n`` and ``max_slots=n`` may follow."""
    result: dict[str, int] = {}
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        host, *said = words
        options = dict(word.split("=", 1) for word in said)
        if unknown := set(options) - {"slots", "max_slots", "max-slots"}:
            raise ValueError(f"unknown option {min(unknown)}")
        result[host] = result.get(host, 0) + int(options.get("slots", 1))
    return result


def openmpi_host(text: str) -> dict[str, int]:
    """Hosts and their slots, as ``mpirun --host`` takes them: by comma, each with one slot without ``:n``."""
    result: dict[str, int] = {}
    for word in text.split(","):
        host, _, slots = word.partition(":")
        if not host:
            raise ValueError("a host has no name")
        result[host] = result.get(host, 0) + int(slots or 1)
    return result


TF_TYPES = {"chief", "worker", "ps", "evaluator"}


def tensorflow_config(text: str) -> tuple[dict[str, list[str]], str, int]:
    """The cluster and the place in it, checked as ``tf.distribute`` checks them for training on several machines."""
    config: dict[str, Any] = json.loads(text)
    cluster, kind, index = config["cluster"], config["task"]["type"], config["task"]["index"]
    if unknown := set(cluster) - TF_TYPES:
        raise ValueError(f"disallowed task type {min(unknown)} in the cluster")
    if kind not in TF_TYPES:
        raise ValueError(f"unrecognized task type {kind}")
    for single in ("chief", "evaluator"):
        if len(cluster.get(single, ())) > 1:
            raise ValueError(f"there must be at most one {single}")
    if kind != "evaluator" and not 0 <= index < len(cluster[kind]):
        raise ValueError(f"there is no {kind} {index}")
    return cluster, kind, index


def ray_start(command: list[str]) -> dict[str, str]:
    """The options of ``ray start`` that a container's command gives, those without a value as ``true``."""
    shell, flag, script = command
    assert (shell, flag) == ("sh", "-c")
    ray, start, *words = shlex.split(script)
    assert (ray, start) == ("ray", "start")
    options = {key: value or "true" for key, _, value in (word.removeprefix("--").partition("=") for word in words)}
    known = {"head", "block", "address", "port", "dashboard-host", "dashboard-port", "ray-client-server-port"}
    if unknown := set(options) - known:
        raise ValueError(f"no such option: --{min(unknown)}")
    if ("head" in options) == ("address" in options):
        raise ValueError("either --head or --address")
    return options


def jax_initialize(environment: dict[str, str]) -> tuple[str, int, int]:
    """Coordinator, number of processes, and which this is; the first serves at the coordinator's address."""
    address = environment["JAX_COORDINATOR_ADDRESS"]
    count, process = int(environment["JAX_NUM_PROCESSES"]), int(environment["JAX_PROCESS_ID"])
    if not 0 <= process < count:
        raise ValueError("process ids are a dense range from 0")
    int(address.rpartition(":")[2])
    return address, count, process


def paddle_launch(environment: dict[str, str], own_ip: str) -> tuple[bool, int, int]:
    """Whether the launcher serves as the master here, the number of nodes, and the rank of this one."""
    master = environment["PADDLE_MASTER"].replace("$(POD_IP)", own_ip)
    host, port = master.split(":")
    int(port)
    return host in {"127.0.0.1", own_ip}, int(environment["PADDLE_NNODES"]), int(environment["PADDLE_RANK"])
