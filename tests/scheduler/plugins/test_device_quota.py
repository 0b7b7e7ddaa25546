"""capacity: limits on the devices of a class that a queue claims."""

import pytest

from tests.scheduler.plugins.scene import configured, seen
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.engine.shares.share_rules import ShareRules
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.plan import SetQueue
from volcanopy.scheduler.policies.quota.capacity import Capacity, CapacityArguments
from volcanopy_testing.notation import snapshot

DEVICES = """
    node n1 cpu=16
    deviceclass gpu driver=gpu.example.com
    devices n1 count=8
    claim card class=gpu
    claim pair class=gpu count=2
"""


def rejected(
    text: str, task: str, count: int = 1, *, hierarchy: bool = False, on: bool = True, parts: bool = False
) -> str:
    """Return the reason why the queue rejects so many more tasks; empty if it accepts them."""
    plugin = Capacity(
        CapacityArguments.model_validate(
            {"capacity.DynamicResourceAllocationEnable": on, "capacity.DRAConsumableCapacityEnable": parts}
        ),
        Cluster(Ledger(snapshot(DEVICES + text))),
        hierarchy,
    )
    view = plugin.cluster.task(plugin.cluster.snapshot.task_rows[f"default/{task}"])
    assert view.job is not None
    denial = ShareRules(plugin, plugin.cluster).limit_rejection(view.job.queue, view, count)
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


PARTS = """
    node n1 cpu=16
    deviceclass gpu driver=gpu.example.com
    devices n1 count=4 capacity.cores=400
    claim part class=gpu capacity.cores=300
    claim rest class=gpu capacity.cores=200
    queue q capability.deviceclass/gpu=2 capability.cores.deviceclass/gpu=400
"""


def test_what_claims_request_of_a_capacity_is_limited_if_enabled() -> None:
    text = f"{PARTS}\njob r queue=q: 1 x cpu=1 on=n1 claim=part\njob a queue=q: 1 x cpu=1 claim=rest"
    assert rejected(text, "a-0", parts=True) == (
        'queue "q" capability exceeded: cores of devices of class "gpu" requested 200, allocated 300, capability 400'
    )
    assert rejected(text, "a-0") == ""


def test_a_capacity_without_a_limit_is_not_limited() -> None:
    text = f"{PARTS.replace('cores.', 'memory.')}\njob a queue=q: 1 x cpu=1 claim=part"
    assert rejected(text, "a-0", parts=True) == ""


def test_the_status_of_a_queue_has_the_devices_that_its_claims_hold() -> None:
    text = f"{PARTS}\njob r queue=q: 2 x cpu=1 on=n1 claim=part\njob a queue=q: 1 x cpu=1 claim=rest"
    config = configured({"gang": {}, "predicates": {}, "capacity": {"capacity.DRAConsumableCapacityEnable": True}})
    statuses = {effect.queue: effect.allocated for effect in schedule(seen(text), config).of(SetQueue)}
    assert statuses["q"] == {"cpu": "2", "pods": "2", "deviceclass/gpu": "1", "cores.deviceclass/gpu": "300"}
