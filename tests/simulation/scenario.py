"""Scenarios: what a cluster has, what users submit, and what goes wrong when; all of it from one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.e2e.world import batch_job

Manifest = dict[str, Any]
PROCESSES = ("scheduler-a", "scheduler-b", "controller-a", "controller-b", "kubelet")
SERVICES = PROCESSES[:4]
QUIET = 60.0
"""Seconds after the start in which all jobs are submitted and all faults begin."""


@dataclass(frozen=True)
class Step:
    """Something that happens at a time: a fault, or an act of a user. ``what`` names the method of the run."""

    at: float
    what: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        shown = (item["metadata"]["name"] if isinstance(item, dict) else str(item) for item in self.arguments)
        return f"{self.at:7.3f} s  {self.what}({', '.join(shown)})"


@dataclass(frozen=True)
class Scenario:
    """A cluster and the steps of its life; the same seed gives the same scenario and, run, the same events."""

    seed: int
    nodes: tuple[tuple[str, int], ...]
    """Name and cpus."""
    queues: tuple[Manifest, ...]
    steps: tuple[Step, ...]
    delay: tuple[float, float] = (0.0002, 0.003)
    history: int = 10_000
    """Events of each kind that the API server remembers."""

    def without(self, left_out: Sequence[int]) -> Scenario:
        """Return the scenario without the steps of these numbers."""
        return replace(self, steps=tuple(step for number, step in enumerate(self.steps) if number not in left_out))


def scenario(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = Random(seed)
    nodes = tuple((f"node-{number}", rng.choice((2, 4, 8))) for number in range(rng.randint(2, 4)))
    queues = _queues(rng, sum(cpus for _, cpus in nodes))
    names = [queue["metadata"]["name"] for queue in queues] or ["default"]
    jobs = [_job(rng, f"job-{number}", rng.choice(names), nodes) for number in range(rng.randint(2, 6))]
    steps = [Step(round(rng.uniform(0, QUIET / 2), 3), "submit", (job,)) for job in jobs]
    steps += [_fault(rng, jobs, nodes, names) for _ in range(rng.randint(1, 8))]
    return Scenario(
        seed,
        nodes,
        queues,
        tuple(sorted(steps, key=lambda step: step.at)),
        delay=rng.choice(((0.0002, 0.003), (0.0002, 0.003), (0.001, 0.1), (0.01, 0.5))),
        history=rng.choice((10_000, 10_000, 100, 10)),
    )


def _queues(rng: Random, cpus: int) -> tuple[Manifest, ...]:
    queues = []
    for number in range(rng.randint(0, 2)):
        spec: Manifest = {"weight": rng.randint(1, 3)}
        if rng.random() < 0.4:
            # Every job of a scenario fits below it.
            spec["capability"] = {"cpu": str(rng.randint(max(2, cpus // 2), cpus))}
        queues.append(
            {
                "apiVersion": "scheduling.volcanopy.io/v1beta1",
                "kind": "Queue",
                "metadata": {"name": f"queue-{number}"},
                "spec": spec,
            }
        )
    return tuple(queues)


def _job(rng: Random, name: str, queue: str, nodes: Sequence[tuple[str, int]]) -> Manifest:
    """Return a job that fits on the empty cluster, within half of it."""
    cpu = rng.choice((1, 1, 2))
    places = sum(cpus // cpu for _, cpus in nodes)
    replicas = rng.randint(1, max(1, min(8, places // 2)))
    more: Manifest = {"queue": queue, "minAvailable": rng.choice((replicas, replicas, rng.randint(1, replicas)))}
    if rng.random() < 0.3:
        more |= {"exit_code": "1,0" if rng.random() < 0.5 else "1", "maxRetry": 2}
        event, action = rng.choice(
            (("PodFailed", "RestartJob"), ("PodFailed", "RestartTask"), ("PodFailed", "AbortJob"))
        )
        more["policies"] = [{"event": event, "action": action}]
    elif rng.random() < 0.5:
        more["policies"] = [{"event": "PodEvicted", "action": "RestartJob"}]
    if rng.random() < 0.3:
        more["plugins"] = {"env": [], "svc": []}
    duration = f"{rng.uniform(1, 30):.1f}s"
    return batch_job(name, replicas, str(cpu), duration=duration, start_delay=f"{rng.randint(10, 3000)}ms", **more)


def _fault(rng: Random, jobs: Sequence[Manifest], nodes: Sequence[tuple[str, int]], queues: Sequence[str]) -> Step:
    at = round(rng.uniform(0, QUIET), 3)
    seconds = round(rng.choice((rng.uniform(0.05, 3), rng.uniform(3, 30))), 3)
    node, job = rng.choice(nodes), rng.choice(jobs)["metadata"]["name"]
    choices: tuple[tuple[int, str, tuple[Any, ...]], ...] = (
        (5, "kill", (rng.choice(PROCESSES), round(rng.uniform(0, 5), 3))),
        (3, "kill_at_write", (rng.choice(SERVICES), rng.randint(1, 30), rng.choice(("before", "after")))),
        (3, "cut", (rng.choice(PROCESSES), seconds)),
        (2, "reset", (rng.choice(PROCESSES),)),
        (3, "reject", (seconds, rng.choice((409, 429, 500, 503)), round(rng.uniform(0.05, 0.9), 2))),
        (3, "lose_answers", (seconds, round(rng.uniform(0.05, 0.6), 2))),
        (1, "stop_server", (seconds,)),
        (1, "turn_clock", (rng.choice(SERVICES), rng.choice((-3600.0, -5.0, 5.0, 3600.0)))),
        (2, "fail_node", (node[0], seconds)),
        (1, "replace_node", (node, seconds)),
        (2, "delete_pod", (rng.randint(0, 30),)),
        (1, "delete_job", (job,)),
        (1, "command", (job, rng.choice(("AbortJob", "RestartJob")))),
        (1, "forget_history", ()),
        (1, "weigh_queue", (rng.choice(queues), rng.randint(1, 5))),
    )
    _, what, arguments = rng.choices(choices, [weight for weight, *_ in choices])[0]
    return Step(at, what, arguments)
