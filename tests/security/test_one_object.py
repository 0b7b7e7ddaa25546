"""What admission accepts, every later reader can process: one job through schema, webhook, controller, scheduler, CLI and page."""

import pytest

from tests.security import one_object
from volcanopy.admission import jobs

SEEDS = range(300)


def test_a_job_is_rejected_with_a_sentence_or_processed_by_all() -> None:
    outcomes = {one_object.outcome(one_object.made(seed)) for seed in SEEDS}
    assert outcomes == {"schema", "admission", "processed"}


@pytest.mark.parametrize("amount", ["1e3Ki", " 1", "9" * 1001, "abc"])
def test_without_the_check_of_amounts_such_a_job_is_admitted_and_fails(
    amount: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test finds what it is for."""
    job = one_object.made(0)
    container = {"name": "a", "image": "b", "resources": {"requests": {"cpu": amount}}}
    job = {**job, "metadata": {**job["metadata"], "name": "job", "annotations": {}}}
    job["spec"] = {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [container]}}}]}
    assert one_object.outcome(job) in {"schema", "admission"}
    monkeypatch.setattr(jobs, "children_problems", lambda job: ())
    try:
        fault = one_object.outcome(job) == "schema"
    except (AssertionError, ValueError):
        fault = True
    assert fault
