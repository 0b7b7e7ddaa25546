"""The what-if engine: controllers and scheduler run on a cluster until nothing changes, within a budget.

1. The job controller reconciles what changed, and flows create the jobs whose dependencies have completed.
2. The scheduler makes a plan, which is applied.
3. When neither changes anything, evicted pods end, and 1 follows.
4. With virtual time, the running pods that end first do so when nothing else changes, and 1 follows.
"""

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS
from volcanopy.jobcontroller.plugins.registry import Registry as JobRegistry
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Nominate, Plan
from volcanopy.scheduler.model.run_times import Basis, RunTime, run_time
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.controllers import JobControllers, end_pod, is_replaced
from volcanopy.whatif.flows import create_jobs
from volcanopy.whatif.kinds import phase_of
from volcanopy.whatif.simulation import Simulation

_STARTING = frozenset({"", "Pending", "Restarting"})
"""The phases of jobs that the job controller handles before anything else."""
_ROUNDS = 16
"""The most cycles of a run without virtual time: a scheduler that is not stable by then moves pods for ever."""


_TOGETHER = 16
"""The time until an end is at least so many times as long as the interval in which ends are taken together."""


class BudgetEndedError(Exception):
    """The budget of a question has ended."""


@dataclass
class Budget:
    """Work that a question may cost: scheduling cycles, and whatever ``expired`` measures (such as time)."""

    cycles: int
    expired: Callable[[], bool] = lambda: False
    used: int = 0

    def spend(self) -> None:
        """Count a cycle. Raises BudgetEndedError."""
        if self.used >= self.cycles or self.expired():
            raise BudgetEndedError
        self.used += 1

    @contextmanager
    def part(self, parts: int) -> Iterator["Budget"]:
        """Yield the first of so many equal parts of what remains; what is not used of it remains."""
        part = Budget((self.cycles - self.used) // parts, self.expired)
        yield part
        self.used += part.used


_CYCLE_SECONDS, _SECONDS_OF_A_NODE, _SECONDS_OF_A_POD = 6e-3, 4e-6, 2e-7
"""What a cycle takes, and more for each node and pod, on a machine with nothing else to do."""


def cycles_of(cluster: Cluster, seconds: float) -> int:
    """Return how many cycles of a cluster are work of about so many seconds: the same number on every machine."""
    nodes, pods = (len(cluster.keys.get(kind, ())) for kind in ("Node", "Pod"))
    return int(seconds / (_CYCLE_SECONDS + _SECONDS_OF_A_NODE * nodes + _SECONDS_OF_A_POD * pods))


@dataclass
class Run:
    """Result of a run: plans in order, the last explanation of each job, evictions by the job they were for.

    ``started`` has the time at which each gang that was watched started. ``troubles`` has the reason of
    each job whose pods the API server rejects.
    """

    plans: list[Plan] = field(default_factory=list)
    explanations: dict[str, Explain] = field(default_factory=dict)
    evictions: dict[str, list[str]] = field(default_factory=dict)
    started: dict[str, datetime] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ended: dict[str, datetime] = field(default_factory=dict)
    """With virtual time: when each running job ended."""
    bases: list[tuple[datetime, Basis]] = field(default_factory=list)
    """With virtual time: what the ends of pods followed from, by their times."""
    end: datetime | None = None
    """The time at which the run ended."""


@dataclass
class Engine:
    """A cluster with its configuration. ``previous`` is the time of the cycle before, if it is known."""

    cluster: Cluster
    config: SchedulerConfig
    now: datetime
    registry: Registry | None = None
    job_registry: JobRegistry = field(default_factory=lambda: JOB_PLUGINS)
    previous: datetime | None = None
    troubles: dict[str, str] = field(default_factory=dict)

    def settle(self) -> None:
        """Let the job controller handle what the manifests contain; later trials start from there."""
        cluster = self.cluster
        cluster.changed_jobs |= {
            key for key, body in cluster.of_kind("BatchJob").items() if phase_of(body) in _STARTING
        }
        controllers = JobControllers(cluster, self.now, self.job_registry)
        _control(controllers)
        self.troubles = controllers.troubles
        cluster.commit()

    def run(
        self,
        budget: Budget,
        watched: frozenset[str],
        goal: str = "",
        *,
        config: SchedulerConfig | None = None,
        until: datetime | None = None,
    ) -> Run:
        """Run until nothing changes, or the gang ``goal`` has started; with ``until``, virtual time passes up to it."""
        return _Running(self, budget, watched, goal, config or self.config, until).run()


class _Running:
    """One run."""

    def __init__(
        self,
        engine: Engine,
        budget: Budget,
        watched: frozenset[str],
        goal: str,
        config: SchedulerConfig,
        until: datetime | None,
    ) -> None:
        cluster, self.engine, self.budget, self.until = engine.cluster, engine, budget, until
        self.watched, self.goal, self.now = set(watched), goal, engine.now
        self.controllers = JobControllers(cluster, engine.now, engine.job_registry, engine.troubles)
        self.simulation = Simulation(
            cluster,
            config,
            engine.now,
            replaced=lambda pod: is_replaced(cluster, pod),
            graceful=True,
            registry=engine.registry,
        )
        self.result = Run()
        self.ends = _Ends(cluster, engine.now)

    def run(self) -> Run:
        """Run, and return the result."""
        self.engine.cluster.state.forget_cycles()
        if self.engine.previous is not None:
            self.engine.cluster.snapshot(self.engine.previous, "before")
        rounds = 0
        _control(self.controllers)
        while rounds < _ROUNDS and not self._check():
            self.budget.spend()
            rounds += 1
            self.simulation.session = f"whatif-{len(self.result.plans)}"
            moved = self._cycle()
            moved |= _control(self.controllers)
            if moved or self._check():
                continue
            if self.simulation.has_terminating_pods():
                self.simulation.end_terminating()
                _control(self.controllers)
                continue
            if self.until is None or not self._pass_time():
                break
            rounds = 0
        self.result.troubles, self.result.end = self.controllers.troubles, self.now
        return self.result

    def _check(self) -> bool:
        """Note the gangs that have started; return whether the goal is among them."""
        cluster, started = self.engine.cluster, self.result.started
        for group in sorted(self.watched):
            if cluster.is_started(group):
                started[group] = self.now
                self.watched.discard(group)
                nodes = sorted({pod.spec.node_name for pod in cluster.pods_of_group(group)} - {""})
                self.result.nodes[group] = tuple(nodes)
        return self.goal in started

    def _cycle(self) -> bool:
        """Make a cycle; return whether it moved a pod or changed the phase of a group."""
        before = self.simulation.phase_changes
        plan = self.simulation.cycle()
        self._run_gangs(plan)
        result = self.result
        result.plans.append(plan)
        explained = {effect.job: effect for effect in plan.of(Explain)}
        result.explanations |= explained
        for effect in plan.of(Evict):
            result.evictions.setdefault(effect.preemptor, []).append(effect.pod)
        return bool(plan.of(Bind, Evict, Nominate)) or self.simulation.phase_changes > before

    def _run_gangs(self, plan: Plan) -> None:
        """Write the phase of the gangs that a plan starts: the next cycle would, and another one would follow for that alone."""
        cluster = self.engine.cluster
        pods = filter(None, map(cluster.pod, (effect.pod for effect in plan.of(Bind))))
        for key in sorted({pod_fields.job_key(pod) for pod in pods}):
            group = cluster.group(key)
            if group is not None and group.status.phase == "Inqueue" and cluster.is_started(key):
                cluster.put(replace(group, status=replace(group.status, phase="Running")))

    def _pass_time(self) -> bool:
        """Let the running pods that end first end; return whether there are any before the last time.

        Ends in one interval are taken together: the error stays small, and the number of steps grows with the
        logarithm of the time only.
        """
        self.ends.follow()
        first = self.ends.first()
        if self.until is None or first is None or max(first, self.now) > self.until:
            return False
        ended = self.ends.pop(_end_of_interval(first, self.engine.now))
        self.now = self.simulation.now = self.controllers.now = max(self.now, *(end for end, _, _ in ended))
        cluster = self.engine.cluster
        for _, basis, pod in ended:
            end_pod(cluster, pod)
            self.result.ended[pod_fields.job_key(pod)] = self.now
            self.result.bases.append((self.now, basis))
        _control(self.controllers)
        return True


def _control(controllers: JobControllers) -> bool:
    """Reconcile jobs, and the flows whose jobs changed; return whether anything changed."""
    is_changed = controllers.step()
    if is_changed and create_jobs(controllers.cluster, controllers.now):
        controllers.step()
    return is_changed


def _end_of_interval(first: datetime, begin: datetime) -> datetime:
    """Return the end of the interval of an end; intervals are powers of two in seconds.

    They begin at fixed times of day, not at ``begin``: those of a later question divide those of an earlier one, so
    that an end is not taken later because time has passed.
    """
    rest = (first - begin).total_seconds() / _TOGETHER
    if rest < 1:
        return first
    width = 2 ** (int(rest).bit_length() - 1)
    return first + timedelta(seconds=width - first.timestamp() % width, microseconds=-1)


class _Ends:
    """The expected ends of running pods, the earliest first; ``begin`` is the time at which the question began."""

    def __init__(self, cluster: Cluster, begin: datetime) -> None:
        self._cluster, self._begin = cluster, begin
        self._heap: list[tuple[datetime, str, str, Basis]] = []
        self._known: set[tuple[str, str]] = set()
        self._mark: int | None = None

    def follow(self) -> None:
        """Take the pods that run since the last time; the first time all of them."""
        cluster = self._cluster
        if self._mark is None:
            keys = list(cluster.keys.get("Pod", ()))
        else:
            keys = [key for kind, key in cluster.changes_since(self._mark) if kind == "Pod"]
        self._mark = cluster.mark()
        run_times: dict[str, RunTime] = {}
        for key in keys:
            pod = cluster.pod(key)
            if pod is None or not is_running(pod) or (key, pod.metadata.uid) in self._known:
                continue
            end = expected_end(cluster, pod, self._begin, run_times)
            if end is not None:
                self._known.add((key, pod.metadata.uid))
                heapq.heappush(self._heap, (end[0], key, pod.metadata.uid, end[1]))

    def first(self) -> datetime | None:
        """Return the first end."""
        while self._heap:
            end, key, uid, _ = self._heap[0]
            if self._running(key, uid) is not None:
                return end
            heapq.heappop(self._heap)
        return None

    def pop(self, until: datetime) -> list[tuple[datetime, Basis, core.Pod]]:
        """Remove and return the pods that end up to a time."""
        ended: list[tuple[datetime, Basis, core.Pod]] = []
        while self._heap and self._heap[0][0] <= until:
            end, key, uid, basis = heapq.heappop(self._heap)
            pod = self._running(key, uid)
            if pod is not None:
                ended.append((end, basis, pod))
        return ended

    def _running(self, key: str, uid: str) -> core.Pod | None:
        pod = self._cluster.pod(key)
        return pod if pod is not None and pod.metadata.uid == uid and is_running(pod) else None


def is_running(pod: core.Pod) -> bool:
    """Whether a pod runs on a node."""
    return bool(pod.spec.node_name) and pod.status.phase == "Running"


def expected_end(
    cluster: Cluster, pod: core.Pod, begin: datetime, run_times: dict[str, RunTime]
) -> tuple[datetime, Basis] | None:
    """Return when a running pod ends, and what that follows from; None if nothing is known.

    Its own limit, the walltime of its job and the estimate of its job count: the first of them. ``begin`` is the time at which
    the question began: the estimate of a job that is overdue by then is extended. ``run_times`` gets those of the pod groups.
    """
    started = pod.status.start_time or begin
    started = started if started.tzinfo else started.replace(tzinfo=UTC)
    limit, key = pod_fields.runtime(pod), pod_fields.job_key(pod)
    if key not in run_times:
        group = cluster.group(key)
        run_times[key] = run_time(group) if group is not None else RunTime()
    end = run_times[key].expected((begin - started).total_seconds())
    if limit and (end is None or limit <= end[0]):
        end = limit, Basis.WALLTIME
    return None if end is None else (started + timedelta(seconds=end[0]), end[1])
