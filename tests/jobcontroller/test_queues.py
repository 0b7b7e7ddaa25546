"""Opening and closing of queues and their children, without contradicting states."""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.jobcontroller.queue_world import QueueWorld
from tests.nightly import examples
from volcanopy.api.scheduling import PodGroupPhase, QueueState
from volcanopy.jobcontroller.queues import SHUT, TRANSITIONS, QueueAction

OPEN, CLOSING, CLOSED, UNKNOWN = QueueState.OPEN, QueueState.CLOSING, QueueState.CLOSED, QueueState.UNKNOWN
RUNNING, COMPLETED = PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED


def test_every_pair_has_a_transition() -> None:
    assert set(TRANSITIONS) == set(itertools.product(QueueState, QueueAction))
    assert {TRANSITIONS[state, QueueAction.OPEN] for state in QueueState} == {OPEN}
    assert {TRANSITIONS[state, QueueAction.CLOSE] for state in QueueState} == SHUT


@pytest.mark.parametrize("state", [None, *QueueState])
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize(
    ("action", "ends"),
    [
        ("OpenQueue", {OPEN: OPEN, CLOSING: OPEN, CLOSED: OPEN, UNKNOWN: OPEN}),
        ("CloseQueue", {OPEN: CLOSING, CLOSING: CLOSING, CLOSED: CLOSED, UNKNOWN: CLOSING}),
        ("", {OPEN: OPEN, CLOSING: CLOSING, CLOSED: CLOSED, UNKNOWN: UNKNOWN}),
    ],
)
def test_actions_in_each_state(
    state: QueueState | None, busy: bool, action: str, ends: dict[QueueState, QueueState]
) -> None:
    world = QueueWorld({"q": "root"})
    world.set_state("q", state)
    world.fill("q", RUNNING if busy else COMPLETED)
    if action:
        world.ask(action, "q")
    world.settle()
    end = ends[state or OPEN]
    assert world.state("q") is (end if end not in SHUT else CLOSING if busy else CLOSED)
    assert not world.commands["q"] if action else True


def test_a_queue_is_closed_when_its_jobs_have_ended() -> None:
    world = QueueWorld({"q": "root"})
    world.fill("q", RUNNING, 2)
    world.ask("CloseQueue", "q", message="maintenance")
    assert world.settle().states() == {"q": "Closing"}
    world.groups["q"] = {COMPLETED: 2}
    world.jobs["q"] = 1
    assert world.settle().states() == {"q": "Closing"}
    world.jobs["q"] = 0
    assert world.settle().states() == {"q": "Closed"}
    assert [event for event in world.events if event.startswith("q:")] == [
        "q: Normal CloseQueue: queue closed to new jobs: maintenance; 2 PodGroups Running",
        "q: Normal QueueClosed: all jobs are finished",
    ]


def test_children_close_and_open_with_their_parent_unless_closed_explicitly() -> None:
    world = QueueWorld({"q1": "root", "q11": "q1", "q111": "q11", "q12": "q1"})
    world.ask("CloseQueue", "q12")
    world.settle()
    world.ask("CloseQueue", "q1")
    assert set(world.settle().states().values()) == {"Closed"}
    assert [name for name in world.raw if world.marked(name)] == ["q11", "q111"]
    world.ask("OpenQueue", "q1")
    assert world.settle().states() == {"q1": "Open", "q11": "Open", "q111": "Open", "q12": "Closed"}
    assert not any(world.marked(name) for name in world.raw)


def test_opening_a_child_of_a_closed_queue_is_rejected_with_the_remedy() -> None:
    world = QueueWorld({"q1": "root", "q11": "q1"})
    world.ask("CloseQueue", "q1")
    world.settle().events.clear()
    world.ask("OpenQueue", "q11")
    world.settle()
    message = 'Command "c0001" rejected: parent queue "q1" is Closed: open it first'
    assert world.events == [f"q11: Warning CommandRejected: {message}"]
    assert world.states() == {"q1": "Closed", "q11": "Closed"}


def test_a_command_for_a_child_waits_for_the_commands_of_its_parent() -> None:
    """Both were closed explicitly and get a command to open at once: both open, in any order of reconciling."""
    world = QueueWorld({"q1": "root", "q11": "q1"})
    for name in ("q11", "q1"):
        world.ask("CloseQueue", name)
    world.settle().events.clear()
    for name in ("q11", "q1"):
        world.ask("OpenQueue", name)
    world.look("q11")
    assert world.commands["q11"]
    assert world.settle().states() == {"q1": "Open", "q11": "Open"}
    assert "CommandRejected" not in "".join(world.events)


def test_a_child_closed_explicitly_stays_closed_when_its_parent_opens() -> None:
    world = QueueWorld({"q1": "root", "q11": "q1"})
    world.ask("CloseQueue", "q1")
    world.settle()
    world.ask("CloseQueue", "q11")
    world.settle()
    world.ask("OpenQueue", "q1")
    assert world.settle().states() == {"q1": "Open", "q11": "Closed"}


def test_a_queue_that_moves_under_another_follows_that_one() -> None:
    world = QueueWorld({"q1": "root", "q2": "root", "q": "q1"})
    world.ask("CloseQueue", "q1")
    world.settle()
    world.raw["q"]["spec"]["parent"] = "q2"
    assert world.settle().states() == {"q1": "Closed", "q2": "Open", "q": "Open"}
    world.raw["q"]["spec"]["parent"] = "q1"
    assert world.settle().state("q") is CLOSED


