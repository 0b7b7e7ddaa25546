"""gangpreempt: bundles of victims within a queue, topology domains, and reasons for no eviction."""

from dataclasses import replace as changed

import numpy as np
import pytest
from msgspec.structs import replace

from tests.scheduler.properties import seen
from volcanopy.api import core
from volcanopy.api.config_file import ConfigError
from volcanopy.scheduler.actions.evict.candidates import Candidates
from volcanopy.scheduler.actions.evict.evicting_actions import GangArguments
from volcanopy.scheduler.actions.evict.eviction_bundles import Bundles
from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts
from volcanopy.scheduler.actions.evict.rules import rules_for
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Nominate
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import config, decide, snapshot, world

PLUGINS = "priority, gang, conformance | predicates, binpack"
CHAIN = "enqueue, allocate, gangpreempt"
CLASSES = "class high value=9\nclass mid value=5\nclass low value=1\n"
RACKS = """
    node n1 cpu=2
    node n2 cpu=2
    node n3 cpu=2
    node n4 cpu=2
    hypernode rack-1 tier=1: n1 n2
    hypernode rack-2 tier=1: n3 n4
    hypernode hall   tier=2: rack-1 rack-2
"""


def moves(text: str, plugins: str | SchedulerConfig = PLUGINS, actions: str = CHAIN) -> list[str]:
    return [str(effect) for effect in decide(CLASSES + text, plugins, actions).of(Evict, Nominate)]


def why(text: str, job: str, plugins: str = PLUGINS, actions: str = CHAIN) -> str:
    explains = {effect.job: effect for effect in decide(CLASSES + text, plugins, actions).of(Explain)}
    explain: Explain = explains[f"default/{job}"]
    return explain.message


def arguments(**values: object) -> SchedulerConfig:
    return changed(config(PLUGINS, CHAIN), action_arguments={"gangpreempt": GangArguments.model_validate(values)})


