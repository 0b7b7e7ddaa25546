"""What admission accepts, every later reader can process: an object of each kind through schema, webhook, controllers, scheduler, CLI and page."""

import pytest

from tests.security import every_kind

SEEDS = range(60)


@pytest.mark.parametrize("kind", every_kind.READERS)
def test_an_object_is_rejected_with_a_sentence_or_processed_by_all(kind: str) -> None:
    outcomes = {every_kind.outcome(every_kind.made(kind, seed)) for seed in SEEDS}
    assert {"schema", "processed"} <= outcomes
