"""The budget of a question counts work, and every waiting job gets its part of it."""

from tests.whatif.asking import bodies, engine, loaded
from volcanopy.whatif.answer import Answer, Limits, answer
from volcanopy.whatif.engine import Budget, cycles_of
from volcanopy.whatif.starts import Start

WAITING = 8
WORLD = "\n".join(
    ["node n1 cpu=4", "job r: 4 x cpu=1 on=n1", *(f"job w{number}: 4 x cpu=1" for number in range(WAITING))]
)


def asked(cycles: int) -> Answer:
    return answer(engine(loaded(bodies(WORLD)).cluster), Limits(Budget(100), Budget(cycles)))


def cycles_used() -> int:
    search = Budget(100_000)
    answer(engine(loaded(bodies(WORLD)).cluster), Limits(Budget(100), search))
    return search.used


def test_every_job_is_answered_before_remedies_are_searched_for() -> None:
    alone = 2 * WAITING
    result = asked(alone + WAITING)
    assert {job.start for job in result.jobs if job.target.name.startswith("w")} == {Start.AFTER}


def test_the_searches_of_the_first_jobs_leave_the_later_ones_their_parts() -> None:
    result = asked(cycles_used() // 2)
    waiting = [job for job in result.jobs if job.target.name.startswith("w")]
    assert len(waiting) == WAITING
    assert all(job.remedies for job in waiting)


def test_what_a_job_does_not_use_is_for_the_later_ones() -> None:
    result = asked(cycles_used() + WAITING)
    assert all(job.searched for job in result.jobs if job.target.name.startswith("w"))


def test_the_work_of_a_second_follows_from_the_size_of_the_cluster() -> None:
    small = loaded(bodies("node n1 cpu=4")).cluster
    large = loaded(bodies("\n".join(f"node n{number} cpu=4" for number in range(1000)))).cluster
    assert cycles_of(small, 10.0) > cycles_of(large, 10.0) > 500
    assert cycles_of(small, 0.0) == 0
