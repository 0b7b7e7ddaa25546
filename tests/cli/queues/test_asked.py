"""What options say about a queue's spec."""

import pytest

from volcanopy.cli.errors import CommandError
from volcanopy.cli.queues.spec_options import Fields, amounts


def test_only_what_is_given_is_said() -> None:
    assert Fields().spec() == {}
    asked = Fields(weight=2, capability="cpu=4,memory=8Gi", guarantee="cpu=1", reclaimable=False, max_running_jobs=5)
    assert asked.spec() == {
        "weight": 2,
        "capability": {"cpu": "4", "memory": "8Gi"},
        "guarantee": {"resource": {"cpu": "1"}},
        "reclaimable": False,
        "maxRunningJobs": 5,
    }


def test_what_is_empty_is_taken_away() -> None:
    asked = Fields(capability="", guarantee="", type="", max_queued_jobs=-1, priority_offset=-1)
    assert asked.spec() == {
        "capability": None,
        "guarantee": None,
        "maxQueuedJobs": None,
        "priorityOffset": -1,
        "type": None,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cpu", "'cpu' is no amount, such as cpu=4 or memory=8Gi"),
        ("cpu=", "'cpu=' is no amount, such as cpu=4 or memory=8Gi"),
        ("cpu=4,cpu=5", "cpu is given twice"),
        ("cpu=-1", "cpu cannot be less than nothing: -1"),
        ("cpu=many", "cpu: 'many' is not a quantity"),
    ],
)
def test_what_is_no_amount_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(CommandError) as stopped:
        amounts("--capability", text)
    assert str(stopped.value).startswith(f"--capability: {said}")
    assert stopped.value.status == 2
