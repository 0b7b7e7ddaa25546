"""Whatever happens to a job, and wherever its controller dies: no pod is made twice, counts are true, it comes to rest."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.jobcontroller.world import World, job, task
from volcanopy.jobcontroller.phases import STOPPED

Json = dict[str, Any]
ACTIONS = ["AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob"]
EVENTS = ["PodFailed", "PodEvicted", "TaskCompleted", "Unknown", "TaskFailed"]


@st.composite
def jobs(draw: st.DrawFn) -> Json:
    """Jobs with policies of every kind."""
    policies = []
    for event in draw(st.lists(st.sampled_from(EVENTS), unique=True)):
        policy: Json = {"event": event, "action": draw(st.sampled_from(ACTIONS))}
        if draw(st.booleans()):
            policy["timeout"] = "30s"
        policies.append(policy)
    tasks = [
        task(
            name,
            replicas := draw(st.integers(0, 3)),
            minAvailable=draw(st.integers(0, replicas)),
            policies=policies if draw(st.booleans()) else [],
        )
        for name in ("a", "b")
    ]
    if draw(st.booleans()):
        tasks[1]["dependsOn"] = {"name": ["a"]}
    plugins: Json = draw(st.sampled_from([{}, {"svc": [], "env": []}, {"ssh": []}]))
    return job(*tasks, policies=policies, plugins=plugins, maxRetry=draw(st.integers(1, 4)))


class Life(RuleBasedStateMachine):
    """One job, a scheduler that admits, nodes that run pods, people who interfere, a controller that may die."""

    @initialize(manifest=jobs())
    def born(self, manifest: Json) -> None:
        self.world = World(manifest)
        self.world.step()
        self.last = (0, 0)
        self.number = 0

    @rule(crash=st.none() | st.integers(0, 6))
    def reconcile(self, crash: int | None) -> None:
        self.world.step(crash)

    @rule()
    def bury(self) -> None:
        self.world.bury()

    @rule(phase=st.sampled_from(["Inqueue", "Running", "Unknown", "Pending"]))
    def schedule(self, phase: str) -> None:
        if self.world.pod_group:
            self.world.admit(phase)

    @rule(data=st.data(), phase=st.sampled_from(["Running", "Succeeded", "Failed"]))
    def node(self, data: st.DataObject, phase: str) -> None:
        if names := sorted(self.world.going()):
            self.world.set_phase(phase, data.draw(st.sampled_from(names)), exit_code=int(phase == "Failed"))

    @rule(data=st.data(), grace=st.booleans())
    def evict(self, data: st.DataObject, grace: bool) -> None:
        if names := sorted(self.world.pods):
            self.world.grace = grace
            self.world.delete(data.draw(st.sampled_from(names)))
            self.world.grace = True

    @rule(action=st.sampled_from([*ACTIONS, "ResumeJob"]))
    def command(self, action: str) -> None:
        self.number += 1
        self.world.command(action, f"c{self.number:04}")

    @rule(replicas=st.integers(0, 4))
    def scale(self, replicas: int) -> None:
        assert self.world.job
        tasks = self.world.job["spec"]["tasks"]
        tasks[0] |= {"replicas": replicas, "minAvailable": min(replicas, tasks[0]["minAvailable"])}
        self.world.edit(tasks=tasks)

    @rule()
    def wait(self) -> None:
        self.world.wait(seconds=20)

    @invariant()
    def versions_and_retries_only_grow(self) -> None:
        if hasattr(self, "world") and "status" in (self.world.job or {}):
            now = (self.world.status["version"], self.world.status["retryCount"])
            assert now[0] >= self.last[0]
            assert now[1] >= self.last[1]
            self.last = now

    @invariant()
    def one_phase_is_true_and_says_why(self) -> None:
        if hasattr(self, "world") and "status" in (self.world.job or {}):
            held = [one for one in self.world.status["conditions"] if one["status"] == "True"]
            assert [one["type"] for one in held] == [self.world.phase]
            assert self.world.message

    def teardown(self) -> None:
        """Left alone, with a scheduler that admits and pods that end, the job comes to an end and clears up."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for _ in range(60):
            world.settle()
            if world.phase in STOPPED:
                break
            if world.pod_group:
                world.admit()
            if world.read().spec.replicas == 0:
                return
            for name in world.settle().going():
                world.run(name)
            world.settle()
            if world.phase not in STOPPED:
                for name in world.going():
                    world.succeed(name)
                world.settle()
                world.wait(seconds=40)
        assert world.phase in STOPPED, world.status
        assert world.pod_group is None
        assert world.objects == {}
        assert all(pod["status"]["phase"] in {"Succeeded", "Failed"} for pod in world.pods.values())
        assert world.plan().effects == ()


Life.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestLife = Life.TestCase
