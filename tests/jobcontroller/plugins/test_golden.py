"""The pods and objects that the plugins make, and the reference of them, are as the files say.

``python -m tests.jobcontroller.plugins.writing`` writes the files anew: look at the difference before it is kept.
"""

import pytest

from tests.jobcontroller.plugins.cases import CASES, objects
from tests.jobcontroller.plugins.writing import GOLDEN, REFERENCE, golden, reference
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS


@pytest.mark.parametrize("name", CASES)
def test_the_pods_are_as_the_file_says(name: str) -> None:
    assert golden(CASES[name]) == (GOLDEN / f"{name}.yaml").read_text()


def test_there_is_a_file_for_each_plugin_and_none_besides() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)
    assert set(JOB_PLUGINS) <= set(CASES)


def test_the_reference_is_up_to_date() -> None:
    assert REFERENCE.read_text() == reference()


@pytest.mark.parametrize("name", CASES)
def test_every_object_belongs_to_the_job_and_goes_with_it(name: str) -> None:
    for found in objects(CASES[name]).values():
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("BatchJob", "u1", True)
        assert found["metadata"]["namespace"] == "ns"
        assert found["metadata"]["labels"] == {"volcanopy.io/job-name": "job"}
