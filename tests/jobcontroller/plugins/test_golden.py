"""The pods and objects of the plugins, and their reference, equal the golden files.

``python -m tests.jobcontroller.plugins.writing`` rewrites the files: review the difference.
"""

import pytest

from tests.jobcontroller.plugins.cases import CASES, objects
from tests.jobcontroller.plugins.writing import GOLDEN, REFERENCE, golden, reference
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS


@pytest.mark.parametrize("name", CASES)
def test_the_pods_equal_the_golden_file(name: str) -> None:
    assert golden(CASES[name]) == (GOLDEN / f"{name}.yaml").read_text()


def test_each_plugin_has_a_golden_file() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)
    assert set(JOB_PLUGINS) <= set(CASES)


def test_the_reference_is_up_to_date() -> None:
    assert REFERENCE.read_text() == reference()


@pytest.mark.parametrize("name", CASES)
def test_every_object_is_owned_by_the_job(name: str) -> None:
    for obj in objects(CASES[name]).values():
        (owner,) = obj["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("BatchJob", "u1", True)
        assert obj["metadata"]["namespace"] == "ns"
        assert obj["metadata"]["labels"] == {"volcanopy.io/job-name": "job"}