def test_the_parent_is_defaulted_and_the_root_has_none() -> None:
    world = QueueWorld({"q": ""}).settle()
    assert world.raw["q"]["spec"] == {"parent": "root"}
    assert world.raw["root"]["spec"] == {}


@pytest.mark.parametrize(
    ("action", "name", "uid", "told"),
    [
        ("CloseQueue", "root", "", "the root queue cannot be closed: close its child queues"),
        ("AbortJob", "q", "", 'unsupported action "AbortJob": supported actions: OpenQueue, CloseQueue'),
        ("CloseQueue", "q", "other", "target.uid does not match the UID of the queue"),
    ],
)
def test_an_invalid_command_is_rejected_with_a_message(action: str, name: str, uid: str, told: str) -> None:
    world = QueueWorld({"q": "root"})
    world.ask(action, name, uid)
    world.settle()
    assert world.events == [f'{name}: Warning CommandRejected: Command "c0000" rejected: {told}']
    assert world.states() == {"q": "Open"}
    assert not world.commands[name]


def test_a_command_without_a_uid_is_for_the_queue_of_that_name() -> None:
    world = QueueWorld({"q": "root"})
    world.ask("CloseQueue", "q", uid=None)
    assert world.settle().states() == {"q": "Closed"}


def test_a_queue_with_a_missing_parent_is_not_changed() -> None:
    world = QueueWorld({"q": "nowhere"})
    for marked in (False, True):
        world.set_state("q", CLOSED, marked)
        assert world.settle().state("q") is CLOSED


def test_counts_are_written_where_they_differ() -> None:
    world = QueueWorld({"q": "root"})
    world.fill("q", RUNNING, 2)
    world.jobs["q"] = 3
    world.settle()
    assert world.raw["q"]["status"] == {"state": "Open", "running": 2, "jobs": 3}
    world.fill("q", RUNNING, 0)
    assert str(world.plan("q")) == "status: running=0"


def test_a_terminating_queue_is_counted_and_not_changed_otherwise() -> None:
    world = QueueWorld({"q": "root"})
    world.fill("q", RUNNING, 2)
    world.settle()
    world.raw["q"]["metadata"]["deletionTimestamp"] = "2026-03-02T08:00:00Z"
    world.ask(QueueAction.CLOSE, "q")
    assert str(world.plan("q")) == ""
    world.fill("q", RUNNING, 1)
    assert str(world.plan("q")) == "status: running=1"


TREE = {"a": "root", "b": "root", "a1": "a", "a2": "a", "a11": "a1"}


class Tree(RuleBasedStateMachine):
    """A small tree, people who open and close, jobs that come and go, a controller that dies between two writes."""

    @initialize()
    def create_queues(self) -> None:
        self.world = QueueWorld(TREE).settle()

    @rule(name=st.sampled_from([*TREE]), action=st.sampled_from([*QueueAction]))
    def ask(self, name: str, action: QueueAction) -> None:
        self.world.ask(action, name)

    @rule(name=st.sampled_from(["root", *TREE]), crash=st.none() | st.integers(0, 3))
    def look(self, name: str, crash: int | None) -> None:
        self.world.look(name, crash)

    @rule(name=st.sampled_from([*TREE]), phase=st.sampled_from([*PodGroupPhase]), count=st.integers(0, 2))
    def fill(self, name: str, phase: PodGroupPhase, count: int) -> None:
        self.world.fill(name, phase, count)

    @rule(name=st.sampled_from(["a1", "a2", "b"]), parent=st.sampled_from(["root", "a", "b"]))
    def move(self, name: str, parent: str) -> None:
        if name != parent:
            self.world.raw[name]["spec"]["parent"] = parent

    @rule()
    def rest(self) -> None:
        self.world.settle()
        self.at_rest()

    @rule(name=st.sampled_from([*TREE]), crash=st.integers(0, 3))
    def close_and_open_above(self, name: str, crash: int) -> None:
        """Whatever a queue is, it is the same after everything above it has been closed and opened again."""
        world = self.world.settle()
        above = world.parent(name)
        if above == "root" or world.is_shut(above):
            return
        before = (world.is_shut(name), world.marked(name))
        for action in ("CloseQueue", "OpenQueue"):
            world.ask(action, above)
            world.look(above)
            world.look(name, crash)
            assert world.settle().is_shut(name) is (before[0] or action == "CloseQueue")
        assert (world.is_shut(name), world.marked(name)) == before

    @rule(name=st.sampled_from([*TREE]), action=st.sampled_from([*QueueAction]), crash=st.integers(0, 4))
    def commands_are_executed_despite_a_crash(self, name: str, action: QueueAction, crash: int) -> None:
        world = self.world.settle()
        world.ask(action, name)
        world.look(name, crash)
        refused = action is QueueAction.OPEN and world.is_shut(world.parent(name))
        assert world.settle().is_shut(name) is (refused or action is QueueAction.CLOSE)
        if action is QueueAction.CLOSE:
            assert not world.marked(name)

    def at_rest(self) -> None:
        world = self.world
        assert not any(world.commands.values())
        for name in TREE:
            shut_above = world.is_shut(world.parent(name))
            assert not shut_above or world.is_shut(name)
            assert not world.marked(name) or (world.is_shut(name) and shut_above)
            left = sum(count for phase, count in world.groups.get(name, {}).items() if phase is not COMPLETED)
            assert world.state(name) is not CLOSING or left

    @invariant()
    def the_root_is_open(self) -> None:
        if hasattr(self, "world"):
            assert not self.world.is_shut("root")

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()
            self.at_rest()


Tree.TestCase.settings = settings(examples(60), stateful_step_count=25)
TestTree = Tree.TestCase
