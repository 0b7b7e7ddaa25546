"""Network topology constraints of jobs: placement and messages."""

import re
from pathlib import Path

import pytest

from volcanopy.api import core, topology_read
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.invariants import plan_outcome
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.invariants.topology import topology_crossed
from volcanopy.scheduler.model.plan import Bind, Explain, Plan
from volcanopy_testing.notation import NOW, NotationError, decide, plan, snapshot, world

PLUGINS = "gang, predicates, network-topology-aware"
BARE = "gang, predicates"
"""What is demanded holds without the plugin as well."""

RACKS = """
    node n1 cpu=4
    node n2 cpu=4
    node n3 cpu=4
    node n4 cpu=4
    hypernode rack-1 tier=1 tiername=rack: n1 n2
    hypernode rack-2 tier=1 tiername=rack: n3 n4
    hypernode hall   tier=2 tiername=hall: rack-1 rack-2
"""


def why(text: str, plugins: str = PLUGINS) -> Explain:
    explains = decide(text, plugins).of(Explain)
    assert len(explains) == 1
    explain: Explain = explains[0]
    return explain


def nodes_of(made: Plan, job: str) -> list[str]:
    return sorted({bind.node for bind in made.of(Bind) if bind.group == f"default/{job}"})


@pytest.mark.parametrize("plugins", [PLUGINS, BARE])
class TestRequiredTopology:
    def test_is_placed_in_one_domain_of_the_tier(self, plugins: str) -> None:
        text = f"{RACKS}\njob x: 1 x cpu=3 on=n1\njob a topology=hard:1: 2 x cpu=3"
        assert (
            plan(text, plugins)
            == """
            bind a-0 -> n3
            bind a-1 -> n4
        """
        )

    def test_waits_if_no_domain_fits_the_gang(self, plugins: str) -> None:
        """Three pods fit the cluster, but no rack fits more than two."""
        text = f"{RACKS}\njob a topology=hard:1: 3 x cpu=3"
        assert decide(text, plugins).of(Bind) == []

    def test_may_span_more_when_a_higher_tier_is_allowed(self, plugins: str) -> None:
        assert len(decide(f"{RACKS}\njob a topology=hard:2: 3 x cpu=3", plugins).of(Bind)) == 3

    def test_is_placed_in_the_lowest_feasible_tier(self, plugins: str) -> None:
        text = f"{RACKS}\njob x: 1 x cpu=2 on=n1\njob a topology=hard:2: 2 x cpu=3"
        assert nodes_of(decide(text, plugins), "a") == ["n3", "n4"]

    def test_continues_in_the_domain_of_its_running_pods(self, plugins: str) -> None:
        """Rack 2 is empty, but the job runs in rack 1."""
        text = f"{RACKS}\njob a min=1 topology=hard:1: 1 x cpu=3 on=n1, 1 x cpu=3"
        assert nodes_of(decide(text, plugins), "a") == ["n2"]

    def test_stays_in_the_domain_of_its_running_pods(self, plugins: str) -> None:
        text = f"{RACKS}\njob a min=2 topology=hard:1: 2 x cpu=3 on=n1,n2, 1 x cpu=3"
        assert decide(text, plugins).of(Bind) == []

    def test_starts_with_its_minimum_if_not_all_pods_fit(self, plugins: str) -> None:
        text = f"{RACKS}\njob a min=2 topology=hard:1: 5 x cpu=3"
        assert len(nodes_of(decide(text, plugins), "a")) == 2

    def test_the_message_names_the_tier(self, plugins: str) -> None:
        assert decide(f"{RACKS}\njob a topology=hard:rack: 3 x cpu=3", plugins).of(Bind) == []
        assert len(decide(f"{RACKS}\njob a topology=hard:hall: 3 x cpu=3", plugins).of(Bind)) == 3

    def test_is_not_limited_by_an_unknown_tier_name(self, plugins: str) -> None:
        assert len(decide(f"{RACKS}\njob a topology=hard:row: 3 x cpu=3", plugins).of(Bind)) == 3

    def test_has_the_whole_cluster_as_the_tier_above_the_highest(self, plugins: str) -> None:
        text = "node n1 cpu=2\nnode n2 cpu=2\nhypernode r1 tier=1: n1\nhypernode r2 tier=1: n2\n"
        assert decide(f"{text}job a topology=hard:1: 2 x cpu=2", plugins).of(Bind) == []
        assert len(decide(f"{text}job a topology=hard:2: 2 x cpu=2", plugins).of(Bind)) == 2

    def test_has_the_whole_cluster_as_tier_1_without_hypernodes(self, plugins: str) -> None:
        text = "node n1 cpu=2\nnode n2 cpu=2\n"
        assert decide(f"{text}job a topology=hard:0: 2 x cpu=2", plugins).of(Bind) == []
        assert len(decide(f"{text}job a topology=hard:1: 2 x cpu=2", plugins).of(Bind)) == 2

    def test_places_unequal_pods_in_another_order_if_they_do_not_fit_one_by_one(self, plugins: str) -> None:
        """The leader takes the only third cpu, unless the workers are placed first."""
        text = """
            node a cpu=2
            node b cpu=4
            node c cpu=3
            node far cpu=64
            hypernode rack tier=1: a b c
            job x topology=hard:1: 1 x cpu=1 role=leader, 4 x cpu=2 role=worker
        """
        assert len(decide(text, plugins).of(Bind)) == 5
        assert nodes_of(decide(text, plugins), "x") == ["a", "b", "c"]

    def test_best_effort_pods_stay_in_the_domain_of_their_job(self, plugins: str) -> None:
        """A best-effort pod is placed by another action, in the domain of its job."""
        text = f"{RACKS}\njob a min=1 topology=hard:1: 1 x cpu=3 on=n3, 2 x cpu=0"
        assert set(nodes_of(decide(text, plugins), "a")) <= {"n3", "n4"}