class TestBundles:
    def test_pods_above_the_minimum_are_evicted_each_alone(self) -> None:
        text = "node n1 cpu=3\njob a min=1: 3 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
        assert moves(text) == ["evict a-2: gangpreempt", "nominate b-0 -> n1"]

    def test_the_minimum_of_a_gang_is_evicted_together(self) -> None:
        """One pod would suffice for b, but a requires two; preempt could not evict it at all."""
        text = "node n1 cpu=2\njob a min=2: 2 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
        assert moves(text) == ["evict a-1: gangpreempt", "evict a-0: gangpreempt", "nominate b-0 -> n1"]
        assert moves(text, actions="enqueue, allocate, preempt") == []

    def test_a_gang_is_evicted_from_all_nodes_of_the_domain(self) -> None:
        text = "node n1 cpu=1\nnode n2 cpu=1\njob a min=2: 2 x cpu=1 on=n1,n2\njob b priority=high: 1 x cpu=1"
        assert sorted(moves(text)[:2]) == ["evict a-0: gangpreempt", "evict a-1: gangpreempt"]

    def test_pods_of_a_broken_gang_are_evicted_each_alone(self) -> None:
        text = "node n1 cpu=2\njob a min=3: 2 x cpu=1 on=n1, 1 x cpu=1 gated\njob b priority=high: 1 x cpu=1"
        assert moves(text) == ["evict a-1: gangpreempt", "nominate b-0 -> n1"]

    def test_the_minimum_of_a_role_is_enforced(self) -> None:
        """The job requires two of its three pods, including its only worker."""
        text = """
            node n1 cpu=3
            job a min=2: 1 x cpu=1 role=w min=1 on=n1, 2 x cpu=1 role=m min=1 on=n1
            job b priority=high: 1 x cpu=1
            """
        assert moves(text) == ["evict a-m-1: gangpreempt", "nominate b-0 -> n1"]

    def test_minimums_of_roles_do_not_apply_if_the_job_requires_fewer(self) -> None:
        text = """
            node n1 cpu=2
            job a min=1: 1 x cpu=1 role=m min=1 on=n1, 1 x cpu=1 role=w min=1 on=n1
            job b priority=high: 1 x cpu=1
            """
        assert len(moves(text)) == 2

    def test_a_surplus_sub_group_is_evicted_together(self) -> None:
        text = """
            node n1 cpu=4
            job a min=2 split=2 split.min=1 split.by=x/p: 2 x cpu=1 on=n1 label.x/p=0, 2 x cpu=1 on=n1 label.x/p=1
            job b priority=high: 1 x cpu=1
            """
        assert moves(text) == ["evict a-3: gangpreempt", "evict a-2: gangpreempt", "nominate b-0 -> n1"]

    def test_required_sub_groups_are_evicted_with_the_gang(self) -> None:
        text = """
            node n1 cpu=4
            job a min=2 split=2 split.min=2 split.by=x/p: 2 x cpu=1 on=n1 label.x/p=0, 2 x cpu=1 on=n1 label.x/p=1
            job b priority=high: 1 x cpu=1
            """
        assert len(moves(text)) == 5

    def test_a_surplus_pod_of_a_sub_group_is_evicted_alone(self) -> None:
        text = """
            node n1 cpu=3
            job a min=2 split=2 split.min=1 split.by=x/p: 3 x cpu=1 on=n1 label.x/p=0
            job b priority=high: 1 x cpu=1
            """
        assert moves(text) == ["evict a-2: gangpreempt", "nominate b-0 -> n1"]

    def test_a_gang_is_one_bundle_on_all_its_nodes(self) -> None:
        session = Session(
            snapshot("node n1 cpu=9\nnode n2 cpu=9\njob a min=2: 3 x cpu=1 on=n1,n1,n2\njob b: 1 x cpu=1"),
            config(PLUGINS, CHAIN),
        )
        costs = EvictionCosts(session)
        (rule,) = rules_for(session, costs, session.cluster.queue(0), "gangpreempt")
        rule = changed(rule, are_candidates=lambda _, rows: np.ones(len(rows), dtype=np.bool_))
        job_b = session.cluster.task(session.snapshot.task_rows["default/b-0"])
        candidates = Candidates(session, costs, [rule], job_b, breaks_gangs=True)
        here = candidates.rows[session.ledger.node[candidates.rows] == 0]
        single, broken = Bundles(session, candidates).split(here.tolist())
        assert [(len(single.rows), single.breaks), (len(broken.rows), broken.breaks)] == [(1, False), (3, True)]
        assert broken.cost[3] == 3 * single.cost[3]  # the lost work


