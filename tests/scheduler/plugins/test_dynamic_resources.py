"""Device claims: feasible nodes, allocation and sharing."""

import pytest

from volcanopy.scheduler.model.plan import Bind
from volcanopy_testing.notation import decide, plan

PLUGINS = "gang, priority | predicates, nodeorder, proportion"
NONE_LEFT = "cannot allocate all claims"


def test_a_pod_is_placed_where_its_claim_finds_a_device() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            node n2 cpu=4
            deviceclass gpu driver=gpu.example.com
            devices n2 count=1
            claim card class=gpu
            job a: 1 x cpu=1 claim=card
            """,
            PLUGINS,
        )
        == "bind a-0 -> n2 (card=0)"
    )


def test_a_device_has_what_the_claim_requests_of_its_capacities() -> None:
    text = """
        node n1 cpu=4
        node n2 cpu=4
        deviceclass gpu driver=gpu.example.com
        devices n1 count=1 capacity.memory=8Gi
        devices n2 count=1 capacity.memory=40Gi
        claim part class=gpu capacity.memory=10Gi
        job a: 1 x cpu=1 claim=part
    """
    assert plan(text, PLUGINS) == "bind a-0 -> n2 (part=0)"
    assert NONE_LEFT in str(plan(text.replace("10Gi", "50Gi"), PLUGINS))
    assert NONE_LEFT in str(
        plan(text.replace("part class=gpu capacity.memory", "part class=gpu capacity.cores"), PLUGINS)
    )


def test_the_allocation_names_the_device_and_the_node() -> None:
    made = decide(
        """
        node n1 cpu=4
        deviceclass gpu driver=gpu.example.com
        devices n1 count=2
        claim card class=gpu count=2
        job a: 1 x cpu=1 claim=card
        """,
        PLUGINS,
    )
    bind: Bind = made.of(Bind)[0]
    assert bind.claims is not None
    assert bind.claims.devices[0].allocation == {
        "devices": {
            "results": [
                {"request": "request", "driver": "gpu.example.com", "pool": "n1", "device": "0"},
                {"request": "request", "driver": "gpu.example.com", "pool": "n1", "device": "1"},
            ]
        },
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        },
    }


def test_pods_of_a_gang_get_different_devices() -> None:
    assert (
        plan(
            """
            node n1 cpu=8
            node n2 cpu=8
            deviceclass gpu driver=gpu.example.com
            devices n1 count=2
            devices n2 count=1
            claim a-0-gpu class=gpu owner=a-0
            claim a-1-gpu class=gpu owner=a-1
            claim a-2-gpu class=gpu owner=a-2
            job a: 3 x cpu=1 template=gpu
            """,
            "gang | predicates, binpack",
        )
        == """
        bind a-0 -> n1 (a-0-gpu=0)
        bind a-1 -> n1 (a-1-gpu=1)
        bind a-2 -> n2 (a-2-gpu=0)
        """
    )


def test_a_gang_with_insufficient_devices_is_assigned_none() -> None:
    assert (
        plan(
            """
            node n1 cpu=8
            deviceclass gpu driver=gpu.example.com
            devices n1 count=1
            claim a-0-gpu class=gpu owner=a-0
            claim a-1-gpu class=gpu owner=a-1
            claim other class=gpu
            job a: 2 x cpu=1 template=gpu
            job b: 1 x cpu=1 claim=other
            """,
            PLUGINS,
        ).lines[0]
        == "bind b-0 -> n1 (other=0)"
    )


def test_pods_that_share_a_claim_share_its_devices_and_their_node() -> None:
    assert (
        plan(
            """
            node n1 cpu=1
            node n2 cpu=4
            deviceclass gpu driver=gpu.example.com
            devices n1 count=1
            devices n2 count=1
            claim card class=gpu
            job a: 2 x cpu=2 claim=card
            """,
            PLUGINS,
        )
        == """
        bind a-0 -> n2 (card=0)
        bind a-1 -> n2
        """
    )


def test_a_shared_claim_in_use_restricts_a_pod_to_its_node() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            node n2 cpu=4
            deviceclass gpu driver=gpu.example.com
            devices n2 count=1
            claim card class=gpu has=n2/0 users=old-0
            job old: 1 x cpu=1 claim=card on=n2
            job a: 1 x cpu=1 claim=card
            """,
            PLUGINS,
        )
        == "bind a-0 -> n2"
    )


