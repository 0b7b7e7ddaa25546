"""The bound that a remedy names is the real one: the job starts at the bound, and does not just beyond it."""

from collections.abc import Iterator
from random import Random

import pytest

from tests import nightly
from tests.whatif.asking import batch_job, engine, loaded, remedies
from tests.whatif.worlds import random_world
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import parse
from volcanopy.whatif.answer import Limits, answer
from volcanopy.whatif.changes import Steps, perform
from volcanopy.whatif.engine import Budget, Engine
from volcanopy.whatif.remedies import nodes, queues
from volcanopy.whatif.remedies.candidate import Part, Question
from volcanopy.whatif.search import KINDS, Remedy
from volcanopy.whatif.starts import Start
from volcanopy.whatif.target import Target


def test_a_smaller_request_fits_into_what_running_pods_leave() -> None:
    text = "node n1 cpu=8\njob old phase=Running: 2 x cpu=3 on=n1\njob new: 4 x cpu=3"
    assert "request at most 500m cpu per pod instead of 3" in remedies(text, "new")


def test_a_smaller_request_of_memory_is_named_in_mebibytes() -> None:
    text = "node n1 cpu=8 memory=10Gi\njob old phase=Running: 1 x memory=1100Mi on=n1\njob new: 3 x memory=4Gi"
    assert "request at most 3046Mi memory per pod instead of 4Gi" in remedies(text, "new")


def test_a_raised_capability_covers_pods_of_uneven_size() -> None:
    text = """
    node n1 cpu=16
    queue q capability.cpu=4
    job old queue=q phase=Running: 1 x cpu=1300m on=n1
    job new queue=q phase=Pending minres.cpu=3: 1 x cpu=3
    """
    assert 'raise the capability of queue "q" by 300m cpu to 4.3' in remedies(text, "new")


def test_a_limit_on_running_jobs_is_raised_beyond_all_that_run() -> None:
    running = "\n".join(f"job r{number} queue=q phase=Running: 1 x cpu=1 on=n1" for number in range(20))
    text = f"node n1 cpu=40\nqueue q maxrunning=1\n{running}\njob new queue=q phase=Pending: 1 x cpu=1"
    assert 'raise maxRunningJobs of queue "q" from 1 to 21' in remedies(text, "new")


def test_a_quota_is_raised_by_what_lacks() -> None:
    text = "node n1 cpu=8\nquota z hard.cpu=2 used.cpu=1300m\njob old phase=Running: 1 x cpu=1300m on=n1"
    sentence = 'raise cpu of ResourceQuota "z" from 2 to 2.3'
    assert sentence in remedies(text, "new", None, batch_job("new", 1, "1"))


def test_a_quota_of_limits_is_raised_and_no_smaller_request_is_named() -> None:
    resources = {"requests": {"cpu": "50m"}, "limits": {"cpu": "3"}}
    pod = {"containers": [{"name": "main", "image": "x", "resources": resources}]}
    text = "node n1 cpu=8\nquota z hard.limits.cpu=2"
    (remedy,) = remedies(text, "new", None, batch_job("new", pod=pod))
    assert remedy == 'raise limits.cpu of ResourceQuota "z" from 2 to 3'


@pytest.mark.parametrize("seeds", nightly.seeds(10, 500, 10, 70))
def test_no_remedy_is_larger_than_needed(seeds: range) -> None:
    """Each part of a remedy in its next weaker form, or without it if it has none, is not enough."""
    weakened = 0
    for seed in seeds:
        manifests, document = random_world(Random(seed))
        made = engine(loaded(manifests).cluster, parse(document, builtin()))
        for job in answer(made, Limits(Budget(100), Budget(5000))).jobs:
            if job.start is Start.NOW:
                continue
            question = Question(made.cluster, made.config, job.target, job.explanation)
            for remedy in job.remedies:
                for steps in _weaker(question, remedy):
                    weakened += 1
                    assert not _starts(made, job.target, steps), f"seed {seed}, {job.target.name}: {remedy.text}"
    assert weakened > len(seeds)


def _weaker(question: Question, remedy: Remedy) -> Iterator[Steps]:
    """The steps of a remedy, each time with one of its parts in the next weaker form."""
    parts = _parts(question, remedy)
    for place, (part, strength) in enumerate(parts):
        others = [other.steps(most) for other, most in parts[:place] + parts[place + 1 :]]
        weaker = part.steps(strength - 1) if strength > 1 else ()
        yield tuple(step for steps in (*others[:place], weaker, *others[place:]) for step in steps)


def _parts(question: Question, remedy: Remedy) -> list[tuple[Part, int]]:
    """The parts of a remedy with their strengths, by its sentences."""
    texts = {
        part.text(strength): (part, strength)
        for kind in (*KINDS, queues.moves, nodes.plain_nodes)
        for candidate in kind(question)
        for part in candidate.parts
        for strength in range(1, part.most + 1)
    }
    return [texts[text] for text in remedy.parts]


def _starts(made: Engine, target: Target, steps: Steps) -> bool:
    with made.cluster.trial():
        config = perform(made.cluster, steps, made.config)
        return target.group in made.run(Budget(100), frozenset({target.group}), target.group, config=config).started
