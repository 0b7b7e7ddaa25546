"""capacity: limits on the devices of a class that a queue claims."""

import pytest

from tests.scheduler.plugins.scene import argument_error
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.plugins.capacity import Capacity, CapacityArguments
from volcanopy.testing.notation import snapshot

DEVICES = """
    node n1 cpu=16
    deviceclass gpu driver=gpu.example.com
    devices n1 count=8
    claim card class=gpu
    claim pair class=gpu count=2
"""


def rejected(text: str, task: str, count: int = 1, *, hierarchy: bool = False, on: bool = True) -> str:
    """Return the reason why the queue rejects so many more tasks; empty if it accepts them."""
    plugin = Capacity(
        CapacityArguments.model_validate({"capacity.DynamicResourceAllocationEnable": on}),
        Cluster(Ledger(snapshot(DEVICES + text))),
        hierarchy,
    )
    view = plugin.cluster.task(plugin.cluster.snapshot.task_rows[f"default/{task}"])
    assert view.job is not None
    denial = plugin.allocatable(view.job.queue, view, count)
    return "" if denial is None else str(denial.reason)


OWN = """
    claim a-0-gpu class=gpu owner=a-0
    claim a-1-gpu class=gpu owner=a-1
    claim a-2-gpu class=gpu owner=a-2
"""


@pytest.mark.parametrize(("limit", "count", "may"), [(2, 2, True), (2, 3, False), (0, 3, True)])
def test_device_claims_of_a_queue_are_limited(limit: int, count: int, may: bool) -> None:
    text = f"{OWN}\nqueue q capability.deviceclass/gpu={limit}\njob a queue=q: 3 x cpu=1 template=gpu"
    assert (rejected(text, "a-0", count) == "") is may


def test_running_pods_count_and_the_message_has_the_amounts() -> None:
    text = "queue q capability.deviceclass/gpu=2\njob r queue=q: 1 x cpu=1 on=n1 claim=card\njob a queue=q: 1 x cpu=1 claim=pair"
    assert (
        rejected(text, "a-0")
        == 'queue "q" capability exceeded: devices of class "gpu" requested 2, allocated 1, capability 2'
    )


def test_a_claim_that_pods_share_counts_once() -> None:
    text = "queue q capability.deviceclass/gpu=1\njob r queue=q: 1 x cpu=1 on=n1 claim=card\njob a queue=q: 2 x cpu=1 claim=card"
    assert rejected(text, "a-0", 2) == ""


def test_device_claims_of_leaf_queues_count_for_their_ancestors() -> None:
    text = """
        queue root
        queue q parent=root capability.deviceclass/gpu=1
        queue x parent=q
        queue y parent=q
        job r queue=x: 1 x cpu=1 on=n1 claim=card
        job a queue=y: 1 x cpu=1 claim=pair
    """
    assert rejected(text, "a-0", hierarchy=True).startswith(
        'queue "q" capability exceeded: devices of class "gpu" requested 2, allocated 1, capability 1'
    )
    assert rejected(text, "a-0") == ""


def test_pods_without_claims_and_classes_without_limits_are_accepted() -> None:
    text = "queue q capability.deviceclass/other=1\njob a queue=q: 1 x cpu=1 claim=pair\njob b queue=q: 1 x cpu=1"
    assert (rejected(text, "a-0"), rejected(text, "b-0")) == ("", "")


def test_devices_are_not_counted_if_disabled() -> None:
    text = "queue q capability.deviceclass/gpu=1\njob a queue=q: 1 x cpu=1 claim=pair"
    assert rejected(text, "a-0", on=False) == ""


def test_limits_on_parts_of_devices_are_rejected() -> None:
    assert argument_error("capacity", {"capacity.DRAConsumableCapacityEnable": True}) == (
        "capacity.DRAConsumableCapacityEnable: must be false: devices are limited by their number, not by parts of them,"
        " not True"
    )