class TestVictimSelection:
    def test_a_surplus_pod_before_a_gang_of_the_same_importance(self) -> None:
        text = """
            node n1 cpu=2
            node n2 cpu=2
            job spare min=1: 2 x cpu=1 on=n1
            job rigid min=2: 2 x cpu=1 on=n2
            job b priority=high: 1 x cpu=1
            """
        assert moves(text) == ["evict spare-1: gangpreempt", "nominate b-0 -> n1"]

    def test_the_least_important_job_though_its_gang_breaks(self) -> None:
        text = """
            node n1 cpu=2
            node n2 cpu=2
            job spare min=1 priority=mid: 2 x cpu=1 on=n1
            job rigid min=2 priority=low: 2 x cpu=1 on=n2
            job b priority=high: 1 x cpu=1
            """
        assert moves(text) == ["evict rigid-1: gangpreempt", "evict rigid-0: gangpreempt", "nominate b-0 -> n2"]

    def test_of_two_gangs_the_one_that_loses_least_work(self) -> None:
        text = "node n1 cpu=2\nnode n2 cpu=3\njob two min=2: 2 x cpu=1 on=n1\njob three min=3: 3 x cpu=1 on=n2\njob b priority=high: 1 x cpu=1"
        assert [line for line in moves(text) if "evict" in line] == [
            "evict two-1: gangpreempt",
            "evict two-0: gangpreempt",
        ]

    def test_no_job_of_equal_priority(self) -> None:
        assert (
            moves("node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1\njob b: 1 x cpu=1", "gang, conformance | predicates")
            == []
        )

    def test_no_job_of_another_queue(self) -> None:
        assert moves("queue q\nnode n1 cpu=1\njob a queue=q: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1") == []

    def test_no_job_that_is_not_preemptable(self) -> None:
        text = "node n1 cpu=1\njob a note.volcanopy.io/preemptable={}: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
        assert moves(text.format("false")) == []
        assert len(moves(text.format("true"))) == 2

    def test_no_gang_with_a_protected_pod(self) -> None:
        text = """
            node n1 cpu=2
            job a min=2: 1 x cpu=1 on=n1 label.app=a, 1 x cpu=1 on=n1
            job b priority=high: 1 x cpu=1
            budget d allowed=0 selector.app=a
            """
        assert moves(text, "priority, gang, pdb | predicates") == []
        assert len(moves(text)) == 3

    def test_a_budget_counts_over_all_bundles(self) -> None:
        text = """
            node n1 cpu=2
            job a min=0: 2 x cpu=1 on=n1 label.app=a
            job b min={} priority=high: {} x cpu=1
            budget d allowed=1 selector.app=a
            """
        assert len(moves(text.format(1, 1), "priority, gang, pdb | predicates")) == 2
        assert moves(text.format(2, 2), "priority, gang, pdb | predicates") == []

    def test_no_critical_pod(self) -> None:
        text = "node n1 cpu=1\njob a namespace=kube-system: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
        assert moves(text) == []
        assert moves(text, "priority | gang, conformance, predicates") == []

    def test_no_job_without_a_plugin_for_victims(self) -> None:
        assert moves("node n1 cpu=1\njob a: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1", "sla | predicates") == []


class TestVerification:
    def test_no_eviction_for_a_gang_that_still_cannot_start(self) -> None:
        assert moves("node n1 cpu=2\njob a min=0: 2 x cpu=1 on=n1\njob b min=3 priority=high: 3 x cpu=1") == []

    def test_no_eviction_if_the_resources_fit_on_no_node(self) -> None:
        text = "node n1 cpu=1\nnode n2 cpu=1\njob a min=0: 2 x cpu=1 on=n1,n2\njob b priority=high: 1 x cpu=2"
        assert moves(text) == []

    def test_no_eviction_on_a_node_that_still_rejects_the_gang(self) -> None:
        assert moves("node n1 cpu=1 taint=t:NoSchedule\njob a: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1") == []

    def test_no_eviction_while_resources_are_being_freed(self) -> None:
        text = "node n1 cpu=2\njob a min=1: 1 x cpu=1 on=n1, 1 x cpu=1 on=n1 releasing\njob b priority=high: 1 x cpu=1"
        assert moves(text) == []

    def test_free_resources_count(self) -> None:
        text = "node n1 cpu=1\nnode n2 cpu=1\njob a: 1 x cpu=1 on=n1\njob b min=2 priority=high: 2 x cpu=1"
        assert moves(text) == ["evict a-0: gangpreempt", "nominate b-0 -> n2", "nominate b-1 -> n1"]

    def test_only_the_minimum_causes_evictions(self) -> None:
        text = "node n1 cpu=4\njob a min=0: 4 x cpu=1 on=n1\njob b min=2 priority=high: 4 x cpu=1"
        assert sum(line.startswith("evict") for line in moves(text)) == 2

    def test_minimums_of_roles_are_satisfied_first(self) -> None:
        """Three of the first role would be enough by number; the job needs one of each."""
        text = """
            node n1 cpu=4
            job a min=0: 4 x cpu=1 on=n1
            job b min=2 priority=high: 3 x cpu=1 role=m min=1, 1 x cpu=1 role=w min=1
            """
        assert moves(text) == [
            "evict a-3: gangpreempt",
            "evict a-2: gangpreempt",
            "nominate b-m-0 -> n1",
            "nominate b-w-0 -> n1",
        ]

    def test_an_unnecessary_bundle_is_restored(self) -> None:
        """The small pods are cheaper, but the large pod must be evicted anyway."""
        text = """
            node n1 cpu=3
            job big min=0: 1 x cpu=2 on=n1
            job small min=0: 1 x cpu=1 on=n1
            job b priority=high: 1 x cpu=2
            """
        assert moves(text) == ["evict big-0: gangpreempt", "nominate b-0 -> n1"]

    def test_a_bundle_made_unnecessary_by_others_is_restored(self) -> None:
        """For the small pod alone the single pod is the cheapest victim; the large pod needs the node of the gang, where both fit."""
        text = """
            node n1 cpu=1
            node n2 cpu=3
            job single: 1 x cpu=1 on=n1
            job gang: 3 x cpu=1 on=n2
            job b priority=high: 1 x cpu=1, 1 x cpu=2
            """
        made = moves(text)
        assert sorted(line for line in made if "evict" in line) == [
            f"evict gang-{number}: gangpreempt" for number in range(3)
        ]
        assert {line.split()[-1] for line in made if "nominate" in line} == {"n2"}

    def test_a_pod_that_never_preempts_waits(self) -> None:
        objects = [
            replace(obj, spec=replace(obj.spec, preemption_policy="Never"))
            if isinstance(obj, core.Pod) and obj.metadata.name == "b-0"
            else obj
            for obj in world(CLASSES + "node n1 cpu=1\njob a: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1")
        ]
        made = schedule(seen(objects), config(PLUGINS, CHAIN))
        assert made.of(Evict) == []
        assert "not eligible: preemptionPolicy is Never" in made.of(Explain)[0].message

    def test_a_running_job_gets_its_tasks_each_alone(self) -> None:
        """Without the gang plugin a job is starving while any of its pods waits."""
        text = "node n1 cpu=3\njob a min=0: 2 x cpu=1 on=n1\njob b min=1 priority=high: 1 x cpu=1 on=n1, 3 x cpu=1"
        made = moves(text, "priority | gang, predicates")
        assert sum(line.startswith("evict") for line in made) == 2
        assert [line for line in made if "nominate" in line] == ["nominate b-1 -> n1", "nominate b-2 -> n1"]


