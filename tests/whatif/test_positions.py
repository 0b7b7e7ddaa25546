"""The position of a job in its queue is one number, wherever it is printed."""

import msgspec

from tests.whatif.asking import ask, bodies
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.core import PodGroup
from volcanopy.cli.explain.text import job_lines, plain
from volcanopy.client.explain.job import JobFacts, job_report
from volcanopy.client.explain.queue import waiting_groups
from volcanopy.scheduler.model.plan import Explain
from volcanopy.services.scheduler.state import statuses
from volcanopy_testing.notation import NOW, decide

WORLD = """
node n1 cpu=4
queue q
queue r
job running queue=r: 1 x cpu=3 on=n1
job a queue=q: 1 x cpu=5
job b queue=q: 1 x cpu=2
job c queue=r: 1 x cpu=2
job d queue=q phase=Pending minres.cpu=9: 1 x cpu=9
"""


def test_the_position_is_one_number() -> None:
    """Job a never starts, so that its answer is the one that it gets alone, but it is still one of three jobs."""
    plugins = "priority, gang | overcommit, predicates"
    explained = {effect.job.partition("/")[2]: effect for effect in decide(WORLD, plugins).of(Explain)}
    expected = {"a": 1, "b": 2, "c": 1, "d": 3}
    groups = {}
    for name, effect in explained.items():
        group = msgspec.convert({"metadata": {"name": name, "namespace": "default"}}, PodGroup)
        status = msgspec.structs.replace(group.status, phase="Inqueue", explanation=statuses.explanation(effect))
        groups[name] = msgspec.structs.replace(group, status=status)
    assert {group.name: group.position for group in waiting_groups(list(groups.values()))} == expected
    for name, group in groups.items():
        job = msgspec.convert({"metadata": {"name": name}, "status": {"state": {"phase": "Pending"}}}, BatchJob)
        report = job_report(JobFacts(job=job, now=NOW, group=group))
        assert f"position {expected[name]} in queue" in plain(job_lines(report))


def test_the_position_of_an_answer_is_that_among_all_jobs() -> None:
    answers = ask(bodies(WORLD)).jobs
    positions = {answer.target.name: answer.document().get("position") for answer in answers}
    assert positions == {"a": 1, "b": 2, "c": 1, "d": 3}
