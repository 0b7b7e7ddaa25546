"""Options for the fields of a queue's spec."""

import pytest

from volcanopy.cli.queues.spec_options import SpecOptions, parse_amounts
from volcanopy.client.errors import CommandError


def test_only_given_fields_are_set() -> None:
    assert SpecOptions().spec() == {}
    options = SpecOptions(
        weight=2, capability="cpu=4,memory=8Gi", guarantee="cpu=1", reclaimable=False, max_running_jobs=5
    )
    assert options.spec() == {
        "weight": 2,
        "capability": {"cpu": "4", "memory": "8Gi"},
        "guarantee": {"resource": {"cpu": "1"}},
        "reclaimable": False,
        "maxRunningJobs": 5,
    }


def test_empty_texts_remove_fields() -> None:
    options = SpecOptions(capability="", guarantee="", type="", max_queued_jobs=-1)
    assert options.spec() == {
        "capability": None,
        "guarantee": None,
        "maxQueuedJobs": None,
        "type": None,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu", "'cpu' is invalid: use NAME=QUANTITY, such as cpu=4 or memory=8Gi"),
        ("cpu=", "'cpu=' is invalid: use NAME=QUANTITY, such as cpu=4 or memory=8Gi"),
        ("cpu=4,cpu=5", "cpu is given twice"),
        ("cpu=-1", "cpu '-1' is negative: use 0 or more"),
        ("cpu=many", "cpu: 'many' is not a quantity"),
    ],
)
def test_invalid_amounts_are_rejected(text: str, message: str) -> None:
    with pytest.raises(CommandError) as error:
        parse_amounts("--capability", text)
    assert str(error.value).startswith(f"--capability: {message}")
    assert error.value.status == 2