def test_preferred_topology_is_satisfied_if_possible() -> None:
    text = f"{RACKS}\njob x: 1 x cpu=2 on=n1\njob a topology=soft: 2 x cpu=3"
    assert nodes_of(decide(text, PLUGINS), "a") == ["n3", "n4"]


def test_preferred_topology_does_not_block_the_job() -> None:
    assert len(decide(f"{RACKS}\njob a topology=soft: 4 x cpu=3", PLUGINS).of(Bind)) == 4


def test_a_hypernode_is_filled_before_the_next() -> None:
    text = f"{RACKS}\njob x: 1 x cpu=1 on=n4\njob a topology=hard:1: 2 x cpu=1"
    assert set(nodes_of(decide(text, PLUGINS), "a")) <= {"n3", "n4"}


def test_a_pod_without_topology_prefers_the_fuller_hypernode() -> None:
    text = f"{RACKS}\njob x: 1 x cpu=1 on=n4\njob a: 1 x cpu=1"
    assert nodes_of(decide(text, PLUGINS), "a") == ["n3"]


class TestMessages:
    def test_names_the_best_domain_and_its_insufficient_resources(self) -> None:
        explain = why(f"{RACKS}\njob x: 1 x cpu=2 on=n1\njob a topology=hard:1: 3 x cpu=3")
        assert explain.gate == "topology"
        assert explain.message == (
            "no hypernode of tier 1 or lower fits the 3 pods that must start together: "
            'hypernode "rack-2" is closest and lacks 1 cpu'
        )
        assert explain.unblocked_by == 'release of 1 cpu in hypernode "rack-2"'
        assert explain.numbers["tier"] == "1"

    def test_counts_placeable_pods_if_the_sum_suffices(self) -> None:
        """Rack 2 has 6 free cpus, but its two nodes of 3 fit only one pod of 2 each."""
        text = f"{RACKS}\njob x: 4 x cpu=1 on=n1,n2,n3,n4\njob a topology=hard:1: 3 x cpu=2"
        assert why(text).message == (
            "no hypernode of tier 1 or lower fits the 3 pods that must start together: "
            'hypernode "rack-1" is closest and fits 2'
        )

    def test_names_the_domain_that_the_job_must_stay_in(self) -> None:
        text = f"{RACKS}\njob a min=3 topology=hard:1: 2 x cpu=3 on=n1,n2, 1 x cpu=3"
        assert why(text).message == (
            'hypernode "rack-1", where pods of the job run, does not fit the pod: it lacks 1 cpu'
        )

    def test_reports_a_job_that_already_spans_a_higher_tier(self) -> None:
        text = f"{RACKS}\njob a min=3 topology=hard:1: 2 x cpu=1 on=n1,n3, 1 x cpu=1"
        assert why(text).message == ('running pods of the job exceed highestTierAllowed 1: they span hypernode "hall"')

    def test_reports_an_unknown_tier(self) -> None:
        assert why(f"{RACKS}\njob a topology=hard:0: 1 x cpu=1").message == "no hypernode of tier 0 or lower exists"

    def test_names_only_nodes_if_no_node_is_feasible(self) -> None:
        explain = why(f"{RACKS}\njob a topology=hard:1: 1 x cpu=5")
        assert explain.gate == "nodes"

    def test_reports_ignored_hypernodes(self) -> None:
        explain = why(f"{RACKS}\nhypernode other tier=1: n1\njob a topology=hard:1: 3 x cpu=4")
        assert explain.message.endswith(
            'hypernode "other" is ignored: node n1 is claimed by other and rack-1, 1 more ignored'
        )


