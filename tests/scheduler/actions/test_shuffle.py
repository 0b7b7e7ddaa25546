"""shuffle: eviction of the victims that plugins select."""

from typing import ClassVar

import numpy as np

from tests.scheduler.plugins.scene import seen
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Evict, Plan
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.policy.config import parse
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin
from volcanopy.scheduler.policy.roles import Victims

TEXT = """
    node n1 cpu=8
    job a: 2 x cpu=1 on=n1, 1 x cpu=1 on=n1 bound, 1 x cpu=1
    job b: 2 x cpu=1 on=n1 note.volcanopy.io/preemptable=false
    job c queue=nowhere: 1 x cpu=1 on=n1
    job d namespace=kube-system: 1 x cpu=1 on=n1
    pod other node=n1 cpu=1
"""


class Everyone(Plugin[NoArguments], Victims):
    """A plugin that selects all candidates."""

    name: ClassVar[str] = "everyone"

    def evicts(self, running: Rows) -> Rows:
        """All."""
        return running


class First(Plugin[NoArguments], Victims):
    """A plugin that selects the first candidate."""

    name: ClassVar[str] = "first"

    def evicts(self, running: Rows) -> Rows:
        """One."""
        return running[:1]


class Nobody(Plugin[NoArguments], Victims):
    """A plugin that selects no victims."""

    name: ClassVar[str] = "nobody"

    def evicts(self, running: Rows) -> Rows:
        """None."""
        return np.empty(0, dtype=np.intp)


def shuffled(*tiers: str) -> Plan:
    registry = builtin().with_plugins(Everyone, First, Nobody)
    lines = ["actions: shuffle", "tiers:"]
    lines += ["- plugins: [" + ", ".join(f"{{name: {name}}}" for name in tier.split()) + "]" for tier in tiers]
    config = parse("\n".join(lines), registry)
    snapshot = seen(TEXT)
    plan = schedule(snapshot, config, registry)
    assert violations(snapshot, plan, enforced_invariants(config)) == []
    return plan


def victims(plan: Plan) -> list[str]:
    return [effect.pod for effect in plan.of(Evict)]


def test_only_running_preemptable_tasks_of_queues_are_candidates() -> None:
    assert victims(shuffled("everyone")) == ["default/a-0", "default/a-1", "kube-system/d-0"]


def test_a_protected_task_is_not_evicted() -> None:
    assert victims(shuffled("everyone conformance")) == ["default/a-0", "default/a-1"]
    assert victims(shuffled("everyone", "conformance")) == ["default/a-0", "default/a-1"]


def test_all_victims_of_the_first_tier_with_any_are_evicted() -> None:
    assert victims(shuffled("first", "everyone")) == ["default/a-0"]
    assert victims(shuffled("nobody", "everyone")) == ["default/a-0", "default/a-1", "kube-system/d-0"]
    assert victims(shuffled("nobody first everyone")) == ["default/a-0", "default/a-1", "kube-system/d-0"]


def test_without_victims_no_task_is_evicted() -> None:
    assert victims(shuffled("gang")) == []
    assert victims(shuffled("nobody")) == []


def test_the_reason_is_shuffle() -> None:
    assert {effect.reason for effect in shuffled("first").of(Evict)} == {"shuffle"}