class TestDomains:
    @pytest.mark.parametrize("plugins", [PLUGINS, f"{PLUGINS}, network-topology-aware"])
    def test_a_gang_with_required_topology_is_placed_in_one_hypernode(self, plugins: str) -> None:
        """The two cheapest pods are in different racks; the gang needs two nodes of one."""
        text = f"""
            {RACKS}
            job l1 priority=low: 1 x cpu=2 on=n1
            job l3 priority=low: 1 x cpu=2 on=n3
            job m2 priority=mid: 1 x cpu=2 on=n2
            job m4 priority=mid: 1 x cpu=2 on=n4
            job b topology=hard:1 priority=high: 2 x cpu=2
            """
        made = moves(text, plugins)
        assert made in (
            ["evict l1-0: gangpreempt", "evict m2-0: gangpreempt", "nominate b-0 -> n1", "nominate b-1 -> n2"],
            ["evict l3-0: gangpreempt", "evict m4-0: gangpreempt", "nominate b-0 -> n3", "nominate b-1 -> n4"],
        )

    def test_the_cheapest_domain_is_taken(self) -> None:
        text = f"""
            {RACKS}
            job one priority=mid min=0: 2 x cpu=2 on=n1,n2
            job two priority=low min=0: 2 x cpu=2 on=n3,n4
            job b topology=hard:1 priority=high: 2 x cpu=2
            """
        assert sorted(line for line in moves(text) if "evict" in line) == [
            "evict two-0: gangpreempt",
            "evict two-1: gangpreempt",
        ]

    def test_pods_of_a_broken_gang_outside_of_the_domain_are_evicted_too(self) -> None:
        text = f"""
            {RACKS}
            job a min=2 priority=low: 2 x cpu=2 on=n1,n3
            job c priority=high: 1 x cpu=2 on=n4
            job d priority=high: 1 x cpu=1 on=n2
            job b topology=hard:1 priority=high: 2 x cpu=1
            """
        made = moves(text)
        assert sorted(line for line in made if "evict" in line) == ["evict a-0: gangpreempt", "evict a-1: gangpreempt"]
        assert {line.split()[-1] for line in made if "nominate" in line} == {"n1", "n2"}

    def test_without_a_topology_the_whole_cluster_is_one_domain(self) -> None:
        text = f"""
            {RACKS}
            job l1 priority=low: 1 x cpu=2 on=n1
            job l3 priority=low: 1 x cpu=2 on=n3
            job m2 priority=mid: 1 x cpu=2 on=n2
            job m4 priority=mid: 1 x cpu=2 on=n4
            job b priority=high: 2 x cpu=2
            """
        assert sorted(line for line in moves(text) if "evict" in line) == [
            "evict l1-0: gangpreempt",
            "evict l3-0: gangpreempt",
        ]

    def test_preferred_topology_selects_the_closest_of_equal_cost(self) -> None:
        text = f"""
            {RACKS}
            job a min=0 priority=low: 4 x cpu=2 on=n1,n2,n3,n4
            job b topology=soft priority=high: 2 x cpu=2
            """
        racks = {frozenset({"n1", "n2"}), frozenset({"n3", "n4"})}
        assert frozenset(line.split()[-1] for line in moves(text) if "nominate" in line) in racks

    def test_no_eviction_if_no_domain_is_large_enough(self) -> None:
        text = f"{RACKS}\njob a min=0 priority=low: 4 x cpu=2 on=n1,n2,n3,n4\njob b topology=hard:1 priority=high: 3 x cpu=2"
        assert moves(text) == []

    def test_each_sub_group_gets_its_own_hypernode(self) -> None:
        text = f"""
            {RACKS}
            job a min=0 priority=low: 4 x cpu=2 on=n1,n2,n3,n4
            job b split=2 split.min=2 split.by=x/p split.topology=hard:1 priority=high: 2 x cpu=2 label.x/p=0, 2 x cpu=2 label.x/p=1
            """
        made = moves(text)
        node = {line.split()[1]: line.split()[-1] for line in made if "nominate" in line}
        racks = ({"n1", "n2"}, {"n3", "n4"})
        assert len(node) == 4
        assert {node["b-0"], node["b-1"]} in racks
        assert {node["b-2"], node["b-3"]} in racks

    def test_the_rest_of_a_running_gang_joins_its_domain(self) -> None:
        text = f"""
            {RACKS}
            job a min=0 priority=low: 3 x cpu=2 on=n2,n3,n4
            job b min=2 topology=hard:1 priority=high: 1 x cpu=2 on=n1, 1 x cpu=2
            """
        assert moves(text) == ["evict a-0: gangpreempt", "nominate b-1 -> n2"]

    def test_nominations_stay_in_the_domain_until_victims_terminate(self) -> None:
        text = f"{CLASSES}{RACKS}\njob a min=0 priority=low: 4 x cpu=2 on=n1,n2,n3,n4\njob b topology=hard:1 priority=high: 2 x cpu=2"
        simulation = Simulation(world(text), config(PLUGINS, CHAIN), graceful=True, replaced=False)
        promised = {effect.pod: effect.node for effect in simulation.cycle().of(Nominate)}
        simulation.add(world("class top value=99\njob z priority=top: 4 x cpu=1"))
        bound = {effect.pod: effect.node for effect in simulation.cycle().of(Bind)}
        assert not bound
        simulation.end_terminating()
        bound = {effect.pod: effect.node for effect in simulation.cycle().of(Bind)}
        assert promised.items() <= bound.items()


