"""Paths that others influence stay below their folder, whatever stands there and whatever changes meanwhile."""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from volcanopy_local.process.beneath import PathError, open_beneath, open_source, opened, real_path

LINKS = {
    "absolute": "/etc",
    "up": "..",
    "further up": "../../../../../../etc",
    "inside": "folder",
    "up and back": "folder/../folder",
    "circle": "circle",
    "chain": "inside",
    "chain out": "absolute",
}


def tree(folder: Path) -> Path:
    """A folder with links, beside a secret."""
    root = folder / "root"
    (root / "folder/sub").mkdir(parents=True)
    (root / "folder/file").write_text("content")
    (folder / "secret").write_text("secret")
    for name, text in LINKS.items():
        (root / name).symlink_to(text)
        (root / "folder" / name).symlink_to(text)
    return root


def path_of(root: Path, path: str, *, in_root: bool = False) -> str:
    with opened(os.open(root, os.O_PATH)) as folder, opened(open_beneath(folder, path, in_root=in_root)) as descriptor:
        return real_path(descriptor)


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "folder/../..",
        "a/../folder",
        "/etc",
        "//etc",
        "absolute",
        "up",
        "further up",
        "folder/further up",
        "chain out",
    ],
)
def test_a_path_that_leads_out_or_has_two_dots_is_rejected(tmp_path: Path, path: str) -> None:
    with pytest.raises(PathError):
        path_of(tree(tmp_path), path)


@pytest.mark.parametrize(
    "path", ["", ".", "folder", "folder//", "./folder", "inside", "up and back", "chain", "folder/up/folder"]
)
def test_a_path_that_stays_inside_is_opened_also_by_links(tmp_path: Path, path: str) -> None:
    root = tree(tmp_path)
    assert path_of(root, path) == os.path.realpath(root / path)


def test_a_circle_of_links_and_a_link_in_the_path_of_the_folder_are_rejected(tmp_path: Path) -> None:
    root = tree(tmp_path)
    for folder, inside in ((root, "circle"), (root / "inside", "sub")):
        with pytest.raises(PathError):
            open_source(str(folder), inside)


def test_in_a_root_of_its_own_links_lead_to_the_same_places_as_for_the_kernel(tmp_path: Path) -> None:
    root = tree(tmp_path)
    (root / "etc").mkdir()
    for path in ("absolute", "further up", "/absolute", "../../etc", "folder/chain out"):
        assert path_of(root, path, in_root=True) == str(root / "etc")


def test_missing_folders_are_made_with_mode_and_owner_of_their_volume_and_never_outside(tmp_path: Path) -> None:
    root = tree(tmp_path)
    if os.geteuid() == 0:
        os.chown(root / "folder", 1234, 1234)
    before = os.umask(0o077)
    os.close(open_source(str(root), "inside/new/newer", mode=0o777))
    os.umask(before)
    for made in (root / "folder/new", root / "folder/new/newer"):
        assert made.stat().st_mode & 0o777 == 0o777
        assert made.stat().st_uid == (root / "folder").stat().st_uid
    with pytest.raises(PathError):
        open_source(str(root), "up/made", mode=0o777)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("step", range(16))
def test_a_folder_that_becomes_a_link_while_it_is_opened_never_leads_out(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside, calls = tree(tmp_path), tmp_path / "outside", [0]
    outside.mkdir()

    def swapping(call: Any) -> Any:
        def swapped(*arguments: Any, **options: Any) -> Any:
            if calls[0] == step:
                (root / "folder/sub").rename(root / "moved")
                (root / "folder/sub").symlink_to(outside)
            calls[0] += 1
            return call(*arguments, **options)

        return swapped

    with monkeypatch.context() as patch, contextlib.suppress(OSError):
        for name in ("open", "mkdir", "fstat", "fchmod"):
            patch.setattr(f"volcanopy_local.process.beneath.os.{name}", swapping(getattr(os, name)))
        with opened(open_source(str(root), "folder/sub/made", mode=0o777)) as descriptor:
            assert Path(real_path(descriptor)).is_relative_to(root)
    assert calls[0] > 4
    assert not list(outside.iterdir())


NAMES = st.sampled_from(["..", ".", "", "/", "folder", "file", "sub", "new", "\n", "…", "a" * 300, *LINKS])


@examples(400)
@given(names=st.lists(NAMES, max_size=6), separator=st.sampled_from(["/", "//", "/./"]))
def test_no_path_leads_out(names: list[str], separator: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "no_path_leads_out"
    root = folder / "root" if folder.exists() else tree(folder)
    try:
        path = path_of(root, separator.join(names))
    except OSError:
        return
    assert Path(path).is_relative_to(root)
