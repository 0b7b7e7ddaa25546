"""Job queues: batched hook results and the fast placement of single tasks equal the general path."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.reference import placement
from volcanopy.scheduler.actions.allocate.job_queues import JobQueue, PendingJob, allowed_count
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin, Rejection, Vote, reject
from volcanopy.scheduler.policy.roles import Gate, Moment
from volcanopy_testing.notation import config, snapshot
from volcanopy_testing.uncached import UncachedPlacement

CAP = "capability.cpu=3"
PLUGINS = "priority, gang, drf, predicates, proportion, nodeorder, binpack"
SETS = (
    PLUGINS,
    "gang, predicates, binpack",
    "drf, priority, binpack",
    "gang, capacity, nodeorder",
    "sla, gang, priority",
)


@st.composite
def queues_of_singles(draw: st.DrawFn) -> str:
    """Jobs of one pod and others, some of which run already, in two queues that are sometimes limited."""
    lines = ["class low value=0", "class high value=5", "queue q1", f"queue q2 {draw(st.sampled_from(('', CAP)))}"]
    sizes = draw(st.lists(st.tuples(st.sampled_from((2, 4)), st.sampled_from((4, 9))), min_size=1, max_size=4))
    lines += [f"node n{number} cpu={cpu} memory={memory}Gi pods=6" for number, (cpu, memory) in enumerate(sizes)]
    for number in range(draw(st.integers(1, 14))):
        size, queue = draw(st.sampled_from((1, 1, 1, 2))), draw(st.sampled_from(("q1", "q2")))
        least = draw(st.sampled_from((1, size, size + 1)))
        priority = draw(st.sampled_from(("low", "low", "high")))
        asks = f"cpu={draw(st.sampled_from((0, 500, 900)))}m memory={draw(st.sampled_from((0, 1)))}Gi"
        lines.append(f"job j{number} queue={queue} min={least} priority={priority}: {size} x {asks}")
    return "\n".join(lines)


def rejections(session: Session) -> dict[int, Rejection | None]:
    return {job: recorded.rejection for job, recorded in session.rejections.reasons.items()}


@examples(100)
@given(queues_of_singles(), st.sampled_from(SETS))
def test_quick_placement_of_single_tasks_equals_plain_placement(text: str, plugins: str) -> None:
    seen = snapshot(text)
    quick, usual = (Session(seen, config(plugins)) for _ in range(2))
    usual.placement = UncachedPlacement(usual.ledger, usual.hooks)
    usual.bind = lambda task, node: False  # type: ignore[method-assign]
    actions = placement.actions()
    for name in ("enqueue", "allocate", "backfill"):
        actions[name](quick, {})
        actions[name](usual, {})
    assert list(map(str, quick.effects)) == list(map(str, usual.effects))
    for column in ("status", "node", "used", "idle", "future", "nonzero", "job_counts", "role_counts", "job_allocated"):
        assert getattr(quick.ledger, column).tolist() == getattr(usual.ledger, column).tolist(), column
    assert quick.ledger.tree_allocated.tolist() == usual.ledger.tree_allocated.tolist()
    assert rejections(quick) == rejections(usual)
    assert list(quick.rejections.order) == list(usual.rejections.order)


@examples(100)
@given(queues_of_singles(), st.sampled_from(SETS))
def test_hook_results_for_many_jobs_equal_those_for_each(text: str, plugins: str) -> None:
    session = Session(snapshot(text), config(plugins))
    gangs, rows = session.gangs, session.job_rows
    for name in ("enqueue", "allocate"):
        views = [JobView(session.ledger, row) for row in rows.tolist()]
        assert session.keys_of(rows) == [session.job_key(job) for job in views]
        singles = [gangs.invalid_jobs(rows[place : place + 1]) for place in range(len(rows))]
        assert gangs.invalid_jobs(rows) == {row: invalid for each in singles for row, invalid in each.items()}
        invalid = {job.row: gangs.invalid(job) for job in views if session.config.enables("gang")}
        assert gangs.invalid_jobs(rows) == {row: answer for row, answer in invalid.items() if answer is not None}
        placement.actions()[name](session, {})


class Never(Gate, Plugin[NoArguments]):
    """Rejects the start of every job."""

    name = "never"

    def verdict(self, job: JobView, moment: Moment) -> Vote:
        """Reject it."""
        return reject("gang", "never")


def test_a_single_task_whose_job_is_not_ready_is_not_bound() -> None:
    text = "node n1 cpu=4\njob a: 1 x cpu=1"
    registry = builtin().with_plugins(Never)
    session = Session(snapshot(text), config("never", "allocate", registry))
    before = session.ledger.used.tolist()
    assert not session.bind(session.snapshot.task_rows["default/a-0"], 0)
    assert session.ledger.used.tolist() == before
    placement.actions()["allocate"](session, {})
    assert not session.effects


def test_a_requeued_job_is_ordered_by_its_new_key() -> None:
    pending = {key: PendingJob(None, [], []) for key in "abcd"}  # type: ignore[arg-type]
    queue = JobQueue([(key, pending[key]) for key in "dba"])
    assert queue.pop() is pending["a"]
    queue.push("c", pending["c"])
    assert [key for key, _ in queue] == ["b", "c", "d"]
    assert [queue.pop() for _ in range(len(queue))] == [pending[key] for key in "bcd"]
    assert not queue


@examples(100)
@given(st.integers(1, 20), st.integers(0, 21), st.integers(0, 21))
def test_the_allowed_count_equals_a_linear_search(count: int, limit: int, share: int) -> None:
    """The rejection that is recorded is that of all tasks, unless another gate rejects a single one."""
    recorded = list[Rejection]()

    def allocatable(queue: object, task: object, number: int) -> Rejection | None:
        if number > limit:
            return Rejection("Capability", f"{number} tasks")
        return Rejection("Share", f"{number} tasks") if number > share else None

    session: Any = SimpleNamespace(
        quotas=SimpleNamespace(allocatable=allocatable),
        reject=lambda job, rejection, placed: recorded.append(rejection),
    )
    task: Any = SimpleNamespace(job=SimpleNamespace(row=0))
    queue: Any = None
    expected = next(number for number in range(count, -1, -1) if not number or allocatable(queue, task, number) is None)
    assert allowed_count(session, queue, task, count, 0) == expected
    of_all, of_single = allocatable(queue, task, count), allocatable(queue, task, 1)
    if expected or of_all is None or of_single is None:
        assert recorded == []
    else:
        assert recorded == [of_all if of_all.gate == of_single.gate else of_single]
