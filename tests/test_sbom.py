"""The software bill of materials has every package of the lock file, with all hashes."""

import re
import tomllib
from pathlib import Path

import pytest

from hack.sbom import LOCK, document, main, packages

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_pinned_package_is_a_component_with_its_hashes() -> None:
    lock = LOCK.read_text()
    components = document(lock, PROJECT)["components"]
    pinned = re.findall(r"^([\w.-]+)(?:\[.*?\])?==([\w.+!-]+)", lock, re.MULTILINE)
    assert sorted((each["name"], each["version"]) for each in components) == sorted(pinned)
    assert len(components) > 20
    hashes = [entry for each in components for entry in each["externalReferences"][0]["hashes"]]
    assert len(hashes) == lock.count("--hash=sha256:")
    assert all(each["externalReferences"][0]["hashes"] for each in components)
    names = {re.split(r"[<>=\[]", text)[0].replace("_", "-").lower() for text in PROJECT["dependencies"]}
    assert names <= {each["purl"].removeprefix("pkg:pypi/").partition("@")[0] for each in components}


def test_the_document_is_the_same_for_the_same_lock_file() -> None:
    lock = "a==1 ; python_version < '3.13' \\\n    --hash=sha256:" + "0" * 64 + "\n"
    assert document(lock, PROJECT) == document(lock, PROJECT)
    (component,) = document(lock, PROJECT)["components"]
    assert component["purl"] == "pkg:pypi/a@1"
    assert component["properties"] == [{"name": "python:marker", "value": "python_version < '3.13'"}]


def test_a_package_that_is_not_pinned_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a pinned package: a>=1"):
        list(packages("a>=1\n"))
    assert main([]) == 2
    assert main([str(tmp_path / "dist" / "sbom.json")]) == 0
