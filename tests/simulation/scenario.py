"""Scenarios: what a cluster has, what users submit, and what goes wrong when; all of it from one number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.e2e.world import batch_job
from tests.simulation.admission import FailurePolicy

Manifest = dict[str, Any]
ALONE = ("scheduler-a", "controller-a")
PAIRS = ("scheduler-a", "scheduler-b", "controller-a", "controller-b")
PROCESSES = (*PAIRS, "kubelet", "admission")
QUIET = 15.0
"""Seconds after the start in which all jobs are submitted and all faults begin."""


@dataclass(frozen=True)
class Step:
    """Something that happens at a time: a fault, or an act of a user. ``what`` names the method of the steps."""

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
    webhooks: FailurePolicy = ""
    services: tuple[str, ...] = PAIRS

    def without(self, left_out: Sequence[int]) -> Scenario:
        """Return the scenario without the steps of these numbers."""
        return replace(self, steps=tuple(step for number, step in enumerate(self.steps) if number not in left_out))


def scenario(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = Random(seed)
    nodes = tuple((f"node-{number}", rng.choice((2, 4))) for number in range(rng.randint(2, 3)))
    queues = _queues(rng, sum(cpus for _, cpus in nodes))
    names = [queue["metadata"]["name"] for queue in queues] or ["default"]
    webhooks: FailurePolicy = rng.choice(("", "", "", "", "Fail", "Fail", "Ignore"))
    jobs = [_job(rng, f"job-{number}", rng.choice(names), nodes) for number in range(rng.choice((1, 1, 2, 2, 3)))]
    steps = [Step(round(rng.uniform(0, QUIET / 2), 3), "submit", (job,)) for job in jobs]
    services = rng.choice((ALONE, PAIRS))
    # The first kind of fault goes by the number of the seed, so that few seeds contain all.
    for turn in (seed, *(None for _ in range(rng.randint(1, 4)))):
        choices = _faults(rng, jobs, nodes, names, webhooks, services)
        weights = [weight for weight, *_ in choices]
        _, what, arguments = choices[turn % len(choices)] if turn is not None else rng.choices(choices, weights)[0]
        steps.append(Step(round(rng.uniform(0, QUIET), 3), what, arguments))
    return Scenario(
        seed,
        nodes,
        queues,
        tuple(sorted(steps, key=lambda step: step.at)),
        delay=rng.choice(((0.0002, 0.003), (0.0002, 0.003), (0.001, 0.1), (0.01, 0.5))),
        history=rng.choice((10_000, 10_000, 100, 10)),
        webhooks=webhooks,
        services=services,
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
    replicas = rng.randint(1, max(1, min(3, places // 2)))
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
    duration = f"{rng.choice((rng.uniform(0.5, 3), rng.uniform(3, 15))):.1f}s"
    return batch_job(name, replicas, str(cpu), duration=duration, start_delay=f"{rng.randint(10, 1500)}ms", **more)


def _faults(
    rng: Random,
    jobs: Sequence[Manifest],
    nodes: Sequence[tuple[str, int]],
    queues: Sequence[str],
    webhooks: FailurePolicy,
    services: Sequence[str],
) -> list[tuple[int, str, tuple[Any, ...]]]:
    """Return one fault of each kind, with its weight."""
    seconds = round(rng.choice((rng.uniform(0.05, 3), rng.uniform(3, 15))), 3)
    node, number = rng.choice(nodes), rng.randint(0, 30)
    chosen = rng.choice(jobs)
    job, replicas = chosen["metadata"]["name"], chosen["spec"]["tasks"][0]["replicas"]
    processes = (*services, "kubelet", *(("admission", "admission") if webhooks else ()))
    choices: list[tuple[int, str, tuple[Any, ...]]] = [
        (5, "kill", (rng.choice(processes), round(rng.uniform(0, 5), 3))),
        (3, "kill_at_write", (rng.choice((*services, "kubelet")), rng.randint(1, 20), rng.choice(("before", "after")))),
        (3, "cut", (rng.choice(processes), seconds)),
        (3, "pause", (rng.choice(processes), seconds)),
        (2, "reset", (rng.choice((*processes, "server")),)),
        (3, "reject", (seconds, rng.choice((409, 429, 500, 503)), round(rng.uniform(0.05, 0.9), 2))),
        (3, "lose_answers", (seconds, round(rng.uniform(0.05, 0.6), 2))),
        (2, "lag_watches", (rng.choice(processes), seconds)),
        (2, "repeat_events", (rng.randint(1, 30), seconds)),
        (2, "halve_lists", (seconds, round(rng.uniform(0.1, 0.7), 2))),
        (1, "stop_server", (seconds,)),
        (2, "turn_clock", (rng.choice(services), rng.choice((-3600.0, -5.0, 5.0, 3600.0)))),
        (2, "fail_node", (node[0], seconds)),
        (1, "replace_node", (node, seconds)),
        (2, "delete_pod", (number,)),
        (1, "delete_group", (number,)),
        (1, "delete_job", (job,)),
        (1, "scale", (job, rng.randint(1, replicas + 1))),
        (2, "command", (job, rng.choice(("AbortJob", "RestartJob")))),
        (1, "close_queue", (rng.choice(queues), seconds)),
        (1, "label", (rng.choice(("pods", "batchjobs", "podgroups")), number)),
        (1, "hold_pod", (number, seconds)),
        (1, "forget_history", ()),
        (1, "weigh_queue", (rng.choice(queues), rng.randint(1, 5))),
    ]
    if webhooks:
        invalid = batch_job("refused", 2, "1", queue="no-such-queue")
        choices += [
            (8, "slow_reviews", (seconds, rng.choice((0.5, 5.0, 12.0)))),
            (8, "fail_reviews", (seconds, round(rng.uniform(0.2, 1.0), 2))),
            (8, "submit_invalid", (invalid, seconds)) if webhooks == "Fail" else (0, "fail_reviews", (seconds, 1.0)),
        ]
    return choices


def coverage(seeds: Iterable[int]) -> set[tuple[str, str]]:
    """Return the kinds of faults and acts in these seeds, each with the process that it concerns, or nothing."""
    return {
        (step.what, next((argument for argument in step.arguments if argument in PROCESSES), ""))
        for seed in seeds
        for step in scenario(seed).steps
    }
