"""The product speaks plain technical English: no retired word in names, messages, docstrings or documents."""

import re
from collections import Counter
from pathlib import Path

import pytest

from hack import language
from hack.distributions import IMPORT_PACKAGES, ROOT

GROUPS = ("bench", "chaos", "charts", "docs", "examples", "hack", "packages", "volcanopy")


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


MOST_BARE_NAMES = {
    "admission": 1,
    "api": 4,
    "cli": 69,
    "embedded_apiserver": 196,
    "jobcontroller": 115,
    "kube": 55,
    "scheduler": 771,
    "services": 193,
    "volcanopy_lab": 56,
    "volcanopy_local": 7,
    "volcanopy_policies": 52,
    "volcanopy_testing": 22,
    "whatif": 2,
}
"""Variables and parameters that are only a participle, adjective or pronoun, by package: lower it, never raise it."""
PACKAGES = [path.parent for path in sorted((ROOT / "volcanopy").glob("*/__init__.py"))]
PACKAGES += [path for path in IMPORT_PACKAGES if path.name != "volcanopy"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_has_no_more_names_that_are_no_nouns(package: Path) -> None:
    count = sum(len(language.bare_names(path.read_text())) for path in package.rglob("*.py"))
    assert count <= MOST_BARE_NAMES.get(package.name, 0), "name variables by nouns: see hack.language.BARE"


def test_a_variable_and_a_parameter_without_a_noun_are_found() -> None:
    assert language.bare_names("def f(known, pods):\n    for each in pods: left = known_pods = each") == [
        "known",
        "each",
        "left",
    ]


def test_a_class_name_stands_in_at_most_two_modules() -> None:
    modules = Counter(
        name
        for package in IMPORT_PACKAGES
        if package.name != "embedded_apiserver"  # its classes stand beside none of the others
        for path in package.rglob("*.py")
        for name in set(re.findall(r"^ *class (\w+)", path.read_text(), re.MULTILINE))
    )
    assert {name for name, number in modules.items() if number > 2} == set()
