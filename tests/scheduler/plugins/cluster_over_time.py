"""Simulation of a small cluster over time: pods end after their runtime, others arrive, one scheduling cycle per minute."""

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy_testing.notation import START, world

MINUTE = timedelta(minutes=1)


class ClusterOverTime:
    """A world that starts at minute 0. The runtime of the pods of a job, in minutes, is given when the job is added."""

    def __init__(self, text: str, config: SchedulerConfig) -> None:
        self.config = config
        self.minute = 0
        self.pods: dict[str, core.Pod] = {}
        self.groups: dict[str, core.PodGroup] = {}
        self.rest: list[object] = []
        self.started: dict[str, int] = {}
        """The minute in which each pod began to run."""
        self.runs: dict[str, int] = {}
        """How many minutes each pod runs."""
        self._add(text, 10_000)

    @property
    def now(self) -> datetime:
        return START + self.minute * MINUTE

    def come(self, text: str, minutes: int = 10_000) -> None:
        """Add jobs whose pods run for a number of minutes."""
        self._add(text, minutes)

    def _add(self, text: str, minutes: int) -> None:
        for made in world(text):
            changed = replace(made, metadata=replace(made.metadata, creation_timestamp=self.now))
            if isinstance(changed, core.Pod):
                self.runs[changed.metadata.key] = minutes
                runs = bool(changed.spec.node_name)
                status = replace(changed.status, start_time=self.now if runs else None)
                self.pods[changed.metadata.key] = replace(changed, status=status)
                if runs:
                    self.started[changed.metadata.key] = self.minute
            elif isinstance(changed, core.PodGroup):
                self.groups[changed.metadata.key] = changed
            else:
                self.rest.append(changed)

    def cycle(self) -> Plan:
        """End pods whose runtime is over, make a plan with a new scheduler, and apply it."""
        for key, start in list(self.started.items()):
            if key in self.pods and self.minute >= start + self.runs[key]:
                del self.pods[key]
        for key in [key for key in self.groups if not any(_of(pod, key) for pod in self.pods.values())]:
            del self.groups[key]
        state = State()
        for obj in (*self.rest, *self.groups.values(), *self.pods.values()):
            state.upsert(obj)  # type: ignore[arg-type]
        snapshot = state.snapshot(self.now, f"minute-{self.minute}")
        plan = schedule(snapshot, self.config)
        assert violations(snapshot, plan) == []
        for effect in plan.effects:
            self._apply(effect)
        self.minute += 1
        return plan

    def until(self, pod: str, most: int, each_minute: Callable[[], None] = lambda: None) -> int | None:
        """Return the minute in which a pod starts; None if it does not within ``most`` minutes."""
        for _ in range(most):
            each_minute()
            self.cycle()
            if f"default/{pod}" in self.started:
                return self.started[f"default/{pod}"]
        return None

    def runs_on(self, pod: str) -> str:
        """Return the node of a pod; empty if it has none or has ended."""
        result = self.pods.get(f"default/{pod}")
        return "" if result is None else result.spec.node_name

    def _apply(self, effect: object) -> None:
        match effect:
            case Bind(key, node):
                pod = self.pods[key]
                status = replace(pod.status, phase="Running", start_time=self.now, nominated_node_name="")
                self.pods[key] = replace(pod, spec=replace(pod.spec, node_name=node), status=status)
                self.started[key] = self.minute
            case Evict(key):
                del self.pods[key]
            case Nominate(key, node):
                pod = self.pods[key]
                self.pods[key] = replace(pod, status=replace(pod.status, nominated_node_name=node))
            case SetPodGroup(name, phase):
                self.groups[name] = replace(self.groups[name], status=replace(self.groups[name].status, phase=phase))


def _of(pod: core.Pod, group: str) -> bool:
    return f"{pod.metadata.namespace}/{pod.metadata.annotations.get('scheduling.k8s.io/group-name', '')}" == group
