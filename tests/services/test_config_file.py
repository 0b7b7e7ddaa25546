from pathlib import Path

import pytest
from structlog.testing import capture_logs

from volcanopy.kube.metrics.registry import REGISTRY
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import default
from volcanopy.services.scheduler.config_file import ConfigFile

GOOD = 'actions: "allocate"\ntiers: []\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.conf"
    path.write_text(GOOD)
    return path


def test_without_a_file_the_default_applies() -> None:
    configuration = ConfigFile(None, builtin())
    assert configuration.current == default(builtin())
    assert not configuration.reload()


def test_a_changed_file_is_loaded(file: Path) -> None:
    configuration = ConfigFile(file, builtin())
    file.write_text('actions: "enqueue, allocate"\ntiers: []\n')
    assert configuration.reload()
    assert configuration.current.actions == ("enqueue", "allocate")


def test_an_equivalent_file_changes_nothing(file: Path) -> None:
    configuration = ConfigFile(file, builtin())
    file.write_text("# a comment\n" + GOOD)
    assert not configuration.reload()


def test_an_invalid_file_is_reported_once_and_the_last_valid_one_stays(file: Path) -> None:
    configuration = ConfigFile(file, builtin())
    with capture_logs() as logs:
        for space in ("", " "):
            file.write_text(f'actions: "allocat"{space}\ntiers: []\n')
            assert not configuration.reload()
    assert configuration.current.actions == ("allocate",)
    assert [line["problem"] for line in logs] == [
        f"scheduler configuration {file}: actions: unknown action 'allocat', did you mean 'allocate'?"
    ]


def test_the_metric_shows_an_invalid_file_until_it_is_corrected(file: Path) -> None:
    def shown() -> float | None:
        return REGISTRY.get_sample_value("volcanopy_configuration_invalid", {"configuration": "scheduler"})

    configuration = ConfigFile(file, builtin())
    values = [shown()]
    for text in ("actions: [", GOOD):
        file.write_text(text)
        configuration.reload()
        values.append(shown())
    assert values == [0, 1, 0]


def test_a_removed_and_restored_file_is_loaded_again(file: Path) -> None:
    configuration = ConfigFile(file, builtin())
    file.unlink()
    with capture_logs() as logs:
        assert not configuration.reload()
    assert "cannot be read: No such file" in logs[0]["problem"]
    assert configuration.current.actions == ("allocate",)
    file.write_text('actions: "backfill"\ntiers: []\n')
    assert configuration.reload()
    assert configuration.current.actions == ("backfill",)
