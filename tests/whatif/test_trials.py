"""Trials of changes that lead to the same cluster are run once, for all jobs that a question is about."""

from random import Random

import pytest

from tests import nightly
from tests.whatif.asking import bodies, engine, loaded
from tests.whatif.test_budget import WAITING, WORLD
from tests.whatif.worlds import random_world
from volcanopy.api.model import Json
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.whatif import answer as answers
from volcanopy.whatif.answer import Limits
from volcanopy.whatif.changes import Configure, Create, Delete, Steps, perform
from volcanopy.whatif.engine import Budget, Engine
from volcanopy.whatif.remedies.candidate import Question, single
from volcanopy.whatif.search import Search
from volcanopy.whatif.target import Target
from volcanopy.whatif.trials import Apply, Trials

GROUPS = frozenset(f"default/w{number}" for number in range(WAITING))
PODS = tuple(Delete("Pod", f"default/r-{number}") for number in range(4))
END: Steps = PODS


def trials() -> Trials:
    return Trials(engine(loaded(bodies(WORLD)).cluster), GROUPS)


def applying(steps: Steps, config: SchedulerConfig) -> Apply:
    return lambda cluster: perform(cluster, steps, config)


def cycles(made: Trials, group: str, steps: Steps) -> int:
    """The cycles of a trial."""
    budget = Budget(100)
    made.starts(group, applying(steps, made.engine.config), budget)
    return budget.used


def test_a_change_that_starts_no_other_job_is_run_once_for_all_jobs() -> None:
    made = trials()
    assert cycles(made, "default/w1", END) > 0
    assert [cycles(made, group, END) for group in sorted(GROUPS)] == [0] * WAITING


def test_deletions_that_another_job_has_tried_are_not_applied_again() -> None:
    made = trials()
    deletions = frozenset(PODS)
    made.starts("default/w1", applying(END, made.engine.config), Budget(100), deletions)
    assert [made.starts_without(group, deletions) for group in sorted(GROUPS)] == [True, False, False, False]
    assert made.starts_without("default/w0", deletions - {PODS[0]}) is None


def test_deletions_after_which_a_job_started_show_nothing_about_the_jobs_behind_it() -> None:
    made, deletions = trials(), frozenset(PODS)
    made.starts("default/w0", applying(END, made.engine.config), Budget(100), deletions)
    assert [made.starts_without(group, deletions) for group in sorted(GROUPS)] == [True, None, None, None]


def test_a_run_that_ended_when_its_job_started_is_repeated_for_the_jobs_behind_it() -> None:
    made = trials()
    assert cycles(made, "default/w0", END) == 1
    assert cycles(made, "default/w1", END) > 1
    assert cycles(made, "default/w2", END) == 0


@pytest.mark.parametrize("steps", [END[:3], (*END, Delete("PodGroup", "default/w0")), ()])
def test_another_change_is_another_trial(steps: Steps) -> None:
    made = trials()
    cycles(made, "default/w1", END)
    assert cycles(made, "default/w1", steps) > 0


def test_another_configuration_is_another_trial() -> None:
    made = trials()
    cycles(made, "default/w1", END)
    configured = Configure(lambda _: parse("actions: enqueue\ntiers: []", builtin()), {})
    assert cycles(made, "default/w1", (*END, configured)) > 0


def test_objects_that_differ_in_one_field_are_another_trial() -> None:
    made = trials()

    def node(cpu: str) -> Steps:
        return (Create({**NODE, "status": {"allocatable": {"cpu": cpu, "pods": "9"}}}),)

    assert cycles(made, "default/w1", node("4")) > 0
    assert cycles(made, "default/w1", node("4")) == 0
    assert cycles(made, "default/w1", node("8")) > 0


NODE: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}, "spec": {}}


class ForgettingTrials(Trials):
    def starts(self, group: str, apply: Apply, budget: Budget, _: frozenset[Delete] = frozenset()) -> bool:
        return Trials(self.engine, self.groups).starts(group, apply, budget)


@pytest.mark.parametrize("seeds", nightly.seeds(3, 300, 3, 25))
def test_the_answers_are_those_of_trials_that_are_all_run(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = 0
    for seed in seeds:
        manifests, document = random_world(Random(seed))
        config = parse(document, builtin())
        remembered, used = _documents(engine(loaded(manifests).cluster, config))
        with monkeypatch.context() as context:
            context.setattr(answers, "Trials", ForgettingTrials)
            repeated, used_by_all = _documents(engine(loaded(manifests).cluster, config))
        assert remembered == repeated, f"seed {seed}"
        saved += used_by_all - used
    assert saved > 0


def _documents(made: Engine) -> tuple[list[Json], int]:
    search = Budget(5000)
    return [job.document() for job in answers.answer(made, Limits(Budget(100), search)).jobs], search.used


def test_the_cycle_after_the_start_of_a_gang_is_the_last_one() -> None:
    cluster = loaded(bodies("node n1 cpu=2\njob a phase=Inqueue: 2 x cpu=1\njob b phase=Inqueue: 2 x cpu=1")).cluster
    run = engine(cluster).run(Budget(100), frozenset({"default/a", "default/b"}))
    assert set(run.started) == {"default/a"}
    assert len(run.plans) == 2
    assert cluster.objects["PodGroup", "default/a"].status.phase == "Running"


def test_where_all_parts_of_a_change_are_needed_each_is_left_out_once() -> None:
    made = trials()
    question = Question(made.engine.cluster, made.engine.config, Target("default/w0"), None)
    needed = [single((step,), step.key) for step in PODS]
    search = Search(made, question, alone=True)
    search.budget = Budget(100)
    assert search._without_excess(needed) == needed
    assert [len(parts) for parts in search._enough] == [len(END) - 1] * len(END)


def test_of_many_parts_the_first_that_are_not_needed_are_left_out() -> None:
    made = trials()
    question = Question(made.engine.cluster, made.engine.config, Target("default/w0"), None)
    ends = [single((step,), step.key) for step in PODS]
    others = [single((Delete("PodGroup", f"default/w{number}"),), f"w{number}") for number in range(1, WAITING)]
    search = Search(made, question, alone=True)
    search.budget = Budget(100)
    assert search._without_excess([*others, *ends]) == ends
    assert search._without_excess([*ends[:2], *others, *ends[2:]]) == ends
