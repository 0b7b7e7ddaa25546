"""Which worker runs which tests."""

from tests.distribution import is_alone, next_unit, unit, uses_control_plane

PURE, EMBEDDED, REAL = (
    "tests/api/test_a.py::test",
    "tests/e2e/test_b.py::test[embedded]",
    "tests/e2e/test_b.py::test[real]",
)
STORY = "packages/apiserver/tests/contract/test_stories.py::test_story[pods]"
QUEUE = {"pure": [PURE], "both": [EMBEDDED, REAL], "story": [STORY]}


def test_tests_with_the_parameter_real_and_stories_use_a_control_plane() -> None:
    used = [nodeid for nodeid in (PURE, EMBEDDED, REAL, STORY) if uses_control_plane(nodeid)]
    assert used == [REAL, STORY]


def test_workers_without_a_control_plane_leave_its_units_to_another() -> None:
    assert next_unit("w1", QUEUE, {}) == "both"
    assert next_unit("w2", QUEUE, {"w1": {"x": [REAL]}}) == "pure"
    assert next_unit("w2", QUEUE, {"w1": {"y": [EMBEDDED, STORY]}, "w2": {}}) == "pure"


def test_a_worker_with_a_control_plane_keeps_to_its_units() -> None:
    assert next_unit("w1", QUEUE, {"w1": {"x": [REAL], "y": [PURE]}, "w2": {"z": [REAL]}}) == "both"


def test_a_worker_takes_any_unit_when_none_of_its_own_is_left() -> None:
    assert next_unit("w1", {"pure": [PURE]}, {"w1": {"x": [REAL]}}) is None
    assert next_unit("w3", {"both": [REAL]}, {"w1": {"x": [REAL]}, "w2": {"y": [REAL]}}) is None


def test_a_file_is_a_unit_unless_it_is_listed() -> None:
    assert unit(REAL) == "tests/e2e/test_b.py"
    assert unit("tests/e2e/test_ha.py::test") == unit("tests/e2e/test_crashes.py::test")
    assert unit("tests/docs/test_pages.py::test[a]") != unit("tests/docs/test_pages.py::test[b]")


def test_the_tests_of_a_case_of_the_table_are_a_unit() -> None:
    table = "tests/scheduler/long_run/test_table.py::test"
    assert unit(f"{table}_shares[elastic jobs]") == unit(f"{table}_waits[elastic jobs]")
    assert unit(f"{table}_shares[elastic jobs]") != unit(f"{table}_shares[flat queues]")


def test_tests_of_commands_that_share_a_cluster_are_named() -> None:
    used = [
        is_alone(f"tests/cli/test_{name}.py::test", ["tmp_path", "cluster"]) for name in ("new", "top", "functions")
    ]
    assert used == [True, False, False]
    assert not is_alone("tests/cli/test_new.py::test", ["tmp_path"])
    assert not is_alone(EMBEDDED, ["cluster"])
