"""What-if questions of the page about worlds."""

from datetime import timedelta

from tests.whatif.asking import batch_job, bodies, loaded
from volcanopy.cli.ui.questions import WhatIfQuestion, ask
from volcanopy.client.explain.confirmed import ClusterState
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import default
from volcanopy_testing.notation import NOW

FULL = "node n1 cpu=4\njob now phase=Running: 1 x cpu=4 on=n1\njob next: 1 x cpu=4"


def test_an_answer_names_the_jobs_that_a_job_waits_for() -> None:
    manifests = bodies(FULL)
    (group,) = (each for each in manifests if each["kind"] == "PodGroup" and each["metadata"]["name"] == "next")
    time = f"{NOW + timedelta(minutes=20):%Y-%m-%dT%H:%M:%SZ}"
    group.setdefault("status", {})["estimatedStart"] = {"time": time, "basis": "walltime"}
    state = ClusterState(loaded(manifests).cluster, default(builtin()), builtin(), configured=True)
    (job,) = ask(state, WhatIfQuestion("n1", 1, (), {}, ()), NOW)["jobs"]
    assert job["after"] == "starts now"
    assert job["before"] == "starts after other jobs, in about 20 min, 2030-01-02 00:20:00 UTC (walltime)"
    new = batch_job("new", cpu="4")
    new["metadata"]["namespace"] = "default"
    changed, unchanged = ask(state, WhatIfQuestion("", 0, (), {}, (new,)), NOW)["jobs"]
    assert (changed["job"], changed["before"]) == ("default/new", "new")
    assert changed["after"].startswith("starts after ")
    assert 'job "now" (cpu 4)' in changed["after"]
    assert changed["after"].endswith(" declare no run time")
    assert (unchanged["job"], unchanged["changed"]) == ("default/next", False)
