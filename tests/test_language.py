"""The product speaks plain technical English: no retired word in names, messages, docstrings or documents."""

from pathlib import Path

import pytest

from hack import language

GROUPS = ("bench", "charts", "docs", "examples", "hack", "packages", "volcanopy")


@pytest.mark.parametrize("folder", [*GROUPS, ""], ids=lambda folder: folder or "root")
def test_no_retired_word_is_used(folder: str) -> None:
    paths = language.files([f"{folder}/"] if folder else [])
    if not folder:
        paths = [path for path in paths if "/" not in path]
    assert paths
    assert [str(hit) for hit in language.hits(paths)] == []


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ('"""What the queue deserves."""', "deserves"),
        ('raise ValueError("queue a is turned away")', "turned away"),
        ("x = 1  # whoever reads this", "whoever"),
        ("def find(taker): ...", "taker"),
        ("for one in (1, 2): ...", "one"),
        ("class Counsel: ...", "Counsel"),
        ("self.promised_room = 1", "promised"),
    ],
)
def test_a_retired_word_in_python_is_found(source: str, word: str) -> None:
    assert word in {hit.word for hit in language.python("volcanopy/example.py", source)}


def test_a_module_name_is_checked() -> None:
    assert [hit.word for hit in language.python("volcanopy/cli/telling.py", "")] == ["telling"]


def test_every_exception_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of the allow-list that no file needs any more is removed."""
    exceptions = [(path, text) for path, texts in language.ALLOWED.items() if path != "*" for text in texts]
    assert all((language.ROOT / path).is_file() for path, _ in exceptions)
    monkeypatch.setattr(language, "ALLOWED", {"*": language.ALLOWED["*"]})
    for path, text in exceptions:
        hits = [hit for hit in language.hits([path]) if text in hit.text.lower()]
        assert hits, f"{path}: {text!r} is not needed"


def test_every_pattern_names_its_replacement() -> None:
    assert all(use for use in (*language.PROSE.values(), *language.NAMES.values()))
    assert Path(language.__file__).is_relative_to(language.ROOT)
