"""What plugins that read measures change: pods that use other amounts than they request arrive in batches and stay.

``python -m bench.measured_placement`` prints a row for each plugin. 30 nodes of 16 cores of two kinds get 600 pods in 30 batches. A pod
uses between 5 and 100 percent of its request, varies, belongs to a class that disturbs others, and reads one of ten data sets, of which
each node caches three. After each batch the load of the nodes is measured.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from random import Random

import msgspec
import numpy as np

from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.measures import Measured, Reading
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.policy.config import parse
from volcanopy_testing.notation import NOW, all_policies, world

NODES, CORES, BATCHES, BATCH, SETS = 30, 16, 30, 20, 10
SLOWDOWN = {"cache": {"cache": 10, "stream": 30}, "stream": {"cache": 5, "stream": 20}}
POWER = {"old": {"idle": 120.0, "k1": 30.0, "k2": 0.02}, "new": {"idle": 80.0, "k1": 25.0, "k2": 0.017}}
HOT = {"dontschedule": [{"measure": "cpu", "operator": "GreaterThan", "target": 40}]}
PLUGINS: Mapping[str, Mapping[str, object]] = {
    "nodeorder": {},
    "binpack": {},
    "usage": {},
    "targetload": {"ratio": 0.5},
    "loadvariation": {"ratio": 0.5},
    "telemetry": {"policies": {"hot": HOT}, "default": "hot"},
    "energy": {"models": POWER, "label": "kind", "ratio": 0.5},
    "datalocality": {},
    "interference": {"slowdown": SLOWDOWN},
}


@dataclass
class Placed:
    """A pod that runs: its node, the cores that it uses and their deviation, its class and whether its data is there."""

    node: int
    used: float
    deviation: float
    kind: str
    local: bool


def run(plugin: str, seed: int) -> dict[str, float]:
    """Place all pods with one plugin beside gang and predicates; return what came of it."""
    rng = Random(seed)
    cached = [frozenset(rng.sample(range(SETS), 3)) for _ in range(NODES)]
    state = State()
    for node in range(NODES):
        notes = " ".join(f"note.{names.MEASURE_PREFIX}cached.d{number}=1" for number in sorted(cached[node]))
        kind = "old" if node % 2 else "new"
        for item in world(f"node n{node:02} cpu={CORES} memory=64Gi pods=500 label.kind={kind} {notes}"):
            state.upsert(item)
    entries = [{"name": "gang"}, {"name": "predicates"}, {"name": plugin, "arguments": dict(PLUGINS[plugin])}]
    config = parse(json.dumps({"actions": "allocate", "tiers": [{"plugins": entries}]}), all_policies())
    placed: list[Placed] = []
    for batch in range(BATCHES):
        now = NOW + timedelta(minutes=2 * batch)
        state.set_measures(_measured(placed, now.timestamp()))
        drawn = {}
        for number in range(BATCH):
            cpu, part, data = rng.choice([250, 500, 1000]), rng.uniform(0.05, 1.0), rng.randrange(SETS)
            kind = rng.choice(["cache", "stream"])
            drawn[f"j{batch}x{number}"] = (cpu * part / 1000, rng.uniform(0, 0.8) * cpu * part / 1000, kind, data)
            tokens = f"label.volcanopy.io/workload-class={kind} note.{names.DATASETS}=d{data}=10Gi"
            for item in world(f"job j{batch}x{number}: 1 x cpu={cpu}m {tokens}"):
                state.upsert(item)
        for bind in schedule(state.snapshot(now, f"s{batch}"), config).of(Bind):
            used, deviation, kind, data = drawn[bind.pod.split("/")[1].rsplit("-", 1)[0]]
            node = int(bind.node[1:])
            placed.append(Placed(node, used, deviation, kind, data in cached[node]))
            pod = state.tasks.plain["pods"][state.tasks.rows[bind.pod]]
            status = msgspec.structs.replace(pod.status, phase="Running", start_time=now)
            spec = msgspec.structs.replace(pod.spec, node_name=bind.node)
            running: core.Pod = msgspec.structs.replace(pod, spec=spec, status=status)
            state.upsert(running)
    return _outcome(placed)


def _loads(placed: list[Placed]) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the deviation of the load of each node, in percent."""
    nodes = np.array([pod.node for pod in placed], dtype=np.intp)
    mean = np.bincount(nodes, weights=[pod.used for pod in placed], minlength=NODES)
    variance = np.bincount(nodes, weights=[pod.deviation**2 for pod in placed], minlength=NODES)
    return 100 * mean / CORES, 100 * np.sqrt(variance) / CORES


def _measured(placed: list[Placed], at: float) -> Measured:
    mean, deviation = _loads(placed)
    cpu = {f"n{node:02}": Reading(float(mean[node]), at, float(deviation[node])) for node in range(NODES)}
    return Measured({"cpu": cpu, "memory": {name: Reading(0.0, at, 0.0) for name in cpu}})


def _outcome(placed: list[Placed]) -> dict[str, float]:
    mean, deviation = _loads(placed)
    full = mean + 2 * deviation
    watts = 0.0
    counts = {kind: np.bincount([pod.node for pod in placed if pod.kind == kind], minlength=NODES) for kind in SLOWDOWN}
    for node in np.flatnonzero(counts["cache"] + counts["stream"]).tolist():
        model = POWER["old" if node % 2 else "new"]
        watts += model["idle"] + model["k1"] * float(np.exp(model["k2"] * mean[node]))
    slow = [
        sum(percent * (counts[other][pod.node] - (other == pod.kind)) for other, percent in SLOWDOWN[pod.kind].items())
        for pod in placed
    ]
    return {
        "pods": len(placed),
        "nodes used": int((mean > 0).sum()),
        "largest load %": float(mean.max()),
        "largest load + 2 deviations %": float(full.max()),
        "kW": watts / 1000,
        "data local %": 100 * sum(pod.local for pod in placed) / len(placed),
        "slowdown %": float(np.mean(slow)),
    }


def main() -> int:
    """Print the table, means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    for plugin in PLUGINS:
        runs = [run(plugin, seed) for seed in range(arguments.seeds)]
        row = {name: sum(each[name] for each in runs) / len(runs) for name in runs[0]}
        if plugin == next(iter(PLUGINS)):
            print("| plugin | " + " | ".join(row) + " |\n|---" * 1 + "|---" * len(row) + "|")
        print(f"| `{plugin}` | " + " | ".join(f"{value:.4g}" for value in row.values()) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
