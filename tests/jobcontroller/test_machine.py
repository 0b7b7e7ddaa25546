"""A state machine test of the job controller with delayed watches, failing requests and crashes.

No pod is created twice or deleted without a reason, counts are correct, the job settles, and a deleted job leaves no
objects.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.jobcontroller.lagging import KINDS, LaggingWorld
from tests.jobcontroller.world import job, task
from tests.nightly import examples
from volcanopy.jobcontroller.phases import STOPPED

Json = dict[str, Any]
ACTIONS = ["AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob"]
EVENTS = ["PodFailed", "PodEvicted", "TaskCompleted", "Unknown", "TaskFailed", "PodPending", "JobUpdated"]


@st.composite
def policies(draw: st.DrawFn) -> list[Json]:
    """Policies on events and exit codes, some with a timeout; or the one for everything."""
    result: list[Json] = []
    if draw(st.integers(0, 5)) == 0:
        result.append({"event": "*", "action": draw(st.sampled_from(ACTIONS))})
        events: list[str] = []
    else:
        events = draw(st.lists(st.sampled_from(EVENTS), unique=True, max_size=4))
    for event in events:
        policy: Json = {"event": event, "action": draw(st.sampled_from(ACTIONS))}
        if event == "PodPending" or draw(st.integers(0, 2)) == 0:
            policy["timeout"] = "30s"
        result.append(policy)
    if draw(st.booleans()):
        result.append({"exitCode": draw(st.sampled_from([3, 137])), "action": draw(st.sampled_from(ACTIONS))})
    return result


@st.composite
def jobs(draw: st.DrawFn) -> Json:
    """Jobs with policies of every kind, partitions, tasks that wait for others, plugins."""
    tasks = []
    for name in ("a", "b"):
        own = draw(policies()) if draw(st.booleans()) else []
        made = task(name, replicas := draw(st.integers(0, 3)), policies=own, maxRetry=draw(st.integers(0, 2)))
        if name == "b" and draw(st.booleans()):
            made |= {"replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}
        elif draw(st.booleans()):
            made["minAvailable"] = draw(st.integers(0, replicas))
        tasks.append(made)
    if draw(st.booleans()):
        tasks[1]["dependsOn"] = {"name": ["a"], "iteration": draw(st.sampled_from(["any", "all"]))}
    spec: Json = {"maxRetry": draw(st.integers(0, 4)), "policies": draw(policies())}
    if draw(st.integers(0, 3)) == 0:
        spec["minSuccess"] = 1
    if draw(st.integers(0, 3)) == 0:
        spec["ttlSecondsAfterFinished"] = 30
    plugins: Json = draw(st.sampled_from([{}, {"svc": [], "env": []}, {"ssh": []}]))
    return job(*tasks, plugins=plugins, **spec)


class JobMachine(RuleBasedStateMachine):
    """One job, a scheduler that admits, nodes that run pods, people who interfere, a controller that lags and may die."""

    @initialize(manifest=jobs())
    def create(self, manifest: Json) -> None:
        self.manifest = manifest
        self.world = LaggingWorld(manifest)
        self.world.step()
        self.last = (0, 0)
        self.number = 0
        self.causes = 0

    @property
    def exists(self) -> bool:
        return hasattr(self, "world") and self.world.job is not None

    @property
    def has_status(self) -> bool:
        return self.exists and "status" in (self.world.job or {})

    # The controller.

    @rule()
    def reconcile(self) -> None:
        self.world.step()

    @rule()
    def deliver_all_and_reconcile(self) -> None:
        self.world.deliver_all()
        self.world.step()

    @rule(writes=st.integers(1, 4))
    def step_of_a_plan(self, writes: int) -> None:
        self.world.step_of(writes)

    @rule(after=st.integers(0, 6))
    def crash_during_a_reconcile(self, after: int) -> None:
        self.world.step(after)

    @rule(after=st.integers(0, 6))
    def lose_a_response(self, after: int) -> None:
        self.world.step(lost=after)

    @rule()
    def restart_controller(self) -> None:
        self.world.restart()

    @rule(kind=st.sampled_from(KINDS), most=st.integers(1, 3))
    def deliver_event(self, kind: str, most: int) -> None:
        self.world.deliver(kind, most)

    @rule(kind=st.sampled_from(["jobs", "commands"]))
    def redeliver_event(self, kind: str) -> None:
        self.world.repeat(kind)

    @rule(kind=st.sampled_from(["pods", "groups"]))
    def resync(self, kind: str) -> None:
        self.world.relist(kind)

    # The scheduler and the nodes.

    @rule()
    def remove_terminated(self) -> None:
        self.world.remove_terminated()

    @rule(phase=st.sampled_from(["Inqueue", "Running", "Unknown", "Pending"]))
    def schedule(self, phase: str) -> None:
        if self.world.pod_group:
            self.world.admit(phase)
            self.causes += phase == "Unknown"
        self.world.record()

    @rule(data=st.data(), phase=st.sampled_from(["Running", "Succeeded", "Failed"]), code=st.sampled_from([1, 3, 137]))
    def node(self, data: st.DataObject, phase: str, code: int) -> None:
        if names := sorted(self.world.going()):
            code = code if phase == "Failed" else 0
            self.world.set_phase(phase, data.draw(st.sampled_from(names)), exit_code=code)
            self.causes += phase != "Running"
        self.world.record()

    @rule(data=st.data())
    def restart_a_container(self, data: st.DataObject) -> None:
        if names := sorted(self.world.going()):
            self.world.restart_container(data.draw(st.sampled_from(names)))
            self.causes += 1
        self.world.record()

    @rule(data=st.data(), grace=st.booleans())
    def evict(self, data: st.DataObject, grace: bool) -> None:
        if names := sorted(self.world.pods):
            self.world.grace = grace
            self.world.delete(data.draw(st.sampled_from(names)))
            self.world.grace = True
            self.causes += 1
        self.world.record()

    @rule()
    def wait(self) -> None:
        self.world.wait(seconds=20)

    # People.

    @rule(action=st.sampled_from([*ACTIONS, "ResumeJob"]), stale=st.booleans())
    def command(self, action: str, stale: bool) -> None:
        self.number += 1
        self.world.command(action, f"c{self.number:04}", uid="earlier" if stale else self.world.last_uid)
        self.causes += 1
        self.world.record()

    @precondition(lambda self: self.exists)
    @rule(replicas=st.integers(0, 4))
    def scale(self, replicas: int) -> None:
        assert self.world.job
        tasks = self.world.job["spec"]["tasks"]
        tasks[0] |= {"replicas": replicas, "minAvailable": min(replicas, tasks[0].get("minAvailable", replicas))}
        self._edit(tasks=tasks)

    @precondition(lambda self: self.exists)
    @rule(least=st.integers(0, 6))
    def change_min_available(self, least: int) -> None:
        self._edit(minAvailable=min(least, self.world.read().spec.replicas))

    @precondition(lambda self: self.exists)
    @rule(name=st.sampled_from(["", "high", "low"]))
    def change_the_priority(self, name: str) -> None:
        self._edit(priorityClassName=name)

    def _edit(self, **spec: Any) -> None:
        assert self.world.job
        kept = min(self.world.job["spec"].get("minAvailable", 0), sum(t["replicas"] for t in self._tasks(spec)))
        self.world.edit(**{"minAvailable": kept, **spec})
        self.causes += 1
        self.world.record()

    def _tasks(self, spec: Json) -> list[Json]:
        assert self.world.job
        result: list[Json] = spec.get("tasks") or self.world.job["spec"]["tasks"]
        return result

    @precondition(lambda self: self.exists)
    @rule(chance=st.integers(0, 4))
    def delete(self, chance: int) -> None:
        if chance == 0:
            self.world.job = None
            self.world.record()

    @rule()
    def collect(self) -> None:
        self.world.collect()
        self.world.record()

    @precondition(lambda self: hasattr(self, "world") and self.world.job is None)
    @rule()
    def submit_again(self) -> None:
        self.world.recreate(self.manifest)
        self.world.record()
        self.last, self.causes = (0, 0), 0

    # Invariants.

    @invariant()
    def versions_and_retries_grow_and_each_retry_has_a_cause(self) -> None:
        if self.has_status:
            now = (self.world.status["version"], self.world.status["retryCount"])
            assert now[0] >= self.last[0]
            assert now[1] >= self.last[1]
            self.last = now
            # A pod that stays pending too long is a cause as well: each pod once.
            assert now[1] <= self.causes + self.world.births

    @invariant()
    def exactly_one_phase_condition_with_a_reason(self) -> None:
        if self.has_status:
            held = [condition for condition in self.world.status["conditions"] if condition["status"] == "True"]
            assert [condition["type"] for condition in held] == [self.world.phase]
            assert self.world.message

    def teardown(self) -> None:
        """Left alone, with a scheduler that admits and pods that end, the job comes to an end and clears up."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for _ in range(60):
            world.settle()
            if world.job is None or world.phase in STOPPED:
                break
            if world.pod_group:
                world.admit()
            if world.read().spec.replicas == 0:
                break
            world.settle()
            for name in world.going():
                world.run(name)
            world.settle()
            if world.job and world.phase not in STOPPED:
                for name in world.going():
                    world.succeed(name)
                world.settle().wait(seconds=40)
        if world.job is None:
            self.nothing_is_left()
            return
        if world.read().spec.replicas:
            assert world.phase in STOPPED, world.status
            assert world.pod_group is None
            assert world.objects == {}
            assert all(pod["status"]["phase"] in {"Succeeded", "Failed"} for pod in world.pods.values())
        assert world.plan().effects == ()
        assert not world.commands
        world.job = None
        self.nothing_is_left()

    def nothing_is_left(self) -> None:
        """Neither in the cluster nor in the controller's memory."""
        world = self.world
        world.settle()
        assert (world.pods, world.pod_group, world.objects, world.commands) == ({}, None, {}, {})
        world.deliver_all()
        for memory, kept in ((world.cache, set()), (world.cache.writes, {"_deleted", "_listed"})):
            filled = {name: value for name, value in vars(memory).items() if isinstance(value, dict) and value}
            assert set(filled) <= kept, filled


JobMachine.TestCase.settings = settings(examples(60), stateful_step_count=30)
TestLife = JobMachine.TestCase