class TestSubGroups:
    TWO = "2 x cpu=3 label.p/p=a, 2 x cpu=3 label.p/p=b"

    def test_places_unequal_pods_of_each_in_another_order(self) -> None:
        nodes = [f"node {rack}{node} cpu={cpu}" for rack in "rs" for node, cpu in (("a", 2), ("b", 4), ("c", 3))]
        text = "\n".join([*nodes, "hypernode r tier=1: ra rb rc", "hypernode s tier=1: sa sb sc"])
        pods = "1 x cpu=1 label.p/p={0}, 4 x cpu=2 label.p/p={0}"
        job = f"job x min=10 split=5 split.min=2 split.by=p/p split.topology=hard:1: {pods.format(1)}, {pods.format(2)}"
        assert len(decide(f"{text}\n{job}", PLUGINS).of(Bind)) == 10

    def test_each_sub_group_has_its_own_domain(self) -> None:
        text = f"{RACKS}\njob a topology=hard:2 split=2 split.by=p/p split.topology=hard:1: {self.TWO}"
        made = decide(text, PLUGINS)
        places = {bind.pod.rpartition("-")[2]: bind.node for bind in made.of(Bind)}
        assert {places["0"], places["1"]} in ({"n1", "n2"}, {"n3", "n4"})
        assert {places["2"], places["3"]} in ({"n1", "n2"}, {"n3", "n4"})

    def test_all_required_sub_groups_start_together(self) -> None:
        text = (
            f"{RACKS}\njob x: 1 x cpu=2 on=n4\njob a split=2 split.min=2 split.by=p/p split.topology=hard:1: {self.TWO}"
        )
        assert decide(text, PLUGINS).of(Bind) == []

    def test_the_minimum_of_sub_groups_starts(self) -> None:
        text = (
            f"{RACKS}\njob x: 1 x cpu=2 on=n4\n"
            f"job a min=2 split=2 split.min=1 split.by=p/p split.topology=hard:1: {self.TWO}"
        )
        assert nodes_of(decide(text, PLUGINS), "a") == ["n1", "n2"]

    def test_missing_sub_groups_are_reported(self) -> None:
        text = f"{RACKS}\njob a split=2 split.min=3 split.by=p/p: {self.TWO}"
        assert "sub-group" in why(text).message

    def test_a_sub_group_with_too_few_pods_is_the_reason_of_a_job_that_needs_it(self) -> None:
        explain = why(
            f"{RACKS}\njob a min=4 split=3 split.min=2 split.by=p/p: 3 x cpu=1 label.p/p=a, 2 x cpu=1 label.p/p=b"
        )
        assert explain.gate == "gang"
        assert explain.message == 'sub-group "part-b": 2/3 required pods created'

    @pytest.mark.parametrize("network", ["", "split.topology=hard:1"])
    def test_a_sub_group_with_too_few_pods_has_a_reason(self, network: str) -> None:
        pods = "3 x cpu=1 label.p/p=a, 2 x cpu=1 label.p/p=b"
        text = f"{RACKS}\njob a min=3 split=3 split.min=1 split.by=p/p {network}: {pods}"
        assert len(decide(text, PLUGINS).of(Bind)) == 3
        explain = why(text)
        assert explain.gate == "gang"
        assert explain.message == 'sub-group "part-b": 2/3 required pods created'

    def test_a_sub_group_without_a_domain_has_a_reason(self) -> None:
        text = f"{RACKS}\njob x: 2 x cpu=2 on=n1,n3\njob a split=2 split.min=2 split.by=p/p split.topology=hard:1: {self.TWO}"
        explain = why(text)
        assert explain.gate == "topology"
        assert explain.message.startswith("no hypernode fits each sub-group")

    def test_pods_without_a_sub_group_are_placed_with_the_job(self) -> None:
        text = f"{RACKS}\njob a split=2 split.by=p/p split.topology=hard:1: 2 x cpu=3 label.p/p=a, 1 x cpu=3"
        assert len(decide(text, PLUGINS).of(Bind)) == 3

    def test_sub_groups_work_without_a_topology(self) -> None:
        text = "node n1 cpu=2\nnode n2 cpu=2\njob a split=1 split.min=2 split.by=p/p: 1 x cpu=2 label.p/p=a, 1 x cpu=2 label.p/p=b"
        assert len(decide(text, PLUGINS).of(Bind)) == 2

    def test_sub_groups_that_fit_only_packed_together_start(self) -> None:
        """One by one, the first sub-group is spread over both nodes, and the large pod of the second fits none."""
        pods = "2 x cpu=2 label.p/p=a, 1 x cpu=3 label.p/p=b, 1 x cpu=1 label.p/p=b"
        text = f"node n1 cpu=4\nnode n2 cpu=4\njob a split=2 split.min=2 split.by=p/p: {pods}"
        assert len(decide(text, "gang, predicates, nodeorder").of(Bind)) == 4

    def test_no_sub_group_starts_in_part_when_the_gang_is_packed(self) -> None:
        pods = "2 x cpu=2 label.p/p=a, 1 x cpu=3 label.p/p=b"
        text = f"node n1 cpu=4\nnode n2 cpu=4\njob a split=2 split.min=1 split.by=p/p: {pods}"
        assert decide(text, "gang, predicates, nodeorder").of(Bind) == []


