"""Answers that are kept for many jobs, or for many cycles, are computed again when what they follow from changes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from volcanopy.api import core
from volcanopy.scheduler.engine.shares.share_rules import ShareRules
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.queue_shares import Shares
from volcanopy.scheduler.model.selectors import Terms
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.nodes.traits.trait_cache import cached_of_shape
from volcanopy.scheduler.policy.plugin import Vote, reject
from volcanopy.scheduler.policy.roles import Moment, Quota
from volcanopy_testing.notation import snapshot

WAITING = """
queue q
queue r
node n1 cpu=4 memory=4Gi pods=10
job a queue=q phase=Pending minres.cpu=2: 1 x cpu=2
job b queue=q phase=Pending minres.cpu=2: 1 x cpu=2
job c queue=q phase=Pending minres.cpu=3: 1 x cpu=3
job d queue=r phase=Pending minres.cpu=2: 1 x cpu=2
job e queue=r: 1 x cpu=1
"""


class NoShares(Quota):
    def shares(self) -> Shares:
        queues = Ledger(snapshot(WAITING)).queue_allocated
        return Shares(queues, queues, queues, admission=queues)


def test_a_vote_is_asked_once_for_equal_minima_of_a_queue_until_a_job_is_admitted_or_a_task_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = Ledger(snapshot(WAITING))
    cluster = Cluster(ledger)
    asked: list[tuple[str, int | None, bool]] = []

    def vote(job: JobView, behind: bool) -> Vote:
        asked.append((job.queue.name, None if (least := job.min_resources) is None else least["cpu"], behind))
        return reject("capability", f"{len(asked)}")

    nothing_reserved = np.zeros(len(ledger.snapshot.jobs), dtype=bool)
    queries = SimpleNamespace(behind_reservations=lambda: nothing_reserved)
    monkeypatch.setattr(cluster, "queries", queries, raising=False)
    monkeypatch.setattr(ShareRules, "_vote", staticmethod(vote))
    rules = ShareRules(NoShares(), cluster)
    jobs = {job.key.rpartition("/")[2]: job for job in cluster.jobs()}
    minima = {name: None if (least := job.min_resources) is None else least["cpu"] for name, job in jobs.items()}
    answers = {name: rules.verdict(job, Moment.ENQUEUE) for name, job in jobs.items()}
    distinct = {(jobs[name].queue.name, minima[name], False) for name in jobs}
    first, *others = asked  # which jobs are behind reservations is asked after the first rejection
    assert first == ("q", 2000, True)
    assert sorted(others, key=str) == sorted(distinct, key=str)
    assert answers["a"] is answers["b"]
    assert len({id(answer) for answer in answers.values()}) == 4
    ledger.reserve(jobs["a"].queue.row, np.ones(len(cluster.axis), dtype=np.int64))
    again = rules.verdict(jobs["a"], Moment.ENQUEUE)
    assert again is not answers["a"]
    ledger.move(int(np.flatnonzero(ledger.status == Status.PENDING)[0]), Status.BINDING, 0)
    assert rules.verdict(jobs["a"], Moment.ENQUEUE) is not again


def test_a_job_that_is_considered_with_an_alternative_has_the_key_of_its_minimum() -> None:
    ledger = Ledger(snapshot(WAITING))
    jobs = {job.key.rpartition("/")[2]: job for job in Cluster(ledger).jobs()}
    assert jobs["a"].minimum_key == jobs["b"].minimum_key == jobs["d"].minimum_key is not None
    assert jobs["a"].minimum_key != jobs["c"].minimum_key
    assert jobs["e"].minimum_key is None
    ledger.consider(jobs["a"].row, core.PodGroupAlternative(name="small", min_resources={"cpu": "3"}))
    assert jobs["a"].minimum_key == jobs["c"].minimum_key != jobs["b"].minimum_key


def test_what_follows_from_a_shape_is_kept_only_where_no_shape_has_terms_about_pods() -> None:
    seen = snapshot(WAITING)
    traits, shapes, owner = seen.nodes.traits, seen.shapes, object()
    asked: list[int] = []

    def compute(lasts: bool) -> tuple[int, bool]:
        asked.append(len(asked))
        return len(asked), lasts

    def answer(traits: NodeTraits, shapes: object = shapes, owner: object = owner, lasts: bool = True) -> int:
        return cached_of_shape(traits, "test", shapes, owner, 0, lambda: compute(lasts))  # type: ignore[arg-type]

    assert [answer(traits, lasts=False), answer(traits, lasts=False)] == [1, 2]  # it follows from the pods, too
    assert [answer(traits), answer(traits)] == [3, 3]
    assert answer(traits, owner=object()) == 4
    assert answer(NodeTraits(traits.objects)) == 5
    with_terms = replace(shapes, terms=(Terms(), *shapes.terms[1:]))
    assert [answer(traits, with_terms), answer(traits, with_terms)] == [6, 7]