class TestReasons:
    def test_no_lower_priority_jobs(self) -> None:
        text = "node n1 cpu=1\njob a: 1 x cpu=1 on=n1\njob b: 1 x cpu=1"
        message = 'gangpreempt: no preemption victims in lower-priority jobs of queue "default"'
        assert why(text, "b") == f"0/1 nodes are available: 1 Insufficient cpu; {message}"
        assert why(text, "b", actions="gangpreempt") == message

    def test_insufficient_after_all_evictions(self) -> None:
        text = "node n1 cpu=2\njob a min=0: 2 x cpu=1 on=n1\njob b min=3 priority=high: 3 x cpu=1"
        message = 'gangpreempt: still unschedulable after evicting 2 pods of lower-priority jobs of queue "default": 1 cpu missing'
        assert why(text, "b").endswith(message)

    def test_candidates_are_protected(self) -> None:
        text = """
            node n1 cpu=1
            job a: 1 x cpu=1 on=n1 label.app=a
            job b priority=high: 1 x cpu=1
            budget d allowed=0 selector.app=a
            """
        message = 'gangpreempt: 1 pod of lower-priority jobs of queue "default" may not be evicted'
        assert why(text, "b", "priority, gang, pdb | predicates").endswith(message)

    def test_enough_resources_but_no_feasible_hypernode(self) -> None:
        text = f"{RACKS}\njob a min=0 priority=low: 4 x cpu=2 on=n1,n2,n3,n4\njob b topology=hard:1 priority=high: 3 x cpu=2"
        assert "gangpreempt: still unschedulable after evicting 4 pods" in why(text, "b")

    def test_a_preemptor_waits_for_terminating_pods(self) -> None:
        text = "node n1 cpu=1\njob a: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
        assert why(text, "b") == "waiting for 1 evicted pod to terminate"