class TestOtherActions:
    def test_no_eviction_in_another_domain(self) -> None:
        """The low-priority job in rack 2 is a candidate, but that rack is too far from the running pod."""
        text = f"""{RACKS}
            class high value=10
            job low min=1: 1 x cpu=4 on=n3
            job own min=1 priority=high: 2 x cpu=4 on=n2,n4
            job a min=2 priority=high topology=hard:1: 1 x cpu=4 on=n1, 1 x cpu=4
        """
        made = decide(text, "priority, gang, predicates, network-topology-aware", "enqueue, allocate, preempt")
        assert violations(snapshot(text), made) == []
        assert [str(effect) for effect in made.effects if str(effect).startswith("evict")] == []

    def test_nominations_do_not_spread_a_job_over_domains(self) -> None:
        """The nominations date from when n1 and n3 were in one rack."""
        text = f"{RACKS}\njob a topology=hard:1: 1 x cpu=3 nominated=n1, 1 x cpu=3 nominated=n3"
        made = decide(text, PLUGINS)
        assert nodes_of(made, "a") in (["n1", "n2"], ["n3", "n4"])


class TestInvariants:
    def test_detects_a_job_that_spans_a_higher_tier(self) -> None:
        seen = snapshot(f"{RACKS}\njob a topology=hard:1: 2 x cpu=3")
        torn = Plan((Bind("default/a-0", "n1", "default/a"), Bind("default/a-1", "n3", "default/a")))
        assert topology_crossed(plan_outcome.read(seen, torn)[0]) == [
            "default/a spans network tier 2, highestTierAllowed is 1"
        ]
        assert topology_crossed(plan_outcome.read(seen, torn)[0])[0] in violations(seen, torn)

    def test_detects_a_sub_group_that_spans_a_higher_tier(self) -> None:
        seen = snapshot(f"{RACKS}\njob a split=2 split.by=p/p split.topology=hard:1: 2 x cpu=3 label.p/p=a")
        torn = Plan((Bind("default/a-0", "n1", "default/a"), Bind("default/a-1", "n3", "default/a")))
        assert topology_crossed(plan_outcome.read(seen, torn)[0]) == [
            "default/a/part-a spans network tier 2, highestTierAllowed is 1"
        ]


