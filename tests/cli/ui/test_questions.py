"""What-if questions of the page about worlds."""

from tests.whatif.asking import batch_job, bodies, loaded
from volcanopy.cli.ui.questions import WhatIfQuestion, ask
from volcanopy.client.explain.confirmed import ClusterState
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import default
from volcanopy.testing.notation import NOW

FULL = "node n1 cpu=4\njob now phase=Running: 1 x cpu=4 on=n1\njob next: 1 x cpu=4"


def test_an_answer_names_the_jobs_that_a_job_waits_for() -> None:
    state = ClusterState(loaded(bodies(FULL)).cluster, default(builtin()), builtin(), configured=True)
    (job,) = ask(state, WhatIfQuestion("n1", 1, (), {}, ()), NOW)["jobs"]
    assert (job["before"], job["after"]) == ("starts after other jobs", "starts now")
    new = batch_job("new", cpu="4")
    new["metadata"]["namespace"] = "default"
    changed, unchanged = ask(state, WhatIfQuestion("", 0, (), {}, (new,)), NOW)["jobs"]
    assert (changed["job"], changed["before"]) == ("default/new", "new")
    assert changed["after"].startswith("starts after ")
    assert 'job "now" (cpu 4)' in changed["after"]
    assert changed["estimate"]
    assert (unchanged["job"], unchanged["changed"]) == ("default/next", False)
