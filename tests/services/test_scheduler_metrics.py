"""What the scheduler measures of itself: its cycles, who waits, what queues have, and whether evictions were of use."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.kube.cluster import Cluster, running_cluster
from tests.services.test_scheduler import QUICK, scheduling
from volcanopy.kube.cache.followed_kinds import QUEUES
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.request_counts import RequestKey
from volcanopy.kube.metrics import registry as metrics
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Plan, SetPodGroup
from volcanopy.scheduler.policy.plugin import Arguments, NoArguments
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler.metrics import OUTCOME_TIMEOUT, EvictionOutcomes, SchedulerMetrics
from volcanopy.services.scheduler.state.store import Store
from volcanopy_testing.notation import NOW, config, world


def served() -> Counter[str]:
    """Every sample by its name and the values of its labels: ``name value value``."""
    text = generate_latest(metrics.REGISTRY).decode()
    return Counter(
        {
            " ".join([sample.name.removeprefix("volcanopy_"), *sample.labels.values()]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
    )


# What becomes of evictions


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class DryRun:
    """Evictions for jobs that exist as long as they are in ``jobs``."""

    def __init__(self) -> None:
        self.clock, self.jobs = Clock(), {"default/a", "default/b"}
        self.outcomes = EvictionOutcomes(lambda job: job in self.jobs, self.clock)
        self._before = self._now()

    def _now(self) -> Counter[str]:
        return Counter({key: value for key, value in served().items() if "ful_evictions" in key or "wasted_" in key})

    @property
    def outcome(self) -> dict[str, float]:
        """How many more evictions turned out useful and wasted."""
        now = self._now()
        grown = {key: now[key] - self._before[key] for key in now if "_created" not in key}
        return {key.removesuffix("_evictions_total preempt"): count for key, count in grown.items() if count}

    def evict(self, pods: int, preemptor: str = "default/a") -> None:
        self.outcomes.evicted(Evict(f"default/v-{n}", "preempt", "default/v", "", preemptor) for n in range(pods))


def test_evictions_are_useful_once_their_preemptors_are_bound() -> None:
    trial = DryRun()
    trial.evict(3)
    trial.outcomes.bound(["default/b"])
    assert trial.outcome == {}
    trial.outcomes.bound(["default/a", "default/a"])
    assert trial.outcome == {"useful": 3}
    assert len(trial.outcomes) == 0


def test_evictions_for_a_deleted_job_are_wasted() -> None:
    trial = DryRun()
    trial.evict(2)
    trial.outcomes.review()
    assert trial.outcome == {}
    trial.jobs.clear()
    trial.outcomes.review()
    assert trial.outcome == {"wasted": 2}


def test_evictions_for_a_job_that_is_never_bound_are_wasted() -> None:
    trial = DryRun()
    trial.evict(2)
    trial.clock.now = OUTCOME_TIMEOUT - 1
    trial.evict(1)  # more for the same job does not make it younger
    trial.outcomes.review()
    assert trial.outcome == {}
    trial.clock.now = OUTCOME_TIMEOUT + 1
    trial.outcomes.review()
    assert trial.outcome == {"wasted": 3}


def test_evictions_without_a_preemptor_are_neither() -> None:
    trial = DryRun()
    trial.evict(4, preemptor="")
    assert len(trial.outcomes) == 0


# A cycle


WORLD = """
node n1 cpu=8
queue root
queue eng parent=root capability.cpu=6 weight=3
queue dev parent=eng
queue idle parent=root
job a queue=dev: 4 x cpu=1 on=n1
job b queue=dev min=2: 2 x cpu=9
job c queue=idle phase=Pending min=1 minres.cpu=1: 1 x cpu=1 gated
"""


def store_of(text: str = WORLD) -> Store:
    store = Store()
    store.take([Change(ChangeType.ADDED, obj) for obj in world(text)])
    return store


def cycle(store: Store, measures: SchedulerMetrics, actions: str = "enqueue, allocate") -> Plan:
    plan = schedule(store.snapshot(NOW), config("gang, proportion, predicates", actions), None, measures)
    measures.decided(plan)
    return plan


def test_queue_metrics_include_children_and_end_with_the_queue() -> None:
    store = store_of()
    measures = SchedulerMetrics(store, now=lambda: NOW)
    with measures.shown():
        cycle(store, measures)
        now = served()
        cpu = {name: now[f"queue_allocated_cpu_cores {name}"] for name in ("root", "eng", "dev", "idle")}
        assert cpu == {"root": 4, "eng": 4, "dev": 4, "idle": 0}
        assert now["queue_request_cpu_cores eng"] == 22
        assert now["queue_waiting_cpu_cores dev"] == 18
        assert now["queue_capacity_cpu_cores eng"] == 6
        assert "queue_capacity_cpu_cores dev" not in now
        assert now["queue_real_capacity_cpu_cores dev"] <= 8
        assert now["queue_fair_share_cpu_cores dev"] == 6
        assert now["queue_share dev"] == pytest.approx(4 / 6)
        assert (now["queue_weight eng"], now["queue_overused eng"]) == (3, 0)
        assert now["queue_allocated_scalar_resources dev pods"] == 4
        assert "queue_allocated_scalar_resources idle nvidia.com/gpu" not in now
        groups = {phase: now[f"queue_pod_group_{phase}_count root"] for phase in ("pending", "inqueue", "running")}
        assert groups == {"pending": 1, "inqueue": 2, "running": 0}
        store.take([Change(ChangeType.DELETED, store.queues["idle"])])
        cycle(store, measures)
        assert "queue_weight idle" not in served()
        assert "queue_weight eng" in served()
    assert not [name for name in served() if name.startswith("queue_")]


def test_waiting_jobs_are_counted_by_queue_and_gate() -> None:
    store = store_of()
    measures = SchedulerMetrics(store, now=lambda: NOW)
    with measures.shown():
        plan = cycle(store, measures)
        gates = Counter(explain.gate for explain in plan.of(Explain))
        now = served()
        assert gates
        assert {gate: now[f"waiting_job_count {gate}"] for gate in gates} == gates
        assert now["unschedule_job_count dev"] == 1
        assert now["unschedule_task_count dev"] == 2
        made = store.groups["default/b"].metadata.creation_timestamp
        assert made is not None
        gate = next(explain.gate for explain in plan.of(Explain) if explain.job == "default/b")
        assert now[f"longest_waiting_job_seconds {gate}"] >= (NOW - made).total_seconds()


def test_the_parts_of_a_cycle_are_timed() -> None:
    store, before = store_of(), served()
    measures = SchedulerMetrics(store, now=lambda: NOW)
    cycle(store, measures)
    grown = served() - before
    for name in (
        "open_session_duration_seconds_count",
        "plugin_scheduling_latency_seconds_count OnSessionOpen proportion",
        "action_scheduling_latency_seconds_count allocate",
        "cycle_latency_seconds_count close",
    ):
        assert grown[name] == 1, name


def test_an_admitted_job_reports_its_waiting_time_by_gate() -> None:
    store = store_of("node n1 cpu=1\nqueue q\njob a queue=q min=2: 2 x cpu=1")
    late = NOW + timedelta(hours=1)
    measures = SchedulerMetrics(store, now=lambda: late)
    cycle(store, measures)
    before = served()
    measures.decided(Plan((SetPodGroup("default/a", "Running", running=2),)))
    grown = served() - before
    assert grown["job_waiting_seconds_count nodes"] == 1
    assert grown["job_waiting_seconds_sum nodes"] >= 3600
    assert grown["e2e_job_scheduling_latency_seconds_count"] == 1
    store.assume(Plan((SetPodGroup("default/a", "Running", running=2),)), late)
    before = served()
    measures.decided(Plan((SetPodGroup("default/a", "Running", running=3),)))
    assert (served() - before)["e2e_job_scheduling_latency_seconds_count"] == 0


def test_a_rejected_bind_is_a_failed_attempt() -> None:
    store = store_of("node n1 cpu=8\njob a min=3: 3 x cpu=1")
    measures, before = SchedulerMetrics(store, now=lambda: NOW), served()
    plan = cycle(store, measures)
    assert len(plan.of(Bind)) == 3
    measures.carried_out(plan, ["default/a-1"], 0.25)
    grown = served() - before
    assert (grown["schedule_attempts_total scheduled"], grown["schedule_attempts_total error"]) == (2, 1)
    assert grown["e2e_scheduling_latency_seconds_sum"] == pytest.approx(0.25)
    assert grown["task_scheduling_latency_seconds_count Assumed"] == 3


def test_attempts_and_victims_of_evictions_are_counted() -> None:
    text = """
    class high value=10
    node n1 cpu=2
    job low min=1: 2 x cpu=1 on=n1
    job vip priority=high min=1: 1 x cpu=1
    """
    store, before = store_of(text), served()
    measures = SchedulerMetrics(store, now=lambda: NOW)
    plan = schedule(store.snapshot(NOW), config("priority, gang, predicates", "allocate, preempt"), None, measures)
    measures.decided(plan)
    assert len(plan.of(Evict)) == 1
    grown = served() - before
    assert grown["preemption_attempts_total"] == 1
    assert grown["evictions_total preempt"] == 1
    assert grown["eviction_transactions_total preempt"] == 1
    assert served()["pod_preemption_victims"] == 1


# The process


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as running:
        yield running


class Counting:
    """An action that takes notice of each cycle, and does nothing."""

    name: ClassVar[str] = "counting"
    arguments: ClassVar[type[Arguments]] = NoArguments

    def __init__(self) -> None:
        self.cycles, self._loop, self._more = 0, asyncio.get_running_loop(), asyncio.Event()

    def __call__(self, session: Session, arguments: NoArguments) -> None:
        self.cycles += 1
        self._loop.call_soon_threadsafe(self._more.set)

    async def more(self, count: int) -> None:
        """Wait for so many more cycles."""
        last = self.cycles + count
        async with asyncio.timeout(60):
            while self.cycles < last:
                self._more.clear()
                await self._more.wait()


async def test_queue_statuses_are_written_up_to_the_root_and_only_on_change(cluster: Cluster, tmp_path: Any) -> None:
    """A cycle every 20 ms sees the same cluster: nothing is written."""
    await cluster.node("n1", cpu="4")
    await cluster.queue("eng", parent="root", weight=1)
    await cluster.queue("dev", parent="eng", weight=1)
    await cluster.group("a", 2, "Inqueue", "dev")
    for number in range(8):
        await cluster.pod(f"a-{number}", "a")
    counting, known = Counting(), builtin()
    registry = Registry(known.plugins, {**known.actions, "counting": counting})
    rules = tmp_path / "scheduler.yaml"
    tiers = [{"plugins": [{"name": "gang"}, {"name": "proportion"}, {"name": "predicates"}]}]
    rules.write_text(json.dumps({"actions": "allocate, counting", "tiers": tiers}))
    settings = SchedulerSettings(heartbeat=0.02, config=rules)
    async with scheduling(cluster, settings, registry, timing=QUICK):
        wanted = {"allocated": {"cpu": "4"}, "waiting": {"cpu": "4"}, "share": "1.00"}

        async def message_written() -> bool:
            result = {queue.metadata.name: queue.status for queue in (await cluster.client.list(QUEUES)).items}
            held = {"cpu": "4", "pods": "4"}
            return all(result[name].allocated == result[name].waiting == held for name in ("dev", "eng", "root"))

        await cluster.until(message_written, QUEUES)
        status = (await cluster.client.get(QUEUES, None, "eng")).status
        assert (status.fair_share["cpu"], status.share, status.borrowed) == ("4", wanted["share"], {})
        await counting.more(20)  # whatever else had to be written has been by now
        asked = RequestKey("PATCH", "queues/status")
        before, text = cluster.connection.request_counts.counts[asked], str(served()["watch_events_total queues"])
        await counting.more(20)
        assert cluster.connection.request_counts.counts[asked] == before
        assert str(served()["watch_events_total queues"]) == text
        now = served()
        assert now["queue_allocated_cpu_cores root"] == 4
        assert now["pods_bound_total"] >= 4
        assert now["cycle_latency_seconds_count whole"] >= 40
        assert now["cache_objects pods"] >= 8
        assert now["unschedule_task_count dev"] == 4


def test_evictions_lose_the_run_time_of_their_pods() -> None:
    store = store_of()
    pods = [replace(store.pods[f"default/a-{number}"]) for number in range(2)]
    started = [replace(pod, status=replace(pod.status, start_time=NOW - timedelta(seconds=90))) for pod in pods]
    store.take([Change(ChangeType.MODIFIED, pod) for pod in started])
    before = served()
    evicts = [Evict(f"default/a-{number}", "reclaim", "default/a", "", "default/b") for number in range(3)]
    SchedulerMetrics(store, now=lambda: NOW).decided(Plan((*evicts, Evict("default/gone", "reclaim", "default/gone"))))
    grown = served() - before
    assert grown["evictions_total reclaim"] == 4
    assert grown["evicted_pod_seconds_total reclaim"] == 180  # the start of the third pod is not known yet
    assert grown["evicted_cpu_seconds_total reclaim"] == 180