class TestForest:
    def test_members_are_named_matched_or_labelled(self) -> None:
        seen = snapshot(
            """
            node n1
            node n2
            node x3
            node x4 example.com/rack=b
            hypernode a tier=1: n1
            hypernode b tier=1: /^n2|x3$/
            hypernode c tier=1: example.com/rack=b
            """
        )
        table = seen.hypernodes
        assert [table.names[row] for row in table.of_node] == ["a", "b", "b", "c"]
        assert table.faults == ()

    @pytest.mark.parametrize(
        ("lines", "fault"),
        [
            (
                "hypernode a tier=1: n1\nhypernode b tier=1: n1",
                'hypernode "a" is ignored: node n1 is claimed by a and b',
            ),
            (
                "hypernode a tier=1: n1\nhypernode p tier=2: a\nhypernode q tier=2: a",
                'hypernode "p" is ignored: hypernode a is claimed by p and q',
            ),
            (
                "hypernode a tier=1: b\nhypernode b tier=1: a",
                'hypernode "a" is ignored: it is of tier 1 and contains b, which is of tier 1',
            ),
            ("hypernode a tier=1: /[/", "hypernode \"a\" is ignored: its pattern '[' is not a regular expression"),
        ],
    )
    def test_contradicting_hypernodes_are_ignored(self, lines: str, fault: str) -> None:
        table = snapshot(f"node n1\nnode n2\nhypernode good tier=1: n2\n{lines}").hypernodes
        assert fault in table.faults
        assert "good" in table.names
        assert table.names[table.of_node[1]] == "good"

    def test_a_missing_hypernode_is_no_member(self) -> None:
        table = snapshot("node n1\nhypernode a tier=1: n1\nhypernode b tier=2: a ghost").hypernodes
        assert table.faults == ()
        assert table.nodes(table.names.index("b")).tolist() == [0]

    def test_it_is_rebuilt_only_if_it_changes(self) -> None:
        state = State()
        for obj in world(RACKS):
            state.upsert(obj)
        first = state.snapshot(NOW).hypernodes
        node = state.snapshot(NOW).nodes.traits.objects[0]
        state.upsert(core.Node(metadata=node.metadata, spec=core.NodeSpec(unschedulable=True), status=node.status))
        assert state.snapshot(NOW).hypernodes is first
        state.delete(topology_read.HyperNode(metadata=core.Meta(name="hall")))
        assert "hall" not in state.snapshot(NOW).hypernodes.names
        state.upsert(core.Node(metadata=core.Meta(name="n5")))
        assert len(state.snapshot(NOW).hypernodes.of_node) == 5

    def test_members_are_selected_by_labels(self) -> None:
        state = State()
        for obj in world("node n1 example.com/rack=a\nhypernode a tier=1: example.com/rack=a"):
            state.upsert(obj)
        assert state.snapshot(NOW).hypernodes.of_node.tolist() == [0]
        state.upsert(core.Node(metadata=core.Meta(name="n1", labels={"example.com/rack": "b"})))
        assert state.snapshot(NOW).hypernodes.of_node.tolist() == [1]


def test_sub_groups_follow_policy_changes() -> None:
    """Pods may be observed before their group, and a group may change its policy."""
    objects = world("node n1\njob a split=1 split.by=p/p: 1 x cpu=1 label.p/p=a, 1 x cpu=1 label.p/p=b")
    group = next(item for item in objects if isinstance(item, core.PodGroup))
    state = State()
    for obj in reversed(objects):
        state.upsert(obj)
    row = state.snapshot(NOW).jobs.keys.tolist().index("default/a")
    assert len(state.snapshot(NOW).parts(row)) == 2
    state.upsert(core.PodGroup(metadata=group.metadata, status=group.status))
    assert list(state.snapshot(NOW).parts(row)) == [-1]


def test_a_sub_group_that_its_queue_may_not_allocate_has_a_reason_beside_one_that_started() -> None:
    plan = decide(
        """
        node  n1 cpu=2
        node  n2 cpu=2
        queue a weight=1
        queue b weight=1
        job   r queue=b phase=Running: 1 x cpu=1 on=n1
        job   w min=1 queue=a split=2 split.by=part split.min=0: 3 x cpu=1 role=x label.part=a, 1 x cpu=2 role=y label.part=b
        """,
        "gang, predicates, proportion",
    )
    assert "explain w [nodes]: too little is free in the cluster: cpu requested 2, allocated 4, capacity 4" in str(plan)


def test_a_line_of_an_unknown_kind_is_rejected() -> None:
    with pytest.raises(NotationError, match="hypernode"):
        world("hyper x tier=1: n1")


def test_the_example_of_the_document_has_the_documented_plan() -> None:
    document = (Path(__file__).parents[2] / "docs" / "topology.md").read_text("utf-8")
    code, said = re.findall(r"```(?:python|text)\n(.*?)```", document.split("## Try it")[1], re.DOTALL)[:2]
    printed: list[str] = []
    exec(code, {"print": lambda plan: printed.append(str(plan))})
    assert printed[0].splitlines() == said.strip().splitlines()