def test_an_allocated_device_is_not_assigned_again() -> None:
    assert plan(
        """
        node n1 cpu=4
        deviceclass gpu driver=gpu.example.com
        devices n1 count=2
        claim first class=gpu has=n1/0 users=old-0
        claim second class=gpu
        claim third class=gpu
        job old: 1 x cpu=1 claim=first on=n1
        job a: 1 x cpu=1 claim=second
        job b: 1 x cpu=1 claim=third
        """,
        PLUGINS,
    ).lines == [
        "bind a-0 -> n1 (second=1)",
        f"podgroup b Inqueue Unschedulable: 0/1 nodes are available: 1 {NONE_LEFT}",
    ]


def test_an_unused_allocation_is_replaced() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            node n2 cpu=1
            deviceclass gpu driver=gpu.example.com
            devices n1 count=1
            devices n2 count=1
            claim card class=gpu has=n2/0
            job a: 1 x cpu=2 claim=card
            """,
            PLUGINS,
        )
        == "bind a-0 -> n1 (card=0)"
    )


@pytest.mark.parametrize("node", ["node n1 cpu=1", ""], ids=["the node is full", "the node is gone"])
def test_devices_left_from_an_interrupted_bind_do_not_keep_a_pod_on_their_node(node: str) -> None:
    """The claim is reserved for the pod, and the pod has no node."""
    assert (
        plan(
            f"""
            {node}
            node n2 cpu=4
            deviceclass gpu driver=gpu.example.com
            devices n1 count=1
            devices n2 count=1
            claim a-0-gpu class=gpu has=n1/0 users=a-0 owner=a-0
            {node and "job old: 1 x cpu=1 on=n1"}
            job a: 1 x cpu=1 template=gpu
            """,
            PLUGINS,
        )
        == "bind a-0 -> n2 (a-0-gpu=0)"
    )


@pytest.mark.parametrize("request_", ["all", "count=33"])
def test_a_claim_gets_no_more_devices_than_the_api_server_accepts(request_: str) -> None:
    assert plan(
        f"""
        node n1 cpu=4
        deviceclass gpu driver=gpu.example.com
        devices n1 count=33
        claim most class=gpu count=32
        claim many class=gpu {request_}
        job a: 1 x cpu=1 claim=many
        job b: 1 x cpu=1 claim=most
        """,
        PLUGINS,
    ).lines == [
        f"bind b-0 -> n1 (most={'+'.join(map(str, range(32)))})",
        "podgroup a Inqueue Unschedulable: 0/1 nodes are available: "
        '1 request "request" exceeds the 32 devices that a resourceclaim may have',
    ]


def test_selectors_choose_among_the_devices() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            node n2 cpu=4
            deviceclass gpu driver=gpu.example.com
            devices n1 count=1 model=t4
            devices n2 count=1 model=a100
            claim card class=gpu model=a100
            job a: 1 x cpu=1 claim=card
            """,
            PLUGINS,
        )
        == "bind a-0 -> n2 (card=0)"
    )


def test_a_failing_expression_rejects_the_node_with_a_message() -> None:
    """A device lacks the attribute, and the expression does not test for it."""
    assert plan(
        """
            node n1 cpu=4
            deviceclass gpu driver=gpu.example.com
            devices n1 count=1
            claim card class=gpu model=a100
            job a: 1 x cpu=1 claim=card
            """,
        PLUGINS,
    ).lines == [
        "podgroup a Inqueue Unschedulable: 0/1 nodes are available: 1 CEL expression "
        '\'device.attributes["gpu.example.com"].model == "a100"\' fails on device 0: no such key: model'
    ]