class TestArguments:
    def test_gangs_are_spared_if_configured(self) -> None:
        text = "node n1 cpu=3\njob a min=2: 3 x cpu=1 on=n1\njob b min={0} priority=high: {0} x cpu=1"
        spare_parts = arguments(allowWholeBundle=False)
        assert len(moves(text.format(1), spare_parts)) == 2
        assert moves(text.format(2), spare_parts) == []
        assert len(moves(text.format(2))) > 0

    def test_the_number_of_domains_tried_is_limited(self) -> None:
        """The first rack has the resources, but its nodes reject the gang; the second is not tried."""
        text = """
            node n1 cpu=2 taint=t:NoSchedule
            node n2 cpu=2
            hypernode rack-1 tier=1: n1
            hypernode rack-2 tier=1: n2
            job a min=0 priority=low: 2 x cpu=2 on=n1,n2
            job b topology=hard:1 priority=high: 1 x cpu=2
            """
        assert len(moves(text)) == 2
        assert moves(text, arguments(maxDomains=1)) == []

    def test_no_node_outside_the_domain_is_tried_although_a_gang_in_it_runs_there_too(self) -> None:
        """Rack a is tried alone. On n3 of rack b, to which the evicted v gives room, x would be cheaper to evict than w."""
        text = """
            node n0 cpu=2
            node n1 cpu=2
            node n2 cpu=2
            node n3 cpu=2
            node n4 cpu=2
            hypernode a tier=1: n0 n1 n2
            hypernode b tier=1: n3 n4
            hypernode s tier=2: a b
            class cheaper value=3
            job v priority=low: 2 x cpu=1 on=n1,n3
            job x priority=cheaper min=1: 1 x cpu=1 on=n3
            job w priority=mid min=1: 1 x cpu=1 on=n2
            job z priority=high min=1: 1 x cpu=2 on=n4
            job p priority=high topology=hard:2: 3 x cpu=2
            """
        nodes = {
            move.rpartition(" ")[2] for move in moves(text, arguments(maxDomains=1)) if move.startswith("nominate")
        }
        assert nodes == {"n0", "n1", "n2"}

    def test_an_invalid_argument_is_rejected_with_a_message(self) -> None:
        for key, value, message in (
            ("maxDomain", 1, "did you mean 'maxDomains'?"),
            ("maxDomains", 0, "configurations[0].arguments (gangpreempt).maxDomains"),
            ("allowWholeBundle", "perhaps", "configurations[0].arguments (gangpreempt).allowWholeBundle"),
        ):
            text = f"actions: gangpreempt\nconfigurations: [{{name: gangpreempt, arguments: {{{key}: {value}}}}}]"
            with pytest.raises(ConfigError) as caught:
                parse(text, builtin())
            assert message in str(caught.value)
