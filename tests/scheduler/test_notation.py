"""A key or flag that a line of a cluster state does not have is an error: it would be ignored."""

import pytest

from volcanopy_testing.notation import NotationError, world


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("node n1 cpus=4", "node n1: 'node' has no key 'cpus', did you mean 'cpu'?"),
        ("queue q wieght=2", "queue q: 'queue' has no key 'wieght', did you mean 'weight'?"),
        ("queue q capabilty.cpu=2", "queue q: 'queue' has no key 'capabilty.cpu', did you mean 'capability.'?"),
        ("queue q close", "queue q: 'queue' has no key 'close', did you mean 'closed'?"),
        ("job a minn=2: 2 x cpu=1", "job a: 'job' has no key 'minn', did you mean 'min'?"),
        ("job a: 2 x cpu=1 startd=60", "tasks a: 'tasks' has no key 'startd', did you mean 'started'?"),
        ("pv v1 sise=1Gi", "pv v1: 'pv' has no key 'sise', did you mean 'size'?"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_a_similar_one(line: str, text: str) -> None:
    with pytest.raises(NotationError) as raised:
        world(line)
    assert str(raised.value) == text


def test_labels_annotations_and_extended_resources_are_free() -> None:
    assert len(world("node n1 cpu=4 example.com/fpga=2 team/rack=b label.kind=x note.any=1")) == 2