def test_all_devices_of_a_node_are_taken_when_all_are_free() -> None:
    assert plan(
        """
        node n1 cpu=4
        node n2 cpu=4
        deviceclass gpu driver=gpu.example.com
        devices n1 count=2
        devices n2 count=3
        claim one class=gpu has=n1/1 users=old-0
        claim whole class=gpu all
        job old: 1 x cpu=1 claim=one on=n1
        job a: 1 x cpu=1 claim=whole
        """,
        PLUGINS,
    ).lines == ["bind a-0 -> n2 (whole=0+1+2)"]


def test_devices_agree_in_the_attribute_that_a_constraint_names() -> None:
    """Each card of a node has a different number, so no two of a node match."""
    world = """
        node n1 cpu=4
        deviceclass gpu driver=gpu.example.com
        devices n1 count=2 {each} model=a100
        claim pair class=gpu count=2 match={match}
        job a: 1 x cpu=1 claim=pair
        """
    assert plan(world.format(each="each=socket", match="model"), PLUGINS) == "bind a-0 -> n1 (pair=0+1)"
    assert plan(world.format(each="each=socket", match="socket"), PLUGINS).lines == [
        f"podgroup a Inqueue Unschedulable: 0/1 nodes are available: 1 {NONE_LEFT}"
    ]


def test_admin_access_does_not_use_up_a_device() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            deviceclass gpu driver=gpu.example.com
            devices n1 count=1
            claim used class=gpu has=n1/0 users=old-0
            claim watch class=gpu admin
            job old: 1 x cpu=1 claim=used on=n1
            job a: 1 x cpu=1 claim=watch
            """,
            PLUGINS,
        )
        == "bind a-0 -> n1 (watch=0)"
    )


def test_network_devices_are_usable_from_every_node_once() -> None:
    assert (
        plan(
            """
            node n1 cpu=1
            node n2 cpu=1
            deviceclass gpu driver=gpu.example.com
            devices rack everywhere count=2
            claim one class=gpu
            claim two class=gpu
            job a: 1 x cpu=1 claim=one
            job b: 1 x cpu=1 claim=two
            """,
            PLUGINS,
        )
        == """
        bind a-0 -> n1 (one=0)
        bind b-0 -> n2 (two=1)
        """
    )


def test_a_pod_waits_until_its_claim_is_created() -> None:
    assert plan(
        """
        node n1 cpu=4
        deviceclass gpu driver=gpu.example.com
        job a: 1 x cpu=1 template=gpu
        """,
        PLUGINS,
    ).lines == ['podgroup a Inqueue Unschedulable: 0/1 nodes are available: 1 resourceclaim "a-0-gpu" not found']


def test_the_message_names_a_missing_class() -> None:
    assert plan(
        """
        node n1 cpu=4
        claim card class=tpu
        job a: 1 x cpu=1 claim=card
        """,
        PLUGINS,
    ).lines == ["podgroup a Inqueue Unschedulable: 0/1 nodes are available: 1 device class tpu does not exist"]


def test_a_preemptor_gets_the_device_of_its_victim() -> None:
    assert plan(
        """
            class low value=1
            class high value=1000
            node n1 cpu=8
            deviceclass gpu driver=gpu.example.com
            devices n1 count=1
            claim used class=gpu has=n1/0 users=old-0
            claim wanted class=gpu
            job old min=0 priority=low: 1 x cpu=1 claim=used on=n1 priority=1
            job new priority=high: 1 x cpu=1 claim=wanted priority=1000
            """,
        "gang, priority, conformance | predicates, nodeorder, proportion",
        "enqueue, allocate, preempt",
    ).lines[:2] == ["evict old-0: preempt", "nominate new-0 -> n1"]


def test_a_terminating_device_is_awaited_and_not_bound() -> None:
    assert plan(
        """
        node n1 cpu=8
        deviceclass gpu driver=gpu.example.com
        devices n1 count=1
        claim used class=gpu has=n1/0 users=old-0
        claim wanted class=gpu
        job old: 1 x cpu=1 claim=used on=n1 releasing
        job new: 1 x cpu=1 claim=wanted
        """,
        PLUGINS,
    ).lines[-1:] == ["podgroup new Inqueue Unschedulable: waiting for 1 pod to terminate"]
