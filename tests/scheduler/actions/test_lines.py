"""Many jobs wait in lines: what is asked of many at once is what each would have answered, and so is the outcome."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volcanopy.scheduler.actions.allocate.job_queues import Line, Worksheet
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.plugins.gang import Gang
from volcanopy.scheduler.session.session import Session
from volcanopy.testing import reference
from volcanopy.testing.notation import config, snapshot

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


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(queues_of_singles(), st.sampled_from(SETS))
def test_the_quick_way_of_single_tasks_ends_as_the_usual_way(text: str, plugins: str) -> None:
    seen = snapshot(text)
    quick, usual = (Session(seen, config(plugins)) for _ in range(2))
    usual.placement = reference.OneByOne(usual.ledger, usual.hooks)
    usual.hooks.ready_after_one = lambda jobs: np.zeros(len(jobs), dtype=np.bool_)  # type: ignore[method-assign]
    usual.hooks.surely_valid = usual.hooks.ready_after_one  # type: ignore[method-assign]
    actions = reference.actions()
    for name in ("enqueue", "allocate", "backfill"):
        actions[name](quick, {})
        actions[name](usual, {})
    assert list(map(str, quick.effects)) == list(map(str, usual.effects))
    for column in ("status", "node", "used", "idle", "future", "nonzero", "job_counts", "role_counts", "job_allocated"):
        assert getattr(quick.ledger, column).tolist() == getattr(usual.ledger, column).tolist(), column
    assert quick.ledger.tree_allocated.tolist() == usual.ledger.tree_allocated.tolist()
    assert (quick.why, list(quick.turned_away)) == (usual.why, list(usual.turned_away))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(queues_of_singles(), st.sampled_from(SETS))
def test_many_jobs_at_once_get_the_answers_that_each_would_get(text: str, plugins: str) -> None:
    session = Session(snapshot(text), config(plugins))
    hooks, rows = session.hooks, session.job_rows
    for name in ("enqueue", "allocate"):
        views = [JobView(session.ledger, row) for row in rows.tolist()]
        assert session.keys_of(rows) == [session.job_key(job) for job in views]
        for job, valid, ready in zip(views, hooks.surely_valid(rows), hooks.ready_after_one(rows), strict=True):
            assert not valid or hooks.job_valid(job) is None
            waiting = [TaskView(session.ledger, row) for row in job.tasks(Status.PENDING).tolist()]
            for task in [one for one in waiting if ready and not one.best_effort]:
                with session.statement() as statement:
                    statement.allocate(task.row, 0)
                    assert hooks.job_ready(job)
        reference.actions()[name](session, {})


class Never(Gang):
    """A gang that is never ready, by who knows nothing of quick answers."""

    name = "never"

    def job_ready(self, job: JobView) -> bool:
        """Never."""
        return False


def test_a_quick_answer_does_not_outlive_the_hook_that_it_was_written_for() -> None:
    text = "node n1 cpu=4\njob a: 1 x cpu=1"
    registry = builtin().with_plugins(Never)
    session = Session(snapshot(text), config("never", "allocate", registry))
    assert not session.hooks.ready_after_one(session.job_rows).any()
    assert session.hooks.surely_valid(session.job_rows).all()  # this hook is still the gang's own
    reference.actions()["allocate"](session, {})
    assert not session.effects


def test_whose_turn_comes_again_stands_where_its_key_says() -> None:
    sheets = {key: Worksheet(None, [], []) for key in "abcd"}  # type: ignore[arg-type]
    line = Line([(key, sheets[key]) for key in "dba"])
    assert line.pop() is sheets["a"]
    line.push("c", sheets["c"])
    assert [key for key, _ in line] == ["b", "c", "d"]
    assert [line.pop() for _ in range(len(line))] == [sheets[key] for key in "bcd"]
    assert not line
